//! A retry that finds its own lock.
//!
//! The recipe: `SET NX PX`, and a retry when the answer does not come in time. The request had arrived; only
//! its answer was lost. So the retry finds the lock taken: by itself. No client works until the TTL is over.
//! With dlock, asking again with the same token gives the same grant.

use std::time::Duration;

use harness::{Client, Kind, Proxy, Server, Way, apply, eventually, on_one_server};

#[apply(on_one_server)]
fn a_retry_finds_the_lock_taken_by_itself(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let network = Proxy::start(server.port());
    let set = "SET job alice-1 NX PX 60000";
    let (mut late, mut alice) = an_answer_too_late(&network, "OK", set);
    assert_eq!(server.run("GET job").text(), "alice-1", "it is hers");
    // Alice comes with the same value, or with a new one.
    for again in [set, "SET job alice-2 NX PX 60000"] {
        for _ in 0..5 {
            assert!(alice.run(again).is_null(), "and she is told that it is taken");
        }
    }
    assert!(server.run("PTTL job").int() > 30_000, "for as long as this nobody works");
    network.pass();
    assert_eq!(late.recv().text(), "OK");
}

#[apply(on_one_server)]
fn a_retry_with_the_same_token_gets_the_same_grant(kind: Kind) {
    let server = Server::start(kind);
    let network = Proxy::start(server.port());
    let acquire = "DLOCK.ACQUIRE job alice-1 60000";
    let (mut late, mut alice) = an_answer_too_late(&network, ":", acquire);
    let fence = alice.run(acquire).int();
    assert_eq!(alice.run("DLOCK.CHECK job alice-1").int(), fence);
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").is_null());
    network.pass();
    assert_eq!(late.recv().int(), fence, "it was this grant all the time");
    assert_eq!(alice.run("DLOCK.RELEASE job alice-1").int(), 1);
    assert_eq!(server.node("leases").int(), 0, "there was only one");
}

/// Alice's request is granted, but she has given up when the answer comes, and has made a new connection.
/// Returns the old one and the new one.
fn an_answer_too_late(network: &Proxy, answer: &str, words: &str) -> (Client, Client) {
    let [mut first, second] = [(); 2].map(|()| Client::connect(network.port()).expect("it is up"));
    network.keep_back_from(Way::Down, answer);
    first.send(words);
    assert_eq!(first.recv_within(Duration::from_millis(100)), None, "her time-out");
    eventually("her request was answered", || network.has_kept_back(Way::Down));
    (first, second)
}
