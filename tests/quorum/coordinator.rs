//! Programs that take locks, in the process of the test, and assertions about them.

use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::{Client, Error, Guard, NodeState, Report};
pub use harness::library::{assert_held, ms, run, take, wait_for};
use harness::stuck;
use harness::wait::{assert_patient, pause};
use harness::{Quorum, Server, library};

/// The time for a node to answer. The usual one is too short for a machine that runs many tests at once, or
/// pauses for a moment.
pub const NODE_TIMEOUT: Duration = ms(1_500);

/// The same for healthy nodes: no test waits this long for them.
pub const HEALTHY_TIMEOUT: Duration = ms(10_000);

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
    library::connect(&quorum.direct_urls(), HEALTHY_TIMEOUT).await
}

/// Takes a free lock, and waits until every node has granted it. A slow node could otherwise grant it to the
/// next program first.
pub async fn take_everywhere(quorum: &Quorum, client: &Client, key: &str, ttl: Duration) -> Guard {
    let guard = take(client, key, ttl).await;
    until("every node has granted it", || quorum.held(key) == quorum.iter().count()).await;
    guard
}

/// Connects a program through the networks of the nodes, all of them alive.
pub async fn patient_program(urls: &[String]) -> Client {
    library::connect(urls, HEALTHY_TIMEOUT).await
}

/// Tries a quorum of each size, side by side: they wait most of the time.
pub fn for_sizes<const N: usize>(sizes: [usize; N], test: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for size in sizes {
            let test = &test;
            // They are parts of the same test.
            let named = thread::Builder::new().name(stuck::test());
            named.spawn_scoped(scope, move || test(size)).expect("a thread can be started");
        }
    });
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

/// Measures a future.
pub async fn timed<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let begun = Instant::now();
    let answer = what.await;
    (answer, begun.elapsed())
}

/// Waits for a state that the nodes or the program show.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert_patient(what, begun);
        tokio::time::sleep(pause(begun)).await;
    }
}

/// Waits until a remaining time is longer than at the last look. Each look counts: a lease that has just been
/// renewed is never longer than it was then.
pub async fn until_longer<T: PartialOrd + Copy>(what: &str, left: impl Fn() -> T) {
    let mut last = left();
    until(what, || {
        let before = std::mem::replace(&mut last, left());
        last > before
    })
    .await;
}

/// Milliseconds that a server has left for the lock of a guard: 0 if it is free there.
pub fn ttl_at(server: &Server, guard: &Guard) -> i64 {
    let lock = server.run(&format!("DLOCK.INSPECT {}", guard.key()));
    if lock.is_null() { 0 } else { lock.at("holders").items()[0].at("ttl-ms").int() }
}
