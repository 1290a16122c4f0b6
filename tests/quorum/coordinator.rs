//! Programs that take locks, in the process of the test.

use std::future::Future;
use std::time::{Duration, Instant};

use dlock_client::{Client, Error, Guard, NodeState, Report};
use harness::Quorum;
use harness::quorum::SLACK;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Longer than any test takes: one that hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a node may take to answer here: the usual time is too short for a machine that runs many
/// tests at once.
pub const NODE_TIMEOUT: Duration = ms(300);

/// Lets the asynchronous part of a test run. It may call what blocks: the library has threads of its
/// own.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads can be made");
    let ended = runtime.block_on(async { timeout(PATIENCE, test).await });
    runtime.shutdown_background();
    ended.expect("the test ends")
}

/// A program of its own, connected through the networks of the nodes.
pub async fn program(quorum: &Quorum) -> Client {
    connect(&quorum.urls()).await
}

/// A program of its own, whose networks are all well.
pub async fn healthy_program(quorum: &Quorum) -> Client {
    connect(&quorum.direct_urls()).await
}

/// A program of its own.
pub async fn connect(urls: &[String]) -> Client {
    let connected = Client::builder().nodes(urls).node_timeout(NODE_TIMEOUT).connect().await;
    connected.unwrap_or_else(|error| panic!("not connected: {error}"))
}

/// Takes a lock that must be free.
pub async fn take(client: &Client, key: &str, ttl: Duration) -> Guard {
    let taken = client.lock(key).ttl(ttl).try_acquire().await;
    taken.unwrap_or_else(|error| panic!("not taken: {error}"))
}

/// Waits for a lock as long as it takes.
pub async fn wait_for(client: &Client, key: &str, ttl: Duration) -> Guard {
    let taken = client.lock(key).ttl(ttl).acquire().await;
    taken.unwrap_or_else(|error| panic!("not taken: {error}"))
}

/// Asserts that a lock is not to be had, because somebody holds it.
#[track_caller]
pub fn assert_held<T>(answer: Result<T, Error>) {
    match answer {
        Err(Error::Held { .. }) => {}
        Err(other) => panic!("expected that it is held, got: {other}"),
        Ok(_) => panic!("expected that it is held, and it was granted"),
    }
}

/// What each node said of an attempt for which there was no majority.
#[track_caller]
pub fn without_quorum<T>(answer: Result<T, Error>) -> Vec<Report> {
    match answer {
        Err(Error::NoQuorum { nodes, .. } | Error::Refused { nodes, .. }) => nodes,
        Err(other) => panic!("expected that there is no majority, got: {other}"),
        Ok(_) => panic!("expected that there is no majority, and it was granted"),
    }
}

/// What the node at a URL said.
#[track_caller]
pub fn said<'a>(reports: &'a [Report], url: &str) -> &'a NodeState {
    let found = reports.iter().find(|report| report.node == url);
    &found.unwrap_or_else(|| panic!("nothing of {url} in {reports:?}")).state
}

/// Asserts that a guard is what it says: valid, and held by a majority with one fence.
#[track_caller]
pub fn assert_holds(quorum: &Quorum, guard: &Guard) {
    let (key, token) = (guard.key(), guard.token().to_string());
    let held = quorum.held_by(key, &token);
    assert!(guard.is_valid(), "{key}");
    assert!(held >= quorum.majority(), "{key} is held on {held} nodes of {}", quorum.len());
}

/// The time that something took.
pub async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let begun = Instant::now();
    let answer = what.await;
    (answer, begun.elapsed())
}

/// Asserts that something took no longer, on a machine that is busy.
#[track_caller]
pub fn assert_within(took: Duration, limit: Duration) {
    assert!(took <= limit + SLACK, "took {took:?}, expected {limit:?} at most");
}

/// Waits for something that the nodes or the program show.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
