//! Requests to nodes one by one: an operator wants the answer of each, majority or not.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use dlock_client::operator::{Connection, Endpoint, Server, StandBy, UnexpectedReply};
use dlock_client::{Address, Key, NodeError};
use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, ServerError, Value};
use serde_json::json;

use crate::global::Global;
use crate::nodes;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::{duration, stderr};

/// The nodes of the command line.
pub struct Nodes {
    targets: Vec<Target>,
    timeout: Duration,
}

#[derive(Clone)]
struct Target {
    name: String,
    address: Address,
}

/// Each node's answer or error, in the given order.
pub type Answers<T> = Vec<(String, Result<T, Trouble>)>;

/// An error of a request to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub kind: Kind,
    pub words: String,
}

impl Nodes {
    /// Reads the nodes of the command line.
    pub fn of(global: &Global) -> Result<Nodes, Failure> {
        let mut targets = Vec::new();
        for url in nodes::urls(global)? {
            let address = Address::read(&url)?;
            targets.push(Target { name: short(address.name()), address });
        }
        Ok(Nodes { targets, timeout: nodes::timeout(global) })
    }

    /// Time-out of a request to a node.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.targets.len()
    }

    /// Number of nodes that are a majority.
    pub fn majority(&self) -> usize {
        self.count() / 2 + 1
    }

    /// Returns each node by itself.
    pub fn apart(&self) -> Vec<Nodes> {
        let alone =
            |target: &Target| Nodes { targets: vec![target.clone()], timeout: self.timeout };
        self.targets.iter().map(alone).collect()
    }

    /// True if one of the nodes is a cluster.
    pub fn has_cluster(&self) -> bool {
        self.targets.iter().any(|target| target.address.is_cluster())
    }

    /// Sends a command about this key to all nodes at once.
    pub async fn ask(&self, key: &Key, command: &Cmd) -> Answers<Value> {
        let asked = self.targets.iter().map(async |target| {
            let (name, answer) = target.address.ask(key, command, self.timeout).await;
            (short(&name), answer.map_err(Trouble::from))
        });
        join_all(asked).await
    }

    /// Connects to all nodes at once, and asks each; of a cluster all primaries.
    pub async fn each<T, F, A>(&self, ask: F) -> Answers<T>
    where
        T: Send + 'static,
        F: Fn(Node) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<T, Trouble>> + Send,
    {
        self.ask_all(self.servers().await.into_iter(), ask).await
    }

    /// Returns the replicas and Sentinels of the first node, if it fails over.
    pub async fn stand_by(&self) -> Result<Option<StandBy>, Trouble> {
        let Some(first) = self.targets.first() else { return Ok(None) };
        Ok(first.address.stand_by(self.timeout).await?)
    }

    /// Connects to these servers at once, and asks each.
    pub async fn ask_all<T, F, A>(
        &self,
        servers: impl Iterator<Item = (String, Result<Server, Trouble>)>,
        ask: F,
    ) -> Answers<T>
    where
        T: Send + 'static,
        F: Fn(Node) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<T, Trouble>> + Send,
    {
        let (timeout, mut asked) = (self.timeout, Vec::new());
        for (name, found) in servers {
            let ask = ask.clone();
            let task = async move { ask(Node::connect(&found?.endpoint, timeout).await?).await };
            asked.push((name, tokio::spawn(task)));
        }
        let mut answers = Vec::new();
        for (name, task) in asked {
            let answer = task.await.unwrap_or_else(|error| Err(error.to_string().into()));
            answers.push((name, answer));
        }
        answers
    }
}

impl Nodes {
    /// Returns the present servers of all nodes, with the names to show: of a cluster all primaries.
    pub async fn servers(&self) -> Answers<Server> {
        let servers = self.targets.iter().map(|target| target.servers(self.timeout));
        join_all(servers).await.into_iter().flatten().collect()
    }
}

