//! Everything that clients ask before they lock anything: who is there, and may they come in.

use std::sync::Arc;

use dlock_core::command::{Arg, Doc, Kind};
use sha2::{Digest, Sha256};

use super::commands::{self, Answer, Command, Greeting as Ask, TOO_MANY};
use super::limits::{CHANNELS, NAME};
use super::reply::{Protocol, Reply, map};
use super::session::Session;
use super::shared::Agent;

/// Answers a command.
pub fn answer(agent: &Arc<Agent>, session: &mut Session, ask: Ask, args: &[&[u8]]) -> Answer {
    let before_login = [Ask::Auth, Ask::Hello, Ask::Quit, Ask::Reset];
    if !session.is_known && !before_login.contains(&ask) {
        return Reply::error(commands::NO_AUTH).into();
    }
    match ask {
        Ask::Auth => auth(agent, session, args).into(),
        Ask::Client => client(session, args).into(),
        Ask::Command => command(args).into(),
        Ask::Echo => Reply::text(args.first().copied().unwrap_or_default()).into(),
        Ask::Hello => hello(agent, session, args).into(),
        Ask::Info => Reply::text(info(agent)).into(),
        Ask::Ping => ping(session, args).into(),
        Ask::Quit => Answer { ends: true, ..Reply::OK.into() },
        Ask::Reset => {
            session.reset();
            Reply::status("RESET").into()
        }
        Ask::Role => {
            let role = [Reply::text("master"), Reply::Int(0), Reply::Array(Vec::new())];
            Reply::Array(role.into()).into()
        }
        Ask::Select if args == [b"0"] => Reply::OK.into(),
        Ask::Select => Reply::error("ERR an agent has the database 0 only").into(),
        Ask::Subscribe => subscribe(agent, session, args),
        Ask::Unsubscribe => unsubscribe(session, args),
    }
}

fn ping(session: &Session, args: &[&[u8]]) -> Reply {
    match args {
        [] if session.only_subscribes() => Reply::Array(vec![Reply::text("pong"), Reply::text("")]),
        [] => Reply::status("PONG"),
        [text] if session.only_subscribes() => {
            Reply::Array(vec![Reply::text("pong"), Reply::text(text)])
        }
        [text] => Reply::text(text),
        _ => Reply::error("ERR wrong number of arguments for 'ping' command"),
    }
}

// --- login ------------------------------------------------------------------------------------------

