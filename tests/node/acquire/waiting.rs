//! DLOCK.ACQUIRE … WAIT: the queue, its order, and how one leaves it.

use std::time::{Duration, Instant};

use harness::busy::assert_in_time;
use harness::{Client, Kind, Server, apply, eventually, on_every_server};

#[apply(on_every_server)]
fn waiters_are_served_in_the_order_they_came(kind: Kind) {
    let server = Server::start(kind);
    let mut last = server.run("DLOCK.ACQUIRE job first 60000").int();
    let tokens: Vec<String> = (0..10).map(|n| format!("t{n}")).collect();
    let wait = |token| server.waiter(&format!("DLOCK.ACQUIRE job {token} 60000 WAIT 0"));
    let mut waiters: Vec<Client> = tokens.iter().map(wait).collect();
    assert_eq!(server.waiters("job"), tokens);

    server.run("DLOCK.RELEASE job first");
    for (number, token) in tokens.iter().enumerate() {
        let fence = waiters[number].recv().int();
        assert!(fence > last);
        last = fence;
        assert_eq!(server.holders("job"), [token.as_str()]);
        assert_eq!(server.waiters("job"), tokens[number + 1..]);
        assert!(!waiters[number + 1..].iter_mut().any(Client::has_answer));
        server.run(&format!("DLOCK.RELEASE job {token}"));
    }
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_every_server)]
fn a_free_lock_is_granted_at_once_though_one_would_wait(kind: Kind) {
    let server = Server::start(kind);
    assert!(server.run("DLOCK.ACQUIRE job alice 60000 WAIT 0").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE job2 alice 60000 WAIT 5").int() > 0);
}

#[apply(on_every_server)]
fn a_waiter_gets_null_when_its_time_is_over(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let before = server.traces();
    let asked = Instant::now();
    let mut bob = server.client();
    assert!(bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 150").is_null());
    let waited = asked.elapsed();
    assert!(waited >= Duration::from_millis(150), "{waited:?}");
    assert_in_time(waited, Duration::from_secs(5));
    assert_eq!(server.traces(), before);
    bob.assert_in_step();
}

#[apply(on_every_server)]
fn waiters_time_out_each_at_its_own_time(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut slow = server.waiter("DLOCK.ACQUIRE job slow 60000 WAIT 300000");
    let mut quick = server.waiter("DLOCK.ACQUIRE job quick 60000 WAIT 50");
    let mut patient = server.waiter("DLOCK.ACQUIRE job patient 60000 WAIT 0");
    assert!(quick.recv().is_null());
    assert_eq!(server.waiters("job"), ["slow", "patient"]);
    assert!(!slow.has_answer() && !patient.has_answer());
}

#[apply(on_every_server)]
fn an_ended_lease_is_handed_to_the_first_waiter(kind: Kind) {
    let server = Server::start(kind);
    let asked = Instant::now();
    server.run("DLOCK.ACQUIRE job alice 200");
    let mut bob = server.client();
    let fence = bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let waited = asked.elapsed();
    assert!(fence.int() > 0);
    assert!(waited >= Duration::from_millis(200), "{waited:?}");
    assert_in_time(waited, Duration::from_secs(5));
}

#[apply(on_every_server)]
fn a_waiters_lease_begins_when_it_is_granted(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 300");
    let mut bob = server.client();
    bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let left = server.holder("job")["ttl-ms"].int();
    let held = server.holder("job")["held-ms"].int();
    // Nothing of the 300 ms of waiting has been taken from the lease.
    assert!(left + held > 59_900, "left {left}, held {held}");
}

#[apply(on_every_server)]
fn a_request_without_wait_never_overtakes_a_waiter(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000 SHARED");
    let _writer = server.waiter("DLOCK.ACQUIRE job writer 60000 WAIT 0");
    assert!(server.run("DLOCK.ACQUIRE job bob 60000 SHARED").is_null());

    server.run("DLOCK.ACQUIRE pool alice 60000 LIMIT 3");
    let _writer = server.waiter("DLOCK.ACQUIRE pool writer 60000 WAIT 0");
    assert!(server.run("DLOCK.ACQUIRE pool bob 60000 LIMIT 3").is_null());
}

#[apply(on_every_server)]
fn a_waiter_that_disconnects_leaves_the_queue(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
    bob.close();
    eventually("bob leaves", || server.waiters("job") == ["carol"]);
    server.run("DLOCK.RELEASE job alice");
    assert!(carol.recv().int() > 0);
}

#[apply(on_every_server)]
fn a_killed_waiter_leaves_the_queue(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.client();
    let id = bob.id();
    server.block(&mut bob, "DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert_eq!(server.run(&format!("CLIENT KILL ID {id}")).int(), 1);
    eventually("bob leaves", || server.waiters("job").is_empty());
    assert_eq!(server.node("waiters").int(), 0);
    server.run("DLOCK.RELEASE job alice");
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_every_server)]
fn a_waiter_whose_lock_is_deleted_gets_unblocked_and_nothing_is_granted(kind: Kind) {
    let server = Server::start(kind);
    for deletion in ["DEL job", "UNLINK job", "SET job text", "FLUSHALL"] {
        server.run("FLUSHALL");
        server.run("DLOCK.ACQUIRE job alice 60000");
        let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
        let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
        let fence = server.node("fence").int();
        server.run(deletion);
        assert_eq!(bob.recv().code(), "UNBLOCKED", "{deletion}");
        assert_eq!(carol.recv().code(), "UNBLOCKED", "{deletion}");
        bob.assert_in_step();
        let traces = server.traces();
        assert_eq!((traces.leases, traces.waiters), (0, 0), "{deletion}");
        assert_eq!(traces.fence, fence, "{deletion}");
    }
}

#[apply(on_every_server)]
fn a_blocked_client_answers_later_requests_after_its_grant(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    bob.send("DLOCK.CHECK job bob");
    bob.send("DLOCK.RELEASE job bob");
    server.run("DLOCK.RELEASE job alice");
    let fence = bob.recv().int();
    assert_eq!(bob.recv().int(), fence);
    assert_eq!(bob.recv().int(), 1);
}

#[apply(on_every_server)]
fn one_token_may_wait_for_many_locks(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE a alice 60000");
    server.run("DLOCK.ACQUIRE b alice 60000");
    let mut for_a = server.waiter("DLOCK.ACQUIRE a bob 60000 WAIT 0");
    let mut for_b = server.waiter("DLOCK.ACQUIRE b bob 60000 WAIT 0");
    server.run("DLOCK.RELEASE b alice");
    assert!(for_b.recv().int() > 0);
    assert!(!for_a.has_answer());
    server.run("DLOCK.RELEASE a alice");
    assert!(for_a.recv().int() > 0);
}

#[apply(on_every_server)]
fn locks_of_one_name_in_two_databases_have_two_queues(kind: Kind) {
    let server = Server::start(kind);
    let mut other = server.client();
    other.run("SELECT 3");
    other.run("DLOCK.ACQUIRE job alice 60000");
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut here = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut there = server.client();
    there.run("SELECT 3");
    server.block(&mut there, "DLOCK.ACQUIRE job carol 60000 WAIT 0");
    other.run("DLOCK.RELEASE job alice");
    assert!(there.recv().int() > 0);
    assert!(!here.has_answer());
    server.run("DLOCK.RELEASE job alice");
    assert!(here.recv().int() > 0);
}

#[apply(on_every_server)]
fn a_short_lease_passes_through_a_queue_that_never_releases(kind: Kind) {
    let server = Server::start(kind);
    let wait = |n| server.waiter(&format!("DLOCK.ACQUIRE job t{n} 20 WAIT 0"));
    server.run("DLOCK.ACQUIRE job first 60000");
    let mut waiters: Vec<Client> = (0..20).map(wait).collect();
    server.run("DLOCK.RELEASE job first");
    let fences: Vec<i64> = waiters.iter_mut().map(|waiter| waiter.recv().int()).collect();
    assert!(fences.is_sorted(), "{fences:?}");
    eventually("the last lease ends", || server.run("DBSIZE").int() == 0);
}