impl Target {
    /// Returns the servers to ask, with the names to show.
    async fn servers(&self, within: Duration) -> Vec<(String, Result<Server, Trouble>)> {
        match self.address.primaries(within).await {
            Err(error) => vec![(self.name.clone(), Err(error.into()))],
            Ok(servers) => {
                servers.into_iter().map(|server| (short(&server.name), Ok(server))).collect()
            }
        }
    }
}

/// Leaves out the usual scheme.
fn short(name: &str) -> String {
    name.strip_prefix("redis://").unwrap_or(name).to_owned()
}

/// A connection to one node.
#[derive(Clone)]
pub struct Node {
    connection: Connection,
    timeout: Duration,
}

impl Node {
    pub(super) async fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<Node, Trouble> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(timeout));
        let connection = endpoint.connect(config, timeout).await;
        match connection {
            Ok(connection) => Ok(Node { connection, timeout }),
            Err(error) => Err(NodeError::not_connected(endpoint, &error, timeout).into()),
        }
    }

    /// Runs one command.
    pub async fn run(&mut self, command: &Cmd) -> Result<Value, Trouble> {
        let answer: Result<Value, RedisError> = command.query_async(&mut *self.connection).await;
        answer.map_err(|error| Trouble::of(&error, self.timeout))
    }

    /// Runs many commands at once. An error among the answers is a value of its own.
    pub async fn run_all(&mut self, mut commands: Pipeline) -> Result<Vec<Value>, Trouble> {
        commands.ignore_errors();
        let answers: Result<Vec<Value>, _> = commands.query_async(&mut *self.connection).await;
        answers.map_err(|error| Trouble::of(&error, self.timeout))
    }
}

impl Trouble {
    pub fn of(error: &RedisError, timeout: Duration) -> Trouble {
        if error.is_timeout() {
            let words = format!("no answer within {}", duration::shown(timeout));
            return Trouble { kind: Kind::TimedOut, words };
        }
        NodeError::from(error).into()
    }

    /// An agent has been named as a node.
    pub fn agent() -> Trouble {
        "it is an agent and no node: give the addresses of the nodes behind it".into()
    }

    /// Reads an error among answers.
    pub fn said(error: &ServerError) -> Trouble {
        Trouble::of(&error.clone().into(), Duration::ZERO)
    }

    /// Reports the error on stderr, with the node.
    pub fn complain(&self, node: &str, as_json: bool) {
        let (kind, words) = (self.kind.name(), &self.words);
        match as_json {
            true => stderr::event(
                &json!({"event": "error", "kind": kind, "node": node, "message": words}),
            ),
            false => stderr::complain(format_args!("{node}: {words}")),
        }
    }
}

impl From<NodeError> for Trouble {
    fn from(error: NodeError) -> Trouble {
        let words = match &error {
            // The caller names the node.
            NodeError::Unreachable(words) => words.clone(),
            error => error.to_string(),
        };
        Trouble { kind: error.into(), words }
    }
}

impl From<UnexpectedReply> for Trouble {
    fn from(unexpected: UnexpectedReply) -> Trouble {
        NodeError::from(unexpected).into()
    }
}

/// A reply that cannot be understood.
impl From<String> for Trouble {
    fn from(words: String) -> Trouble {
        Trouble { kind: Kind::Unfit, words }
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Trouble {
        words.to_owned().into()
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> String {
        trouble.words
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Reports the nodes that did not answer.
pub fn complain<T>(answers: &Answers<T>, as_json: bool) {
    for (name, answer) in answers {
        if let Err(trouble) = answer {
            trouble.complain(name, as_json);
        }
    }
}

/// The kind of failure when too few nodes have answered.
pub fn kind<T>(answers: &Answers<T>) -> Kind {
    let troubles = answers.iter().filter_map(|(_, answer)| answer.as_ref().err());
    Kind::of_set(troubles.map(|trouble| trouble.kind), answers.len())
}
