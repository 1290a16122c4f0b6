//! State that all clones, locks and guards of a client share: the nodes, and the memory of them.
//!
//! [`memory`]: hints from one acquisition to the next. [`background`]: releases that no caller waits for.

pub(crate) mod background;
pub(crate) mod memory;

use std::sync::Arc;
use std::time::Duration;

use background::Background;
use dlock_core::quorum;
use futures_util::stream::{FuturesUnordered, StreamExt};
use memory::Memory;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

use crate::reach::node::Node;
use crate::report::error::Error;
use crate::report::notice::Listener;
use crate::report::{NodeError, NodeState, Report};

/// State that all clones, locks and guards of a client share.
pub(crate) struct Shared {
    pub(crate) nodes: Vec<Arc<Node>>,
    /// Changes when another server has taken the place of a node.
    pub(crate) taken: watch::Receiver<()>,
    /// The time-out of a request to a node, if the user has set one.
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) memory: Memory,
    pub(crate) background: Background,
    pub(crate) listener: Listener,
    /// Changes at the end of the program: keepers release their locks.
    pub(crate) ended: watch::Sender<()>,
}

impl Shared {
    /// Number of nodes that are a majority.
    pub(crate) fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Returns the time-out of a request to a node, for a lease of `ttl`.
    pub(crate) fn timeout(&self, ttl: Duration) -> Duration {
        quorum::node_timeout(self.node_timeout, ttl)
    }

    /// Names the nodes of these states, which are in the nodes' order.
    pub(crate) fn reports(&self, states: impl IntoIterator<Item = NodeState>) -> Vec<Report> {
        let named = self.nodes.iter().zip(states);
        named.map(|(node, state)| Report { node: node.name().to_owned(), state }).collect()
    }

    /// Connects to all nodes at once. Slow ones do not delay a majority for long.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let mut states = vec![NodeState::TimedOut(GRACE); self.nodes.len()];
        let connect = async |(place, node): (usize, &Arc<Node>)| (place, node.wire().await);
        let mut coming: FuturesUnordered<_> = self.nodes.iter().enumerate().map(connect).collect();
        let mut usable = 0;
        loop {
            let next = coming.next();
            let next = match usable < self.majority() {
                true => next.await,
                false => timeout(GRACE, next).await.unwrap_or(None),
            };
            let Some((place, outcome)) = next else { break };
            usable += usize::from(outcome.is_ok());
            states[place] = match outcome {
                Ok(_) => NodeState::Answers,
                Err(NodeError::Duplicate { other, id }) => {
                    // Chance decides which of the two connected last, so they are named in the nodes' order.
                    let late = self.nodes[place].name().to_owned();
                    let is_second = self.nodes[..place].iter().any(|node| node.name() == other);
                    let (first, second) = if is_second { (other, late) } else { (late, other) };
                    return Err(Error::Duplicate { first, second, id });
                }
                Err(error) => error.into(),
            };
        }
        let nodes = self.reports(states);
        for (node, report) in self.nodes.iter().zip(&nodes) {
            debug!(%report, "connects");
            if report.state != NodeState::Answers {
                node.suspect();
            }
        }
        if usable < self.majority() {
            return Err(Error::Connect { needed: self.majority(), nodes });
        }
        Ok(())
    }
}

/// Time to wait for the other nodes once a majority has connected.
const GRACE: Duration = Duration::from_millis(200);
