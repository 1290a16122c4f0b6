//! DLOCK.ACQUIRE … TURN: the next waiter gets an early reply.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn the_first_waiter_is_told_so_in_words_that_are_not_taken_for_a_grant(kind: Kind) {
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
