//! Evicted locks, replicas and files. Replicas and files get the removal of the key; quarantine covers the
//! rest.

use std::time::{Duration, Instant};

use harness::quarantine::{CRASHED, FORGOTTEN, assert_bound};
use harness::{Kind, Server, apply, on_two_servers};

use crate::replicas::promotion::{promote, until_told};

#[apply(on_two_servers)]
fn a_crash_after_an_eviction_is_followed_by_a_quarantine_for_the_evicted_lease(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.evict_all();
    server.run("SET text any");
    server.kill();
    let since = Instant::now();
    server.start_again();
    assert_eq!(server.run("GET text").text(), "any");
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    assert_eq!(server.node("leases").int(), 0);
}

#[apply(on_two_servers)]
fn a_clean_end_with_an_evicted_lease_is_followed_by_a_quarantine(kind: Kind) {
    let mut server = Server::start(kind);
    let since = Instant::now();
    server.run("DLOCK.ACQUIRE evicted alice 600000");
    server.evict_all();
    server.run("DLOCK.ACQUIRE kept alice 300000");
    server.client().send("SHUTDOWN SAVE");
    assert!(server.wait_for_end());
    server.start_again();
    let left = server.assert_in_quarantine(FORGOTTEN);
    let passed = since.elapsed().as_millis() as i64 + 1;
    assert!((600_000 - passed..=600_000).contains(&left), "{left} ms left after {passed}");
    assert_eq!(server.holders("kept"), ["alice"]);
}

/// The server had evicted a lock, follows another for a while, and is promoted again.
#[apply(on_two_servers)]
fn a_primary_that_was_a_replica_for_a_while_keeps_the_key_shut(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    let sent = Instant::now();
    primary.run("DLOCK.ACQUIRE job alice 2000");
    until_told(&primary, &replica);
    primary.evict_all();
    promote(&replica);
    primary.run(&format!("REPLICAOF 127.0.0.1 {}", replica.port()));
    until_told(&replica, &primary);
    primary.run("REPLICAOF NO ONE");
    let next = primary.client().run("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert!(next.int() > 0 && sent.elapsed() >= Duration::from_millis(2000), "{next:?}");
}
