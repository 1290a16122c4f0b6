//! DLOCK.ACQUIRE … WAIT: the queue, its order, and how a waiter leaves it.

use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, on_one_server, on_two_servers};

#[apply(on_one_server)]
fn a_waiter_gets_null_when_its_time_is_over(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let before = server.traces();
    let asked = Instant::now();
    let mut bob = server.client();
    assert!(bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 150").is_null());
    let waited = asked.elapsed();
    assert!(waited >= Duration::from_millis(150), "{waited:?}");
    assert_eq!(server.traces(), before);
    bob.assert_in_step();
}

#[apply(on_two_servers)]
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
