//! From a request to its answer: [`greeting`] has the commands at the beginning of a connection, [`locking`] the
//! commands of dlock.

use std::sync::Arc;

use super::commands::{self, AgentCommand, Answer, Does, NO_AUTH};
use super::reply::Reply;
use super::session::Session;
use super::shared::Agent;
use super::{greeting, locking};

/// Answers a request of at least one word.
pub async fn answer(agent: &Arc<Agent>, session: &mut Session, words: &[&[u8]]) -> Answer {
    let Some((name, args)) = words.split_first() else { return Reply::Null.into() };
    let called = |command: &&AgentCommand| name.eq_ignore_ascii_case(command.name.as_bytes());
    let Some(command) = commands::ALL.iter().find(called) else {
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
    let name = String::from_utf8_lossy(name.get(..128).unwrap_or(name)).into_owned();
    format!("ERR unknown command '{}' at an agent", name.escape_debug())
}

const SUBSCRIBED: &str = "ERR only (UN)SUBSCRIBE, PING, QUIT and RESET are allowed in this context";
