//! The commands at the beginning of a connection: login, version of the protocol, name, subscriptions.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::limits::{CHANNELS, NAME};
use super::peer::Peer;
use super::reply::{Answer, Protocol, Reply, map};
use super::session::Session;
use super::shared::Agent;

pub fn ping(_: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Answer {
    let text = args.first().copied().unwrap_or_default();
    let reply = match args {
        [] | [_] if session.only_subscribes() => {
            Reply::Array(vec![Reply::text("pong"), Reply::text(text)])
        }
        [] => Reply::status("PONG"),
        [_] => Reply::text(text),
        _ => Reply::error("ERR wrong number of arguments for 'ping' command"),
    };
    reply.into()
}

pub fn echo(_: &Arc<Agent>, _: &mut Session, args: &[&[u8]]) -> Answer {
    Reply::text(args.first().copied().unwrap_or_default()).into()
}

pub fn select(_: &Arc<Agent>, _: &mut Session, args: &[&[u8]]) -> Answer {
    match args {
        [b"0"] => Reply::OK.into(),
        _ => Reply::error("ERR an agent has the database 0 only").into(),
    }
}

pub fn quit(_: &Arc<Agent>, _: &mut Session, _: &[&[u8]]) -> Answer {
    Answer { ends: true, ..Reply::OK.into() }
}

pub fn reset(_: &Arc<Agent>, session: &mut Session, _: &[&[u8]]) -> Answer {
    session.reset();
    Reply::status("RESET").into()
}

// --- login ------------------------------------------------------------------------------------------

pub fn auth(agent: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Answer {
    let reply = match args {
        [password] => login(agent, session, b"default", password),
        [user, password] => login(agent, session, user, password),
        _ => Reply::error("ERR wrong number of arguments for 'auth' command"),
    };
    reply.into()
}

fn login(agent: &Arc<Agent>, session: &mut Session, user: &[u8], password: &[u8]) -> Reply {
    let Some(known) = &agent.password else {
        return if session.is_known { Reply::OK } else { Reply::error(WRONG_PASSWORD) };
    };
    // Digests, so that the time of the comparison reveals nothing.
    let is_right = Sha256::digest(password)[..] == known[..] && user == b"default";
    // The system has named the user of a unix socket, which needs no password and accepts any.
    if !is_right && session.peer == Peer::Tcp {
        Reply::error(WRONG_PASSWORD)
    } else if session.log_in(agent) {
        Reply::OK
    } else {
        Reply::error(TOO_MANY)
    }
}

pub fn hello(agent: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Answer {
    greeted(agent, session, args).into()
}

fn greeted(agent: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Reply {
    let mut protocol = session.protocol;
    let mut rest = args;
    if let [version, after @ ..] = rest {
        protocol = match *version {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            _ => return Reply::error("NOPROTO unsupported protocol version"),
        };
        rest = after;
    }
    loop {
        rest = match rest {
            [] => break,
            [word, user, password, after @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                if let error @ Reply::Error(_) = login(agent, session, user, password) {
                    return error;
                }
                after
            }
            [word, _, after @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => after,
            _ => return Reply::error("ERR Syntax error in HELLO"),
        };
    }
    if !session.is_known {
        return Reply::error(HELLO_NO_AUTH);
    }
    session.protocol = protocol;
    map([
        ("server", Reply::text("redis")),
        ("version", Reply::text(LIKE_REDIS)),
        ("proto", Reply::Int(if protocol == Protocol::Resp3 { 3 } else { 2 })),
        ("id", Reply::number(session.id)),
        ("mode", Reply::text("standalone")),
        ("role", Reply::text("master")),
        ("modules", Reply::Array(Vec::new())),
    ])
}

// --- the client about itself ---------------------------------------------------------------------------

pub fn client(_: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Answer {
    let subcommand = args.first().copied().unwrap_or_default();
    let reply = match (subcommand.to_ascii_uppercase().as_slice(), args) {
        (b"ID", [_]) => Reply::number(session.id),
        // These have no effect here.
        (b"SETNAME" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH" | b"CAPA", _) => Reply::OK,
        _ => {
            let given = String::from_utf8_lossy(subcommand.get(..128).unwrap_or(subcommand));
            let given = given.escape_debug();
            Reply::error(format_args!("ERR unknown subcommand '{given}' of client at an agent"))
        }
    };
    reply.into()
}

// --- the agent about itself ----------------------------------------------------------------------------

/// The lines that clients read when they connect, and the agent's own figures.
pub fn info(agent: &Arc<Agent>, _: &mut Session, _: &[&[u8]]) -> Answer {
    let figures = agent.common.figures.all();
    let mut text = format!(
        "# Server\r\nredis_version:{LIKE_REDIS}\r\nredis_mode:standalone\r\nloading:0\r\n\
         # Replication\r\nrole:master\r\n\
         connected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n# dlock_agent\r\n\
         dlock_agent_version:{}\r\n",
        env!("CARGO_PKG_VERSION"),
    );
    for (name, _, _, value) in figures {
        text.push_str(&format!("dlock_agent_{name}:{value}\r\n"));
    }
    Reply::text(text).into()
}

// --- losses ---------------------------------------------------------------------------------------------

pub fn subscribe(agent: &Arc<Agent>, session: &mut Session, channels: &[&[u8]]) -> Answer {
    let mut replies = Vec::new();
    for channel in channels {
        let is_new = !session.channels().contains(*channel);
        if channel.len() > NAME || (is_new && session.channels().len() >= CHANNELS) {
            replies.push(Reply::error("ERR too many channels, or too long a name"));
            continue;
        }
        session.subscribe(agent, channel);
        replies.push(subscribed("subscribe", Some(channel), session));
    }
    Answer { replies, ends: false }
}

pub fn unsubscribe(_: &Arc<Agent>, session: &mut Session, channels: &[&[u8]]) -> Answer {
    let all: Vec<Vec<u8>> = match channels {
        [] => session.channels().iter().cloned().collect(),
        some => some.iter().map(|channel| channel.to_vec()).collect(),
    };
    if all.is_empty() {
        return subscribed("unsubscribe", None, session).into();
    }
    let mut replies = Vec::new();
    for channel in all {
        session.unsubscribe(&channel);
        replies.push(subscribed("unsubscribe", Some(&channel), session));
    }
    Answer { replies, ends: false }
}

fn subscribed(word: &str, channel: Option<&[u8]>, session: &Session) -> Reply {
    let count = Reply::number(session.channels().len() as u64);
    Reply::Push(vec![Reply::text(word), channel.map_or(Reply::Null, Reply::text), count])
}

/// The errors before a login, and for one connection too many.
pub const NO_AUTH: &str = "NOAUTH Authentication required.";
pub const TOO_MANY: &str = "ERR max number of clients reached";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const HELLO_NO_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
                             and select the RESP protocol version at the same time";
/// An agent answers as this version of Redis where clients ask for one.
const LIKE_REDIS: &str = "7.2.0";
