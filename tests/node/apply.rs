//! DLOCK.APPLY: the effect that replicas and the append-only file get, and nobody else may send.

use harness::{Kind, Server, apply, on_every_server};

const ATTEMPTS: [&str; 6] = [
    "DLOCK.APPLY",
    "DLOCK.APPLY job",
    "DLOCK.APPLY job alice",
    "DLOCK.APPLY job grant alice 1 60000",
    "DLOCK.APPLY job 1 2 3 4 5 6 7 8 9 10",
    "DLOCK.APPLY job alice 60000 SHARED",
];

#[apply(on_every_server)]
fn a_client_is_refused(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job bob 60000");
    let before = server.traces();
    for attempt in ATTEMPTS {
        assert_eq!(server.run(attempt).code(), "ERR", "{attempt}");
    }
    assert_eq!(server.traces(), before);
    assert_eq!(server.holders("job"), ["bob"]);
}

#[apply(on_every_server)]
fn a_transaction_and_a_script_are_refused(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job bob 60000");
    let before = server.traces();
    let mut client = server.client();
    for attempt in &ATTEMPTS[2..] {
        client.run("MULTI");
        client.run(attempt);
        let answers = client.run("EXEC");
        let refused = answers.is_error() || answers.items()[0].is_error();
        assert!(refused, "{attempt}: {answers:?}");

        let words: Vec<String> = attempt.split(' ').map(|w| format!("'{w}'")).collect();
        let script = format!("return redis.call({})", words.join(","));
        let answer = client.run_args(&["EVAL", &script, "1", "job"]);
        assert!(answer.is_error(), "{attempt}: {answer:?}");
    }
    assert_eq!(server.traces(), before);
    assert_eq!(server.holders("job"), ["bob"]);
}
