//! DLOCK.ACQUIRE … WAIT: the queue, its order, and how one leaves it.

use std::time::{Duration, Instant};

use harness::busy::assert_in_time;
use harness::{
    Client, Kind, Server, apply, eventually, on_every_server, on_one_server, on_two_servers,
};

#[apply(on_two_servers)]
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

#[apply(on_one_server)]
fn the_next_waiter_holds_the_lock_when_release_is_answered(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    alice.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    // In one packet: nothing can happen between the two.
    alice.send("DLOCK.RELEASE job alice");
    alice.send("DLOCK.ACQUIRE job alice 60000");
    alice.send("DLOCK.CHECK job bob");
    assert_eq!(alice.recv().int(), 1);
    assert!(alice.recv().is_null());
    let fence = alice.recv().int();
    assert_eq!(bob.recv().int(), fence);
}

#[apply(on_two_servers)]
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

#[apply(on_two_servers)]
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

#[apply(on_two_servers)]
fn one_users_waiters_leave_room_for_another_user(kind: Kind) {
    let server = Server::build(kind).config("dlock.max-waiters 50").start();
    server.run("ACL SETUSER greedy on nopass ~greedy &* +@all");
    server.run("DLOCK.ACQUIRE greedy alice 60000");
    server.run("DLOCK.ACQUIRE own alice 60000");
    let mut greedy: Vec<Client> = (0..60)
        .map(|n| {
            let mut client = server.client();
            client.run("AUTH greedy x");
            client.send(&format!("DLOCK.ACQUIRE greedy t{n} 60000 WAIT 0"));
            client
        })
        .collect();
    for refused in greedy.split_off(50) {
        let mut refused = refused;
        assert_eq!(refused.recv().code(), "TOOMANYWAITERS");
    }
    assert_eq!(server.node("waiters").int(), 50);
    let mut bob = server.waiter("DLOCK.ACQUIRE own bob 60000 WAIT 0");
    server.run("DLOCK.RELEASE own alice");
    assert!(bob.recv().int() > 0);
    assert!(!greedy.iter_mut().any(Client::has_answer));
    drop(greedy);
    eventually("they are gone", || server.node("waiters").int() == 0);
}
