//! From a request to its answer, by one table: [`greeting`] has the commands at the beginning of a connection,
//! [`locking`] the commands of dlock.

use std::sync::Arc;

use dlock_core::command::{Doc, acquire, check, extend, node, release};

use super::greeting::{self, NO_AUTH};
use super::locking::{self, Locking};
use super::reply::{Answer, Reply};
use super::session::Session;
use super::shared::Agent;

/// A command of an agent.
struct Command {
    /// Its name, in capitals.
    name: &'static str,
    /// Number of words, with the name; negative: at least that many.
    arity: i32,
    does: Does,
}

/// The part of the agent that answers.
enum Does {
    /// A command at the beginning of a connection; true: also before a login.
    Greeting(Greeting, bool),
    Locking(Locking, &'static Doc),
}

type Greeting = fn(&Arc<Agent>, &mut Session, &[&[u8]]) -> Answer;

/// Every command.
const ALL: &[Command] = &[
    locking(&acquire::AT_AGENT, Locking::Acquire),
    locking(&release::AT_AGENT, Locking::Release),
    locking(&extend::AT_AGENT, Locking::Extend),
    locking(&check::DOC, Locking::Check),
    locking(&node::DOC, Locking::Node),
    first("AUTH", -2, greeting::auth),
    first("HELLO", -1, greeting::hello),
    first("QUIT", -1, greeting::quit),
    first("RESET", 1, greeting::reset),
    greeting("CLIENT", -2, greeting::client),
    greeting("ECHO", 2, greeting::echo),
    greeting("INFO", -1, greeting::info),
    greeting("PING", -1, greeting::ping),
    greeting("SELECT", 2, greeting::select),
    greeting("SUBSCRIBE", -2, greeting::subscribe),
    greeting("UNSUBSCRIBE", -1, greeting::unsubscribe),
];

const fn locking(doc: &'static Doc, ask: Locking) -> Command {
    Command { name: doc.name, arity: doc.arity, does: Does::Locking(ask, doc) }
}

const fn greeting(name: &'static str, arity: i32, answer: Greeting) -> Command {
    Command { name, arity, does: Does::Greeting(answer, false) }
}

const fn first(name: &'static str, arity: i32, answer: Greeting) -> Command {
    Command { name, arity, does: Does::Greeting(answer, true) }
}

/// Answers a request of at least one word.
pub async fn answer(agent: &Arc<Agent>, session: &mut Session, words: &[&[u8]]) -> Answer {
    let Some((name, args)) = words.split_first() else { return Reply::Null.into() };
    let called = |command: &&Command| name.eq_ignore_ascii_case(command.name.as_bytes());
    let Some(command) = ALL.iter().find(called) else {
        // A client sends a transaction without waiting for answers, and its commands must not run one by one.
        let ends = name.eq_ignore_ascii_case(b"MULTI");
        return Answer { ends, ..Reply::error(unknown(session, name)).into() };
    };
    let needed = usize::try_from(command.arity.unsigned_abs()).unwrap_or(usize::MAX);
    if words.len() < needed || (command.arity > 0 && words.len() > needed) {
        let name = command.name.to_ascii_lowercase();
        let why = format!("ERR wrong number of arguments for '{name}' command");
        return Reply::Error(why).into();
    }
    match command.does {
        Does::Greeting(answer, true) => answer(agent, session, args),
        _ if !session.is_known => Reply::error(NO_AUTH).into(),
        Does::Greeting(answer, false) => answer(agent, session, args),
        Does::Locking(..) if session.only_subscribes() => Reply::error(SUBSCRIBED).into(),
        Does::Locking(ask, doc) => locking::answer(agent, session, (ask, doc), args).await,
    }
}

fn unknown(session: &Session, name: &[u8]) -> String {
    if !session.is_known {
        return NO_AUTH.to_owned();
    }
    let name = String::from_utf8_lossy(name.get(..128).unwrap_or(name)).into_owned();
    format!("ERR unknown command '{}' at an agent", name.escape_debug())
}

const SUBSCRIBED: &str = "ERR only (UN)SUBSCRIBE, PING, QUIT and RESET are allowed in this context";
