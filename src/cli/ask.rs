//! Nodes, asked one by one: whoever operates them wants to hear from each, majority or not.

use std::future::Future;
use std::time::Duration;

use dlock_client::Address;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, Value};

use crate::args::Global;
use crate::exit::Exit;
use crate::output::complain;
use crate::{duration, nodes};

/// The nodes of the command line.
pub struct Nodes {
    targets: Vec<Target>,
    timeout: Duration,
}

struct Target {
    name: String,
    client: Client,
}

/// What each node said, or why it did not, in the given order.
pub type Answers<T> = Vec<(String, Result<T, String>)>;

impl Nodes {
    /// Reads their URLs. What is wrong with one is said here.
    pub fn of(global: &Global) -> Result<Nodes, Exit> {
        let mut targets = Vec::new();
        for url in nodes::urls(global) {
            match Address::read(&url) {
                Ok(Address { name, client }) => {
                    // What is usual need not be said on every line.
                    let name = name.strip_prefix("redis://").unwrap_or(&name).to_owned();
                    targets.push(Target { name, client });
                }
                Err(error) => {
                    complain(error);
                    return Err(Exit::USAGE);
                }
            }
        }
        if targets.is_empty() {
            complain("no nodes: give them with --nodes or in DLOCK_NODES");
            return Err(Exit::USAGE);
        }
        Ok(Nodes { targets, timeout: nodes::timeout(global, USUAL_TTL) })
    }

    /// The same, for leases of this length: it says how long a node may take to answer.
    pub fn for_leases_of(mut self, ttl: Duration, global: &Global) -> Nodes {
        self.timeout = nodes::timeout(global, ttl);
        self
    }

    /// How long one of them may take to answer.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.targets.len()
    }

    /// How many of them are a majority.
    pub fn majority(&self) -> usize {
        self.count() / 2 + 1
    }

    /// Connects to all of them at once, and asks each.
    pub async fn each<T, F, A>(&self, ask: F) -> Answers<T>
    where
        T: Send + 'static,
        F: Fn(Node) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<T, String>> + Send,
    {
        let asked: Vec<_> = self
            .targets
            .iter()
            .map(|target| {
                let (client, timeout, ask) = (target.client.clone(), self.timeout, ask.clone());
                let task = async move { ask(Node::connect(&client, timeout).await?).await };
                (target.name.clone(), tokio::spawn(task))
            })
            .collect();
        let mut answers = Vec::new();
        for (name, task) in asked {
            let answer = task.await.unwrap_or_else(|error| Err(error.to_string()));
            answers.push((name, answer));
        }
        answers
    }
}

/// A connection to one node.
#[derive(Clone)]
pub struct Node {
    connection: MultiplexedConnection,
    timeout: Duration,
    /// Whether it is on this machine, as far as its address says.
    pub is_local: bool,
}

impl Node {
    async fn connect(client: &Client, timeout: Duration) -> Result<Node, String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let is_local = match client.get_connection_info().addr() {
            redis::ConnectionAddr::Unix(_) => true,
            redis::ConnectionAddr::Tcp(host, _) | redis::ConnectionAddr::TcpTls { host, .. } => {
                LOOPBACK.contains(&host.as_str())
            }
            _ => false,
        };
        match connection {
            Ok(connection) => Ok(Node { connection, timeout, is_local }),
            Err(error) if error.is_timeout() => Err(late(timeout)),
            Err(error) => Err(plain(&error)),
        }
    }

    /// One command.
    pub async fn run(&mut self, command: &Cmd) -> Result<Value, String> {
        let answer: Result<Value, RedisError> = command.query_async(&mut self.connection).await;
        answer.map_err(|error| self.said(&error))
    }

    /// Many commands at once. An error among the answers is a value of its own.
    pub async fn run_all(&mut self, mut commands: Pipeline) -> Result<Vec<Value>, String> {
        commands.ignore_errors();
        let answers: Result<Vec<Value>, _> = commands.query_async(&mut self.connection).await;
        answers.map_err(|error| self.said(&error))
    }

    fn said(&self, error: &RedisError) -> String {
        if error.is_timeout() { late(self.timeout) } else { plain(error) }
    }
}

/// Says which nodes did not answer, and gives what the others said.
pub fn answered<T>(answers: Answers<T>) -> Vec<(String, T)> {
    let mut good = Vec::new();
    for (name, answer) in answers {
        match answer {
            Ok(answer) => good.push((name, answer)),
            Err(error) => complain(format_args!("{name}: {error}")),
        }
    }
    good
}

fn late(timeout: Duration) -> String {
    format!("no answer within {}", duration::shown(timeout))
}

/// A server's error in its own words.
fn plain(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The length of a lease for which the node time-out is the default.
const USUAL_TTL: Duration = Duration::from_secs(30);
