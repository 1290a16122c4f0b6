//! DLOCK.RELEASE … FINAL: a token that is done.

use harness::{Kind, Server, apply, on_every_server};

#[apply(on_every_server)]
fn an_acquire_that_its_final_release_has_overtaken_is_an_error(kind: Kind) {
    let server = Server::start(kind);
    assert_eq!(server.run("DLOCK.RELEASE job alice FINAL").int(), 0);
    let before = server.traces();
    for ask in ["", " WAIT 0", " KEEP 1000"] {
        let late = server.run(&format!("DLOCK.ACQUIRE job alice 60000{ask}"));
        assert_eq!(late.code(), "FINAL", "{late:?}");
    }
    assert_eq!(server.traces(), before);
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE other alice 60000").int() > 0);
}

#[apply(on_every_server)]
fn a_final_release_does_what_a_release_does(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0 KEEP 60000");
    assert_eq!(server.run("DLOCK.RELEASE job carol final").int(), 0);
    assert!(carol.recv().is_null());
    assert_eq!(server.run("DLOCK.RELEASE job alice FINAL").int(), 1);
    assert!(bob.recv().int() > 0);
    assert_eq!(server.run("DLOCK.RELEASE job alice FINAL").int(), 0);
    assert!(server.run("DLOCK.RELEASE job bob LAST").is_error());
    assert_eq!(server.holders("job"), ["bob"]);
}

#[apply(on_every_server)]
fn what_is_final_here_is_a_release_and_no_more_on_a_replica_and_in_the_log(kind: Kind) {
    let mut primary = Server::build(kind).append_only().start();
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    primary.run("DLOCK.ACQUIRE job alice 60000");
    primary.run("DLOCK.RELEASE job alice FINAL");
    primary.until_followed_by(&replica);
    assert!(replica.run("DLOCK.CHECK job alice").is_null());
    primary.restart();
    assert!(primary.run("DLOCK.CHECK job alice").is_null());
    assert!(primary.run("DLOCK.ACQUIRE job alice 60000").int() > 0, "about progress, not safety");
}

#[apply(on_every_server)]
fn a_user_that_fills_the_store_is_refused_and_nobody_else(kind: Kind) {
    let server = Server::start(kind);
    server.run("ACL SETUSER greedy on nopass ~* &* +@all");
    let mut greedy = server.client();
    greedy.run("AUTH greedy x");
    let requests = (0..10_001).map(|n| format!("DLOCK.RELEASE job t{n} FINAL\r\n"));
    greedy.send_raw(requests.collect::<String>().as_bytes());
    let refused = (0..10_001).filter(|_| greedy.recv().is_error()).count();
    assert_eq!(refused, 1);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let full = greedy.run("DLOCK.RELEASE job alice FINAL");
    assert_eq!(full.code(), "TOOMANYFINALS");
    assert_eq!(server.holders("job"), ["alice"], "an error leaves no trace");
    assert_eq!(server.run("DLOCK.RELEASE job alice FINAL").int(), 1);
    assert_eq!(server.run("DLOCK.ACQUIRE job t0 60000").code(), "FINAL");
}
