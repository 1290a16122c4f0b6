//! DLOCK.RELEASE: only the holder's token ends a lease, and the next waiter has the lock then.

use harness::{Kind, Server, apply, eventually, on_every_server};

#[apply(on_every_server)]
fn the_holder_releases_once(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    // From any connection: the token is what counts.
    assert_eq!(server.client().run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
    assert_eq!(server.node("leases").int(), 0);
}

#[apply(on_every_server)]
fn nobody_else_releases(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    for token in ["bob", "alic", "alicee", "ALICE"] {
        let release = format!("DLOCK.RELEASE job {token}");
        assert_eq!(server.run(&release).int(), 0, "{token}");
    }
    assert_eq!(server.holders("job"), ["alice"]);
    assert_eq!(server.run("DLOCK.RELEASE nothing alice").int(), 0);
    assert_eq!(server.run("DBSIZE").int(), 1);
}

#[apply(on_every_server)]
fn a_holder_whose_lease_has_ended_cannot_release_the_next_holders_lock(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 50");
    let mut bob = server.client();
    assert!(bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 0").int() > 0);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 0);
    assert_eq!(server.holders("job"), ["bob"]);
}

#[apply(on_every_server)]
fn an_ended_lease_cannot_be_released(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 50");
    eventually("the lease ends", || server.run("DLOCK.CHECK job alice").is_null());
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 0);
}

#[apply(on_every_server)]
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

#[apply(on_every_server)]
fn one_share_or_permit_is_released_and_the_others_stay(kind: Kind) {
    let server = Server::start(kind);
    for (key, mode) in [("job", "SHARED"), ("pool", "LIMIT 5")] {
        for token in ["t1", "t2", "t3"] {
            server.run(&format!("DLOCK.ACQUIRE {key} {token} 60000 {mode}"));
        }
        assert_eq!(server.run(&format!("DLOCK.RELEASE {key} t2")).int(), 1);
        assert_eq!(server.run(&format!("DLOCK.RELEASE {key} t2")).int(), 0);
        let mut holders = server.holders(key);
        holders.sort();
        assert_eq!(holders, ["t1", "t3"]);
    }
}

#[apply(on_every_server)]
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

#[apply(on_every_server)]
fn the_same_token_may_take_the_lock_again_after_release(kind: Kind) {
    let server = Server::start(kind);
    let first = server.run("DLOCK.ACQUIRE job alice 60000").int();
    server.run("DLOCK.RELEASE job alice");
    assert!(server.run("DLOCK.ACQUIRE job alice 60000").int() > first);
}

#[apply(on_every_server)]
fn a_released_lock_is_free_for_any_mode(kind: Kind) {
    let server = Server::start(kind);
    for mode in ["", "SHARED", "LIMIT 3", "", "LIMIT 7", "SHARED"] {
        let acquire = format!("DLOCK.ACQUIRE job alice 60000 {mode}");
        assert!(server.run(&acquire).int() > 0);
        assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    }
}
