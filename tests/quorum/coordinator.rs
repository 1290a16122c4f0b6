//! Programs that take locks, in the process of the test, and assertions about them.

use std::time::{Duration, Instant};

use dlock_client::{Client, Error, Guard, NodeState, Report};
pub use harness::library::{assert_held, ms, run, take, wait_for};
use harness::wait::{assert_patient, pause};
use harness::{Quorum, Server, library};
use tokio::time::sleep;

/// The time for a node to answer. Only a node that is silent on purpose takes as long: on a busy machine a
/// process may stand still for seconds.
pub const NODE_TIMEOUT: Duration = ms(10_000);

/// A lease that outlasts each wait of a test: nothing that happens meanwhile is due to its end.
pub const LONG: Duration = ms(600_000);

/// Connects a program.
pub async fn connect(urls: &[String]) -> Client {
    library::connect(urls, NODE_TIMEOUT).await
}

/// Connects a program through the networks of the nodes.
pub async fn program(quorum: &Quorum) -> Client {
    connect(&quorum.urls()).await
}

/// Connects a program with healthy networks.
pub async fn healthy_program(quorum: &Quorum) -> Client {
    connect(&quorum.direct_urls()).await
}

/// Takes a free lock, and waits until every node has granted it. A slow node could otherwise grant it to the
/// next program first.
pub async fn take_everywhere(quorum: &Quorum, client: &Client, key: &str, ttl: Duration) -> Guard {
    let guard = take(client, key, ttl).await;
    until("every node has granted it", || quorum.held(key) == quorum.iter().count()).await;
    guard
}

/// Each node's report of an attempt without a majority.
#[track_caller]
pub fn without_quorum<T>(answer: Result<T, Error>) -> Vec<Report> {
    match answer {
        Err(Error::NoQuorum { nodes, .. } | Error::Refused { nodes, .. }) => nodes,
        Err(other) => panic!("expected that there is no majority, got: {other}"),
        Ok(_) => panic!("expected that there is no majority, and it was granted"),
    }
}

/// The state that the node at a URL reported.
#[track_caller]
pub fn said<'a>(reports: &'a [Report], url: &str) -> &'a NodeState {
    let found = reports.iter().find(|report| report.node == url);
    &found.unwrap_or_else(|| panic!("nothing of {url} in {reports:?}")).state
}

/// Asserts that a guard is valid, and that a majority holds its lock with one fence.
#[track_caller]
pub fn assert_holds(quorum: &Quorum, guard: &Guard) {
    let (key, token) = (guard.key(), guard.token().to_string());
    let held = quorum.held_by(key, &token);
    assert!(guard.is_valid(), "{key}");
    assert!(held >= quorum.majority(), "{key} is held on {held} nodes of {}", quorum.len());
}

/// Waits for a state that the nodes or the program show.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert_patient(what, begun);
        sleep(pause(begun)).await;
    }
}

/// Waits until a server has the lock of a guard, and extends it there.
pub async fn until_extended_at(server: &Server, guard: &Guard) {
    let (key, token) = (guard.key(), guard.token().to_string());
    let question = format!("DLOCK.INSPECT {key}");
    until("the server serves this key", || !server.run(&question).is_error()).await;
    until("the server has the lock of this guard", || server.holders(key).contains(&token)).await;
    let extensions = || server.info_number("dlock", "dlock_extensions");
    let (before, begun) = (extensions(), Instant::now());
    while extensions() == before {
        assert_patient("the server extends the lease", begun);
        // The client sends it though no caller waits for it. The next renewal may be minutes away.
        drop(guard.extend(LONG));
        sleep(ms(100)).await;
    }
    assert!(guard.is_valid(), "{guard:?}");
}
