//! Waiters for a lock of a node in quarantine: they are served in their order once it is over.

use std::time::Duration;

use harness::quarantine::CRASHED;
use harness::{Client, Kind, Server, apply, eventually, on_two_servers};

fn wait(server: &Server, request: &str) -> Client {
    server.waiter(&format!("DLOCK.ACQUIRE {request}"))
}

/// Writes are paused when it ends: a grant then would end the server.
#[apply(on_two_servers)]
fn an_end_while_writes_are_paused_is_made_up_for(kind: Kind) {
    let mut server = Server::build(kind).config("appendonly yes").start();
    server.run("DLOCK.ACQUIRE lost alice 60000");
    server.kill();
    server.start_again();
    let mut waiters: Vec<Client> =
        (0..3).map(|n| wait(&server, &format!("k{n} bob 60000 WAIT 0"))).collect();
    server.run("CLIENT PAUSE 600000 WRITE");
    server.run("CONFIG SET dlock.quarantine off");
    assert_eq!(server.node("quarantine-ms").int(), 0);
    assert_eq!(server.node("waiters").int(), 3);
    assert!(!waiters.iter_mut().any(Client::has_answer));
    server.run("CLIENT UNPAUSE");
    assert!(waiters.iter_mut().all(|waiter| waiter.recv().int() > 0));
    server.assert_grants();
}

#[apply(on_two_servers)]
fn a_waiter_at_the_beginning_of_a_quarantine_goes_on_waiting_or_is_told(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("SET foreign text");
    let mut waiters: Vec<Client> =
        ["job", "foreign"].map(|key| wait(&server, &format!("{key} bob 60000 WAIT 0"))).into();
    server.run("DEBUG RELOAD");
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    server.run("DEL foreign");
    assert_eq!(server.node("granting").text(), "quarantine");
    for waiter in &mut waiters {
        let answer = waiter.recv_within(Duration::from_millis(100));
        assert!(answer.is_none_or(|answer| answer.code() == "UNBLOCKED"));
    }
    server.leave_quarantine();
    eventually("nobody is left waiting", || server.node("waiters").int() == 0);
}

#[apply(on_two_servers)]
fn a_lease_that_a_waiter_gets_is_in_the_log_and_at_the_replica(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    server.run("DLOCK.ACQUIRE lost alice 60000");
    server.kill();
    server.start_again();
    server.run("DLOCK.BREAK lost");
    let replica = Server::build(kind).replica_of(&server).start();
    server.until_streaming_to(&replica);
    let mut bob = wait(&server, "job bob 60000 WAIT 0 META m");
    server.assert_in_quarantine(CRASHED);
    server.leave_quarantine();
    let fence = bob.recv().int();
    server.assert_agrees_with(&replica);
    server.kill();
    server.start_again();
    assert_eq!(server.holder("job")["fence"].int(), fence);
}
