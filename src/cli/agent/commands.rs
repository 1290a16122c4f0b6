//! The commands: one table. [`greeting`](super::greeting) answers what clients ask before anything else,
//! [`locking`](super::locking) the commands of dlock.

use std::sync::Arc;

use dlock_core::command::{Doc, acquire, check, extend, help, inspect, node, release};

use super::Agent;
use super::greeting;
use super::locking::{self, Grant};
use super::reply::Reply;
use super::session::Session;

/// The answer to a request.
pub struct Answer {
    /// One reply, but for SUBSCRIBE and the like.
    pub replies: Vec<Reply>,
    /// True if the connection ends after it.
    pub ends: bool,
    /// The grant of which the client hears by this.
    pub grant: Option<Grant>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { replies: vec![reply], ends: false, grant: None }
    }
}

/// A command of an agent.
pub struct Command {
    /// Its name, in capitals.
    pub name: &'static str,
    /// Number of words, with the name; negative: at least that many.
    pub arity: i32,
    pub does: Does,
}

impl Command {
    /// Its documentation, if it is one of dlock.
    pub fn doc(&self) -> Option<&'static Doc> {
        match self.does {
            Does::Locking(_, doc) => Some(doc),
            Does::Greeting(_) => None,
        }
    }
}

/// The one who answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Greeting(greeting::Ask),
    Locking(locking::Ask, &'static Doc),
}

/// Every command.
pub const ALL: &[Command] = &[
    locking(&acquire::AT_AGENT, locking::Ask::Acquire),
    locking(&release::AT_AGENT, locking::Ask::Release),
    locking(&extend::AT_AGENT, locking::Ask::Extend),
    locking(&check::DOC, locking::Ask::Check),
    locking(&inspect::DOC, locking::Ask::Inspect),
    locking(&node::AT_AGENT, locking::Ask::Node),
    locking(&help::DOC, locking::Ask::Help),
    greeting("AUTH", -2, greeting::Ask::Auth),
    greeting("CLIENT", -2, greeting::Ask::Client),
    greeting("COMMAND", -1, greeting::Ask::Command),
    greeting("ECHO", 2, greeting::Ask::Echo),
    greeting("HELLO", -1, greeting::Ask::Hello),
    greeting("INFO", -1, greeting::Ask::Info),
    greeting("PING", -1, greeting::Ask::Ping),
    greeting("QUIT", -1, greeting::Ask::Quit),
    greeting("RESET", 1, greeting::Ask::Reset),
    greeting("ROLE", 1, greeting::Ask::Role),
    greeting("SELECT", 2, greeting::Ask::Select),
    greeting("SUBSCRIBE", -2, greeting::Ask::Subscribe),
    greeting("UNSUBSCRIBE", -1, greeting::Ask::Unsubscribe),
];

const fn locking(doc: &'static Doc, ask: locking::Ask) -> Command {
    Command { name: doc.name, arity: doc.arity, does: Does::Locking(ask, doc) }
}

const fn greeting(name: &'static str, arity: i32, ask: greeting::Ask) -> Command {
    Command { name, arity, does: Does::Greeting(ask) }
}

/// Answers a request of at least one word.
pub async fn answer(agent: &Arc<Agent>, session: &mut Session, words: &[&[u8]]) -> Answer {
    let Some((name, args)) = words.split_first() else { return Reply::Null.into() };
    let called =
        |(_, command): &(usize, &Command)| name.eq_ignore_ascii_case(command.name.as_bytes());
    let Some((place, command)) = ALL.iter().enumerate().find(called) else {
        // A client sends what belongs to a transaction without waiting for the answer, and must not be half served.
        let ends = name.eq_ignore_ascii_case(b"MULTI");
        return Answer { ends, ..Reply::error(unknown(session, name)).into() };
    };
    let answer = served(agent, session, command, words, args).await;
    agent.figures.count(place, &answer);
    answer
}

async fn served(
    agent: &Arc<Agent>,
    session: &mut Session,
    command: &Command,
    words: &[&[u8]],
    args: &[&[u8]],
) -> Answer {
    let needed = usize::try_from(command.arity.unsigned_abs()).unwrap_or(usize::MAX);
    if words.len() < needed || (command.arity > 0 && words.len() > needed) {
        let name = command.name.to_ascii_lowercase();
        let why = format!("ERR wrong number of arguments for '{name}' command");
        return Reply::Error(why).into();
    }
    match command.does {
        Does::Greeting(ask) => greeting::answer(agent, session, ask, args),
        Does::Locking(..) if !session.is_known => Reply::error(NO_AUTH).into(),
        Does::Locking(..) if session.only_subscribes() => Reply::error(SUBSCRIBED).into(),
        Does::Locking(ask, doc) => locking::answer(agent, session, (ask, doc), args).await,
    }
}

fn unknown(session: &Session, name: &[u8]) -> String {
    if !session.is_known {
        return NO_AUTH.to_owned();
    }
    if NOT_SERVED.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
        let name = String::from_utf8_lossy(name).to_uppercase();
        return format!("ERR {name} is for nodes; an agent does not serve it");
    }
    let name = String::from_utf8_lossy(name.get(..128).unwrap_or(name)).into_owned();
    format!("ERR unknown command '{}'; DLOCK.HELP lists those of an agent", name.escape_debug())
}

/// Commands of which a client may think that an agent has them.
const NOT_SERVED: [&str; 11] = [
    "DLOCK.TOKENS",
    "DLOCK.APPLY",
    "DLOCK.BREAK",
    "DLOCK.FENCED",
    "DLOCK.MARK",
    "DLOCK.EVICTED",
    "DLOCK.HOT",
    "MULTI",
    "EXEC",
    "EVAL",
    "EVALSHA",
];

pub const NO_AUTH: &str = "NOAUTH Authentication required.";
const SUBSCRIBED: &str = "ERR only (UN)SUBSCRIBE, PING, QUIT and RESET are allowed in this context";
