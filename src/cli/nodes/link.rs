//! A server to poll, over a connection that stays open.

use std::time::Duration;

use dlock_client::operator::Endpoint;
use redis::{Pipeline, Value};

use crate::nodes::ask::{Node, Trouble};
use crate::say::kind::Kind;

/// The connection. It is opened when it is needed, and again after a failure.
pub struct Link {
    endpoint: Endpoint,
    timeout: Duration,
    node: Option<Node>,
}

impl Link {
    pub fn new(endpoint: Endpoint, timeout: Duration) -> Link {
        Link { endpoint, timeout, node: None }
    }

    /// The database that its URL names.
    pub fn db(&self) -> u64 {
        u64::try_from(self.endpoint.info().redis_settings().db()).unwrap_or(0)
    }

    /// Runs many commands at once, perhaps twice. An error among the answers is a value of its own.
    pub async fn run_all(&mut self, commands: Pipeline) -> Result<Vec<Value>, Trouble> {
        if let Some(node) = self.node.take() {
            match self.run_at(node, commands.clone()).await {
                // Servers and firewalls close idle connections.
                Err(trouble) if trouble.kind == Kind::Unreachable => {}
                answers => return answers,
            }
        }
        let node = Node::connect(&self.endpoint, self.timeout).await?;
        self.run_at(node, commands).await
    }

    async fn run_at(&mut self, mut node: Node, commands: Pipeline) -> Result<Vec<Value>, Trouble> {
        let answers = node.run_all(commands).await;
        let broken = |trouble: &Trouble| matches!(trouble.kind, Kind::Unreachable | Kind::TimedOut);
        if !answers.as_ref().is_err_and(broken) {
            self.node = Some(node);
        }
        answers
    }
}
