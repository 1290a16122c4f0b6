//! The replies of a node in quarantine: it grants nothing new, and serves the leases that it has as usual.

use harness::quarantine::{CRASHED, Refusal};
use harness::{Client, Kind, Server, apply, eventually, on_one_server, on_two_servers};

use super::crash::crashed;

/// Runs requests in a transaction, or in a script each.
fn run_together(client: &mut Client, requests: &[&str]) -> Vec<harness::Value> {
    client.run("MULTI");
    for request in requests {
        assert_eq!(client.run(request).text(), "QUEUED", "{request}");
    }
    client.run("EXEC").items().to_vec()
}

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
fn a_transaction_is_refused_what_is_new_and_does_the_rest(kind: Kind) {
    let server = crashed(kind, &["job alice 60000", "other alice 60000"]);
    let extend =
        format!("DLOCK.EXTEND job alice 60000 FENCE {}", server.holder("job")["fence"].int());
    let mut client = server.client();
    let answers = run_together(
        &mut client,
        &[
            "DLOCK.ACQUIRE free bob 1000",
            "DLOCK.ACQUIRE free bob 1000 WAIT 0",
            "DLOCK.ACQUIRE job bob 1000 WAIT 1000",
            "SET data 1",
            "DLOCK.CHECK job alice",
            "DLOCK.ACQUIRE job alice 60000 WAIT 0",
            &extend,
            "DLOCK.RELEASE job alice",
            "DLOCK.ACQUIRE job bob 1000 WAIT 0",
            "DLOCK.BREAK other",
        ],
    );
    for refused in [0, 1, 2, 4, 5, 8] {
        assert_eq!(Refusal::read(&answers[refused]).reason, CRASHED, "{refused}");
    }
    let done = [6, 7, 9].map(|number: usize| answers[number].int());
    assert_eq!(done, [1, 1, 1]);
    assert_eq!(server.node("waiters").int(), 0);
    assert_eq!(server.run("DBSIZE").int(), 1);
}

#[apply(on_two_servers)]
fn replicas_hear_of_what_ends_and_of_nothing_new(kind: Kind) {
    let server = crashed(kind, &["job alice 60000", "other alice 60000", "brief alice 400"]);
    let replica = Server::build(kind).replica_of(&server).start();
    server.until_streaming_to(&replica);
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
