//! DLOCK.ACQUIRE by a token that holds the lock already, or waits for it.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn asking_again_replaces_the_meta_and_the_client(kind: Kind) {
    let server = Server::start(kind);
    let (mut first, mut second) = (server.client(), server.client());
    first.run("DLOCK.ACQUIRE job alice 60000 META old");
    assert_eq!(server.holder("job")["client"].int(), first.id());

    second.run("DLOCK.ACQUIRE job alice 60000 META new");
    assert_eq!(server.holder("job")["meta"].text(), "new");
    assert_eq!(server.holder("job")["client"].int(), second.id());

    first.run("DLOCK.ACQUIRE job alice 60000");
    assert_eq!(server.holder("job")["meta"].text(), "");
}

#[apply(on_one_server)]
fn asking_again_for_another_mode_is_an_error_that_changes_nothing(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE exclusive alice 60000 META old");
    server.run("DLOCK.ACQUIRE shared alice 60000 META old SHARED");
    server.run("DLOCK.ACQUIRE limit alice 60000 META old LIMIT 2");
    let before = server.traces();
    for (key, others) in [
        ("exclusive", ["SHARED", "LIMIT 2", "LIMIT 1"]),
        ("shared", ["", "LIMIT 2", "LIMIT 1"]),
        ("limit", ["", "SHARED", "LIMIT 3"]),
    ] {
        for mode in others {
            for wait in ["", "WAIT 0"] {
                let again = format!("DLOCK.ACQUIRE {key} alice 600000 META new {mode} {wait}");
                let refused = server.run(&again);
                assert_eq!(refused.code(), "OTHERMODE", "{again}");
            }
        }
        let holder = server.holder(key);
        assert_eq!(holder["meta"].text(), "old");
        assert!(holder["ttl-ms"].int() <= 60_000);
    }
    assert_eq!(server.traces(), before);
}

#[apply(on_one_server)]
fn a_waiter_that_asks_again_takes_its_old_place(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut lost = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");

    let mut bob = server.client();
    bob.send("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert_eq!(lost.recv().code(), "REPLACED");
    lost.assert_in_step();
    assert_eq!(server.waiters("job"), ["bob", "carol"]);

    server.run("DLOCK.RELEASE job alice");
    assert!(bob.recv().int() > 0);
    assert!(!carol.has_answer());
    server.run("DLOCK.RELEASE job bob");
    assert!(carol.recv().int() > 0);
    lost.assert_in_step();
}

#[apply(on_one_server)]
fn a_waiting_token_that_asks_without_wait_gets_null_and_stays(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").is_null());
    assert_eq!(server.waiters("job"), ["bob"]);
    server.run("DLOCK.RELEASE job alice");
    assert!(bob.recv().int() > 0);
}
