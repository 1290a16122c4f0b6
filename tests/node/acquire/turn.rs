//! DLOCK.ACQUIRE … TURN: who is next is told so.

use harness::{Kind, Server, apply, on_every_server};

#[apply(on_every_server)]
fn who_is_next_is_told_so_in_words_that_nobody_takes_for_a_grant(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let told = server.run("DLOCK.ACQUIRE job bob 60000 WAIT 0 KEEP 60000 TURN");
    assert_eq!(told.code(), "TURN");
    assert!(told.error().starts_with(&format!("TURN {fence} ")), "{told:?}");
    assert_eq!(server.waiters("job"), ["bob"]);
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0 KEEP 60000");
    server.run("DLOCK.RELEASE job alice");
    assert!(bob.recv().int() > fence);
}

#[apply(on_every_server)]
fn who_waits_behind_others_is_told_when_it_becomes_the_next(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0 KEEP 60000 TURN");
    assert!(!carol.has_answer());
    server.run("DLOCK.RELEASE job alice");
    let fence = bob.recv().int();
    let told = carol.recv();
    assert!(told.error().starts_with(&format!("TURN {fence} ")), "{told:?}");
    // It is away now, and its turn comes all the same.
    server.run("DLOCK.RELEASE job bob");
    assert_eq!(server.holders("job"), ["carol"]);
}

#[apply(on_every_server)]
fn a_free_lock_is_granted_and_not_announced(kind: Kind) {
    let server = Server::start(kind);
    assert!(server.run("DLOCK.ACQUIRE job alice 60000 WAIT 0 KEEP 60000 TURN").int() > 0);
}

#[apply(on_every_server)]
fn where_nothing_may_block_nobody_is_told(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut client = server.client();
    client.run("MULTI");
    client.run("DLOCK.ACQUIRE job bob 60000 WAIT 0 KEEP 60000 TURN");
    assert!(client.run("EXEC").items()[0].is_null());
    assert_eq!(server.waiters("job"), ["bob"]);
}

#[apply(on_every_server)]
fn turn_needs_keep(kind: Kind) {
    let server = Server::start(kind);
    for ask in ["TURN", "WAIT 0 TURN"] {
        let refused = server.run(&format!("DLOCK.ACQUIRE job alice 60000 {ask}"));
        assert_eq!(refused.error(), "ERR TURN needs KEEP", "{ask}");
    }
}

#[apply(on_every_server)]
fn while_the_holder_has_asked_with_turn_alone_nobody_is_told(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000 KEEP 60000 TURN").int();
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0 KEEP 60000 TURN");
    assert!(!bob.has_answer());
    assert_eq!(server.run("DLOCK.ACQUIRE job alice 60000").int(), fence);
    let told = bob.recv();
    assert!(told.error().starts_with(&format!("TURN {fence} ")), "{told:?}");
}
