//! DLOCK.RELEASE: only the holder's token ends a lease, and the next waiter has the lock then.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn the_holder_releases_once(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    // From any connection: the token is what counts.
    assert_eq!(server.client().run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
    assert_eq!(server.node("leases").int(), 0);
}

#[apply(on_one_server)]
fn the_next_waiter_holds_the_lock_when_release_is_answered(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    alice.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    // In one packet: nothing can happen between the two.
    alice.send("DLOCK.RELEASE job alice");
    alice.send("DLOCK.ACQUIRE job alice 60000");
    alice.send("DLOCK.CHECK job bob");
    assert_eq!(alice.recv().int(), 1);
    assert!(alice.recv().is_null());
    let fence = alice.recv().int();
    assert_eq!(bob.recv().int(), fence);
}

#[apply(on_one_server)]
fn a_waiter_is_withdrawn_by_its_token(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.RELEASE job bob").int(), 0);
    assert!(bob.recv().is_null());
    bob.assert_in_step();
    assert_eq!(server.waiters("job"), ["carol"]);
    server.run("DLOCK.RELEASE job alice");
    assert!(carol.recv().int() > 0);
}
