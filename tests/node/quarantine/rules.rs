//! The replies of a node in quarantine: it grants nothing new, and serves the leases that it has as usual.

use harness::quarantine::{CRASHED, Refusal};
use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

use super::crash::crashed;

#[apply(on_one_server)]
fn a_request_is_refused_with_the_reason_and_the_time_that_is_left(kind: Kind) {
    let server = crashed(kind, &[]);
    let mut client = server.client();
    let before = server.traces();
    for options in ["", "SHARED", "LIMIT 3", "FENCE 7", "EPHEMERAL", "META m", "EPHEMERAL SHARED"] {
        let most = server.node("quarantine-ms").int();
        let answer = client.run(&format!("DLOCK.ACQUIRE job bob 60000 {options}"));
        let least = server.node("quarantine-ms").int();
        let refusal = Refusal::read(&answer);
        assert_eq!(refusal.reason, CRASHED, "{options}");
        assert!((least..=most).contains(&refusal.left), "{options}: {least} {refusal:?} {most}");
    }
    client.assert_in_step();
    assert_eq!(server.traces(), before);
    assert!(server.run("DLOCK.INSPECT job").is_null());
}

#[apply(on_one_server)]
fn a_client_that_never_heard_of_its_grant_does_not_get_it_from_an_older_data_set(kind: Kind) {
    let mut server = Server::start(kind);
    // Alice's client never received this reply, and an operator ends her lease.
    let unheard = server.run("DLOCK.ACQUIRE job alice 60000").int();
    assert_eq!(server.run("SAVE").text(), "OK");
    assert_eq!(server.run("DLOCK.BREAK job").int(), 1);
    let fence = server.run("DLOCK.ACQUIRE job bob 60000").int();
    assert!(fence > unheard);
    server.kill();
    server.start_again();
    // Bob's lease is forgotten, and runs on.
    assert_eq!(server.holders("job"), ["alice"]);
    let larger = format!("EXTEND job alice 60000 FENCE {}", fence + 1);
    let requests = ["ACQUIRE job alice 60000", "ACQUIRE job alice 60000 WAIT 0 KEEP 60000"];
    for request in
        requests.into_iter().chain(["EXTEND job alice 60000", &larger, "CHECK job alice"])
    {
        let answer = server.run(&format!("DLOCK.{request}"));
        assert_eq!(Refusal::read(&answer).reason, CRASHED, "{request}");
    }
    // A client that received its fence within its lease goes on.
    assert_eq!(server.run(&format!("DLOCK.EXTEND job alice 60000 FENCE {unheard}")).int(), 1);
}

#[apply(on_two_servers)]
fn replicas_hear_of_what_ends_and_of_nothing_new(kind: Kind) {
    let server = crashed(kind, &["job alice 60000", "other alice 60000", "brief alice 400"]);
    let replica = server.replica();
    let fence = server.holder("job")["fence"].int();
    assert_eq!(server.run(&format!("DLOCK.EXTEND job alice 70000 FENCE {fence}")).int(), 1);
    server.run("DLOCK.RELEASE other alice");
    server.run("DLOCK.ACQUIRE free bob 1000");
    let mut waiter = server.waiter("DLOCK.ACQUIRE free bob 60000 WAIT 0");
    eventually("a lease ends", || server.run("EXISTS brief").int() == 0);
    server.assert_agrees_with(&replica);
    assert_eq!(replica.node("granting").text(), "replica");
    server.leave_quarantine();
    assert!(waiter.recv().int() > 0);
    server.assert_agrees_with(&replica);
    assert_eq!(replica.holders("free"), ["bob"]);
}