fn auth(agent: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Reply {
    match args {
        [password] => login(agent, session, b"default", password),
        [user, password] => login(agent, session, user, password),
        _ => Reply::error("ERR wrong number of arguments for 'auth' command"),
    }
}

fn login(agent: &Arc<Agent>, session: &mut Session, user: &[u8], password: &[u8]) -> Reply {
    let Some(known) = &agent.password else {
        // Whoever can open the socket needs none. Clients that send one all the same are let in.
        return if session.is_known { Reply::OK } else { Reply::error(WRONG_PASSWORD) };
    };
    // Digests, so that the time of the comparison tells nothing.
    let is_right = Sha256::digest(password)[..] == known[..] && user == b"default";
    if !is_right && !session.is_known {
        Reply::error(WRONG_PASSWORD)
    } else if session.log_in(agent) {
        Reply::OK
    } else {
        Reply::error(TOO_MANY)
    }
}

fn hello(agent: &Arc<Agent>, session: &mut Session, args: &[&[u8]]) -> Reply {
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
    let mut name = None;
    loop {
        rest = match rest {
            [] => break,
            [word, user, password, after @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                if let error @ Reply::Error(_) = login(agent, session, user, password) {
                    return error;
                }
                after
            }
            [word, given, after @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(*given);
                after
            }
            _ => return Reply::error("ERR Syntax error in HELLO"),
        };
    }
    if !session.is_known {
        return Reply::error(HELLO_NO_AUTH);
    }
    if let Some(error) = name.and_then(|name| set_name(session, name)) {
        return error;
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

fn client(session: &mut Session, args: &[&[u8]]) -> Reply {
    let Some((subcommand, rest)) = args.split_first() else {
        return Reply::error("ERR wrong number of arguments for 'client' command");
    };
    match (subcommand.to_ascii_uppercase().as_slice(), rest) {
        (b"ID", []) => Reply::number(session.id),
        (b"GETNAME", []) if session.name.is_empty() => Reply::Null,
        (b"GETNAME", []) => Reply::text(&session.name),
        (b"SETNAME", [name]) => set_name(session, name).unwrap_or(Reply::OK),
        // Names and versions of libraries, and wishes about caching: they change nothing here.
        (b"SETINFO", [_, value]) if value.len() <= NAME => Reply::OK,
        (b"NO-EVICT" | b"NO-TOUCH", [_]) | (b"CAPA", _) => Reply::OK,
        (b"INFO", []) => Reply::text(about(session)),
        (b"LIST", _) => Reply::text(about(session)),
        _ => unknown_subcommand("client", subcommand),
    }
}

fn set_name(session: &mut Session, name: &[u8]) -> Option<Reply> {
    if name.len() > NAME || !name.iter().all(u8::is_ascii_graphic) {
        let text = "ERR Client names cannot contain spaces, newlines or special characters.";
        return Some(Reply::error(text));
    }
    session.name = name.to_vec();
    None
}

fn about(session: &Session) -> String {
    let name = String::from_utf8_lossy(&session.name);
    let resp = if session.protocol == Protocol::Resp3 { 3 } else { 2 };
    format!("id={} name={name} db=0 resp={resp} user=default\n", session.id)
}

fn unknown_subcommand(command: &str, given: &[u8]) -> Reply {
    let given = String::from_utf8_lossy(given.get(..128).unwrap_or(given)).into_owned();
    Reply::error(format_args!(
        "ERR unknown subcommand '{}' of {command} at an agent",
        given.escape_debug()
    ))
}

// --- the agent about itself ----------------------------------------------------------------------------

fn command(args: &[&[u8]]) -> Reply {
    let Some((subcommand, rest)) = args.split_first() else {
        return Reply::Array(commands::ALL.iter().map(described).collect());
    };
    match (subcommand.to_ascii_uppercase().as_slice(), rest) {
        (b"COUNT", []) => Reply::number(commands::ALL.len() as u64),
        (b"LIST", []) => {
            let names = commands::ALL.iter().map(|command| command.name.to_ascii_lowercase());
            Reply::Array(names.map(Reply::text).collect())
        }
        (b"INFO", []) => Reply::Array(commands::ALL.iter().map(described).collect()),
        (b"INFO", names) => Reply::Array(names.iter().map(|name| described_by(name)).collect()),
        (b"DOCS", names) => {
            let called =
                |doc: &Doc| names.iter().any(|name| name.eq_ignore_ascii_case(doc.name.as_bytes()));
            let docs = commands::ALL.iter().filter_map(Command::doc);
            let docs = docs.filter(|doc| names.is_empty() || called(doc));
            Reply::Map(docs.map(documented).collect())
        }
        _ => unknown_subcommand("command", subcommand),
    }
}

fn described_by(name: &[u8]) -> Reply {
    let called = |command: &&Command| name.eq_ignore_ascii_case(command.name.as_bytes());
    commands::ALL.iter().find(called).map_or(Reply::Null, described)
}

/// Name, summary and arguments, from which redis-cli makes its hints.
fn documented(doc: &'static Doc) -> (Reply, Reply) {
    let arguments = Reply::Array(doc.args.iter().map(argument).collect());
    let fields = map([
        ("summary", Reply::text(doc.summary)),
        ("since", Reply::text(env!("CARGO_PKG_VERSION"))),
        ("group", Reply::text("module")),
        ("arguments", arguments),
    ]);
    (Reply::text(doc.name.to_ascii_lowercase()), fields)
}

fn argument(arg: &Arg) -> Reply {
    let kind = match arg.kind {
        Kind::Key => "key",
        Kind::Number => "integer",
        Kind::Word => "pure-token",
        // An agent has no alternatives.
        Kind::Text | Kind::Rest | Kind::OneOf(_) => "string",
    };
    let words = [("name", arg.name), ("type", kind)].into_iter();
    let words = words.chain(arg.word.map(|word| ("token", word)));
    let flags = arg.optional.then(|| Reply::status("optional"));
    let flags = (Reply::text("flags"), Reply::Array(flags.into_iter().collect()));
    let fields = words.map(|(name, value)| (Reply::text(name), Reply::text(value)));
    Reply::Map(fields.chain([flags]).collect())
}

/// Name, arity, flags, and the places of the keys.
fn described(command: &Command) -> Reply {
    let doc = command.doc();
    let key = Reply::Int(doc.is_some_and(|doc| doc.key.is_some()).into());
    Reply::Array(vec![
        Reply::text(command.name.to_ascii_lowercase()),
        Reply::Int(command.arity.into()),
        Reply::Array(Vec::new()),
        key.clone(),
        key.clone(),
        key,
    ])
}

/// The lines that clients read at their greeting, and the agent's own figures.
fn info(agent: &Agent) -> String {
    let figures = agent.figures.all();
    let mut text = format!(
        "# Server\r\nredis_version:{LIKE_REDIS}\r\nredis_mode:standalone\r\nloading:0\r\n\
         process_id:{}\r\nuptime_in_seconds:{}\r\n# Replication\r\nrole:master\r\n\
         connected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n# dlock_agent\r\n\
         dlock_agent_version:{}\r\n",
        std::process::id(),
        agent.since.elapsed().as_secs(),
        env!("CARGO_PKG_VERSION"),
    );
    for (name, _, _, value) in figures {
        text.push_str(&format!("dlock_agent_{name}:{value}\r\n"));
    }
    text
}

// --- losses ---------------------------------------------------------------------------------------------

fn subscribe(agent: &Agent, session: &mut Session, channels: &[&[u8]]) -> Answer {
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
    Answer { replies, ends: false, heard: None }
}

fn unsubscribe(session: &mut Session, channels: &[&[u8]]) -> Answer {
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
    Answer { replies, ends: false, heard: None }
}

fn subscribed(word: &str, channel: Option<&[u8]>, session: &Session) -> Reply {
    let count = Reply::number(session.channels().len() as u64);
    Reply::Push(vec![Reply::text(word), channel.map_or(Reply::Null, Reply::text), count])
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const HELLO_NO_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
                             and select the RESP protocol version at the same time";
/// An agent answers as this version of Redis where clients ask for one.
const LIKE_REDIS: &str = "7.2.0";
