//! Programs that take locks with the library, in the process of the test.

use std::future::Future;
use std::time::Duration;

use dlock_client::{Client, Error, Guard, NodeState};
use harness::Quorum;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Longer than any test takes: one that hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a node may take to answer: enough on a busy machine.
pub const NODE_TIMEOUT: Duration = ms(1_000);

/// Lets the asynchronous part of a test run. It may call what blocks: the library has threads of
/// its own.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads can be made");
    let ended = runtime.block_on(async { timeout(PATIENCE, test).await });
    runtime.shutdown_background();
    ended.expect("the test ends")
}

/// A program whose requests go through the networks in front of the nodes.
pub async fn program(quorum: &Quorum) -> Client {
    connect(&quorum.urls(), NODE_TIMEOUT).await
}

/// A program whose networks are all well.
pub async fn healthy_program(quorum: &Quorum) -> Client {
    connect(&quorum.direct_urls(), NODE_TIMEOUT).await
}

/// A program that gives each node so long to answer.
pub async fn connect(urls: &[String], node_timeout: Duration) -> Client {
    let connected = Client::builder().nodes(urls).node_timeout(node_timeout).connect().await;
    connected.unwrap_or_else(|error| panic!("not connected: {error}"))
}

/// Takes a lock that must be free.
pub async fn take(client: &Client, key: &str, ttl: Duration) -> Guard {
    let taken = client.lock(key).ttl(ttl).try_acquire().await;
    taken.unwrap_or_else(|error| panic!("not taken: {error}"))
}

/// Asserts that it was not taken because somebody else holds it.
#[track_caller]
pub fn assert_held(attempt: Result<Guard, Error>) {
    assert!(matches!(attempt, Err(Error::Held { .. })), "{attempt:?}");
}

/// What the nodes said to an attempt that was in vain, in their order.
#[track_caller]
pub fn states(attempt: Result<Guard, Error>) -> Vec<NodeState> {
    match attempt {
        Err(Error::Held { nodes, .. } | Error::NoQuorum { nodes, .. }) => {
            nodes.into_iter().map(|report| report.state).collect()
        }
        other => panic!("it was not simply in vain: {other:?}"),
    }
}

/// Waits for a lock as long as it takes.
pub async fn wait_for(client: &Client, key: &str, ttl: Duration) -> Guard {
    let taken = client.lock(key).ttl(ttl).acquire().await;
    taken.unwrap_or_else(|error| panic!("not taken: {error}"))
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
