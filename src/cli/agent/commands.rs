//! The commands: one table.

use dlock_core::command::{Doc, acquire, check, extend, inspect, node, release};
use tokio::sync::oneshot;

use super::reply::Reply;

/// The answer to a request.
pub struct Answer {
    /// One reply; SUBSCRIBE and the like have several.
    pub replies: Vec<Reply>,
    /// True if the connection ends after it.
    pub ends: bool,
    /// Set for a grant: notified when its reply was written.
    pub heard: Option<Heard>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { replies: vec![reply], ends: false, heard: None }
    }
}

/// Tells a lock that the reply to its caller was written. Dropping it means that it was not.
pub type Heard = oneshot::Sender<()>;

/// A command of an agent.
pub struct AgentCommand {
    /// Its name, in capitals.
    pub name: &'static str,
    /// Number of words, with the name; negative: at least that many.
    pub arity: i32,
    pub does: Does,
}

/// The part of the agent that answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Greeting(Greeting),
    Locking(Locking, &'static Doc),
}

/// A command at the beginning of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    Auth,
    Client,
    Echo,
    Hello,
    Info,
    Ping,
    Quit,
    Reset,
    Select,
    Subscribe,
    Unsubscribe,
}

/// A command of dlock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    Acquire,
    Release,
    Extend,
    Check,
    Inspect,
    Node,
}

/// Every command.
pub const ALL: &[AgentCommand] = &[
    locking(&acquire::AT_AGENT, Locking::Acquire),
    locking(&release::AT_AGENT, Locking::Release),
    locking(&extend::AT_AGENT, Locking::Extend),
    locking(&check::DOC, Locking::Check),
    locking(&inspect::DOC, Locking::Inspect),
    locking(&node::DOC, Locking::Node),
    greeting("AUTH", -2, Greeting::Auth),
    greeting("CLIENT", -2, Greeting::Client),
    greeting("ECHO", 2, Greeting::Echo),
    greeting("HELLO", -1, Greeting::Hello),
    greeting("INFO", -1, Greeting::Info),
    greeting("PING", -1, Greeting::Ping),
    greeting("QUIT", -1, Greeting::Quit),
    greeting("RESET", 1, Greeting::Reset),
    greeting("SELECT", 2, Greeting::Select),
    greeting("SUBSCRIBE", -2, Greeting::Subscribe),
    greeting("UNSUBSCRIBE", -1, Greeting::Unsubscribe),
];

const fn locking(doc: &'static Doc, ask: Locking) -> AgentCommand {
    AgentCommand { name: doc.name, arity: doc.arity, does: Does::Locking(ask, doc) }
}

const fn greeting(name: &'static str, arity: i32, ask: Greeting) -> AgentCommand {
    AgentCommand { name, arity, does: Does::Greeting(ask) }
}

/// The errors before a login, and for one connection too many.
pub const NO_AUTH: &str = "NOAUTH Authentication required.";
pub const TOO_MANY: &str = "ERR max number of clients reached";
