//! Evicted locks, replicas and files: the server tells those that the key is gone, and dlock tells
//! them when it is back. What they lack in between is covered by quarantine.

use std::time::{Duration, Instant};

use harness::quarantine::{CRASHED, FORGOTTEN, PROMOTED, assert_bound};
use harness::{Kind, Server, apply, eventually, on_every_server, on_two_servers};

use crate::replicas::promotion::{assert_granted_late, pair, promote, until_told};

/// Locks of all modes, of which each is brought back by the request.
const LOCKS: [(&str, &str); 4] = [
    ("job alice 60000 META m", "DLOCK.EXTEND job alice 70000"),
    ("again alice 60000", "DLOCK.ACQUIRE again alice 70000 META n EPHEMERAL"),
    ("book alice 60000 SHARED META reader", "DLOCK.ACQUIRE book bob 60000 SHARED"),
    ("pool alice 60000 LIMIT 3", "DLOCK.ACQUIRE pool bob 60000 LIMIT 3"),
];

fn complete_log(kind: Kind) -> Server {
    Server::build(kind).append_only().config("aof-load-truncated no").start()
}

#[apply(on_every_server)]
fn a_lock_that_came_back_is_at_the_replica_and_in_the_log(kind: Kind) {
    let mut primary = complete_log(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    let mut client = primary.client();
    for (lock, _) in LOCKS {
        assert!(client.run(&format!("DLOCK.ACQUIRE {lock}")).int() > 0);
    }
    primary.evict_all();
    primary.until_followed_by(&replica);
    assert_eq!(replica.run("DBSIZE").int(), 0);
    for (_, bring) in LOCKS {
        assert!(client.run(bring).int() > 0, "{bring}");
        primary.assert_agrees_with(&replica);
    }
    let before = (primary.digest(), primary.pictures());
    assert_eq!(before.1.len(), LOCKS.len());
    assert_eq!(replica.pictures(), before.1);
    let fence = primary.run("DLOCK.CHECK job alice").int();
    primary.kill();
    primary.start_again();
    assert_eq!((primary.digest(), primary.pictures()), before);
    assert_eq!(primary.run("DLOCK.CHECK job alice").int(), fence);
}

#[apply(on_every_server)]
fn what_ends_while_it_is_evicted_ends_for_all(kind: Kind) {
    let primary = Server::build(kind).append_only().start();
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    let mut ephemeral = primary.client();
    primary.run("DLOCK.ACQUIRE released alice 60000");
    primary.run("DLOCK.ACQUIRE over alice 500");
    ephemeral.run("DLOCK.ACQUIRE left alice 60000 EPHEMERAL");
    primary.run("DLOCK.ACQUIRE book alice 60000 SHARED");
    primary.run("DLOCK.ACQUIRE book bob 60000 SHARED");
    let mut waiters = ["released", "over", "left"]
        .map(|key| primary.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0")));
    primary.evict_all();
    assert_eq!(primary.run("DLOCK.RELEASE released alice").int(), 1);
    assert_eq!(primary.run("DLOCK.RELEASE book bob").int(), 1);
    ephemeral.close();
    assert!(waiters.iter_mut().all(|waiter| waiter.recv().int() > 0));
    assert_eq!(primary.run("DLOCK.EXTEND book alice 60000").int(), 1);
    primary.assert_agrees_with(&replica);
    assert_eq!(replica.pictures(), primary.pictures());
    assert_eq!(replica.run("DBSIZE").int(), 4);
}

#[apply(on_two_servers)]
fn a_crash_after_an_eviction_is_followed_by_a_quarantine_even_with_a_complete_log(kind: Kind) {
    let mut server = complete_log(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.evict_all();
    server.run("SET text any");
    server.kill();
    let since = Instant::now();
    server.start_again();
    assert_eq!(server.run("GET text").text(), "any");
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    assert_eq!(server.node("leases").int(), 0);

    // A life in which no lock is evicted makes up for it, once the quarantine is over.
    server.leave_quarantine();
    server.run("CONFIG SET dlock.quarantine auto");
    server.until_its_log_is_complete();
    server.run("DLOCK.ACQUIRE other alice 60000");
    server.kill();
    server.start_again();
    server.assert_grants();
    assert_eq!(server.holders("other"), ["alice"]);
}

#[apply(on_two_servers)]
fn no_grant_comes_before_a_lease_that_was_evicted_before_a_crash_is_over(kind: Kind) {
    let mut server = complete_log(kind);
    let sent = Instant::now();
    let fence = server.run("DLOCK.ACQUIRE job alice 800").int();
    server.evict_all();
    server.kill();
    server.start_again();
    let next = server.client().run("DLOCK.ACQUIRE job bob 60000 WAIT 0").int();
    assert!(next > fence);
    assert!(sent.elapsed() >= Duration::from_millis(800), "{:?}", sent.elapsed());
}

#[apply(on_two_servers)]
fn a_clean_end_with_an_evicted_lease_is_followed_by_a_quarantine(kind: Kind) {
    let mut server = Server::start(kind);
    let since = Instant::now();
    server.run("DLOCK.ACQUIRE evicted alice 60000");
    server.evict_all();
    server.run("DLOCK.ACQUIRE kept alice 30000");
    server.client().send("SHUTDOWN SAVE");
    assert!(server.wait_for_end());
    server.start_again();
    let left = server.assert_in_quarantine(FORGOTTEN);
    let passed = since.elapsed().as_millis() as i64 + 1;
    assert!((60_000 - passed..=60_000).contains(&left), "{left} ms left after {passed}");
    assert_eq!(server.holders("kept"), ["alice"]);
}

#[apply(on_two_servers)]
fn a_replica_that_is_promoted_after_an_eviction_waits_for_the_lease(kind: Kind) {
    let (primary, replica) = pair(kind);
    let sent = Instant::now();
    let fence = primary.run("DLOCK.ACQUIRE job alice 1000").int();
    until_told(&primary, &replica);
    primary.evict_all();
    primary.until_followed_by(&replica);
    assert_eq!(replica.run("EXISTS job").int(), 0);
    primary.pause();
    promote(&replica);
    assert_eq!(replica.node("quarantine-reason").text(), PROMOTED);
    assert_granted_late(&replica, "job", sent, 1000);
    assert!(replica.run("DLOCK.CHECK job bob").int() > fence);
}

#[apply(on_two_servers)]
fn a_primary_with_evicted_locks_that_becomes_a_replica_forgets_them(kind: Kind) {
    let next = Server::start(kind);
    next.run("DLOCK.ACQUIRE other zed 60000");
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 500");
    server.run("DLOCK.ACQUIRE long alice 60000");
    let mut waiter = server.waiter("DLOCK.ACQUIRE long bob 60000 WAIT 0");
    server.evict_all();
    server.run(&format!("REPLICAOF 127.0.0.1 {}", next.port()));
    assert!(waiter.try_recv().is_err() || waiter.is_closed_by_server());
    next.assert_agrees_with(&server);
    assert_eq!(server.node("leases").int(), 1);
    assert_eq!(server.run("DLOCK.CHECK other zed").int(), next.run("DLOCK.CHECK other zed").int());
    eventually("nothing ends here that the primary has not ended", || {
        next.run("PING");
        server.node("leases").int() == 1
    });
    server.run("REPLICAOF NO ONE");
    server.leave_quarantine();
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE long bob 60000").int() > 0);
}
