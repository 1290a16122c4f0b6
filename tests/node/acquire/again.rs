//! DLOCK.ACQUIRE by a token that holds the lock already, or waits for it.

use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_every_server};

#[apply(on_every_server)]
fn a_holder_that_asks_again_gets_the_same_fence(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    assert_eq!(server.run("DLOCK.ACQUIRE job alice 60000").int(), fence);
    // From another connection, and whether it would wait or not.
    let again = server.client().run("DLOCK.ACQUIRE job alice 60000 WAIT 0");
    assert_eq!(again.int(), fence);
    assert_eq!(server.holders("job"), ["alice"]);
    assert_eq!(server.node("leases").int(), 1);
    assert_eq!(server.node("fence").int(), fence);
}

#[apply(on_every_server)]
fn asking_again_prolongs_a_lease_and_never_shortens_it(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("DLOCK.ACQUIRE job alice 1000");
    let left = server.holder("job")["ttl-ms"].int();
    assert!((30_000..=60_000).contains(&left), "{left}");
    server.run("DLOCK.ACQUIRE job alice 300000");
    let left = server.holder("job")["ttl-ms"].int();
    assert!((270_000..=300_000).contains(&left), "{left}");
}

#[apply(on_every_server)]
fn asking_again_keeps_a_short_lease_alive(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let start = Instant::now();
    let fence = client.run("DLOCK.ACQUIRE job alice 2000").int();
    while start.elapsed() < Duration::from_millis(2500) {
        assert_eq!(client.run("DLOCK.ACQUIRE job alice 2000").int(), fence);
    }
}

#[apply(on_every_server)]
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

#[apply(on_every_server)]
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

#[apply(on_every_server)]
fn a_reader_renews_its_share_though_a_writer_waits(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000 SHARED").int();
    let _writer = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let again = server.run("DLOCK.ACQUIRE job alice 300000 SHARED");
    assert_eq!(again.int(), fence);
    assert!(server.holder("job")["ttl-ms"].int() > 60_000);
}

#[apply(on_every_server)]
fn a_token_asks_again_after_its_lease_has_ended_and_gets_a_new_fence(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 50").int();
    eventually("the lease ends", || server.run("DLOCK.CHECK job alice").is_null());
    assert!(server.run("DLOCK.ACQUIRE job alice 60000").int() > fence);
}

#[apply(on_every_server)]
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

#[apply(on_every_server)]
fn a_waiter_that_asks_again_waits_for_its_new_time(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut lost = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 300000 META old");
    let mut bob = server.client();
    bob.send("DLOCK.ACQUIRE job bob 60000 WAIT 100 META new");
    assert_eq!(lost.recv().code(), "REPLACED");
    assert!(bob.recv().is_null());
    assert!(server.waiters("job").is_empty());
}

#[apply(on_every_server)]
fn a_waiting_token_that_asks_without_wait_gets_null_and_stays(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").is_null());
    assert_eq!(server.waiters("job"), ["bob"]);
    server.run("DLOCK.RELEASE job alice");
    assert!(bob.recv().int() > 0);
}
