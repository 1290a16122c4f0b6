//! Programs that take locks, in the process of the test, and the nodes' replies to them.

use std::time::Duration;

use dlock_client::{Client, Error, Guard, NodeState};
use harness::Quorum;
pub use harness::library::{assert_held, connect, ms, run, take, wait_for};

/// The time for a node to answer: enough on a busy machine.
pub const NODE_TIMEOUT: Duration = ms(10_000);

/// A lease that outlasts each wait of a test.
pub const LONG: Duration = ms(600_000);

/// A program that sends its requests through the networks in front of the nodes.
pub async fn program(quorum: &Quorum) -> Client {
    connect(&quorum.urls(), NODE_TIMEOUT).await
}

/// A program with working networks.
pub async fn healthy_program(quorum: &Quorum) -> Client {
    connect(&quorum.direct_urls(), NODE_TIMEOUT).await
}

/// The nodes' states after a failed attempt, in their order.
#[track_caller]
pub fn states(attempt: Result<Guard, Error>) -> Vec<NodeState> {
    match attempt {
        Err(Error::Held { nodes, .. } | Error::NoQuorum { nodes, .. }) => {
            nodes.into_iter().map(|report| report.state).collect()
        }
        other => panic!("it was not simply in vain: {other:?}"),
    }
}
