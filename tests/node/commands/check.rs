//! DLOCK.CHECK: does this token hold the lock now?

use harness::{Kind, Server, apply, eventually, on_every_server};

#[apply(on_every_server)]
fn a_holder_gets_its_fence_and_everybody_else_null(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let _bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    for stranger in ["bob", "carol", "Alice"] {
        let check = server.run(&format!("DLOCK.CHECK job {stranger}"));
        assert!(check.is_null(), "{stranger}");
    }
    assert!(server.run("DLOCK.CHECK nothing alice").is_null());
    assert_eq!(server.run("DBSIZE").int(), 1);
}

#[apply(on_every_server)]
fn every_reader_and_every_permit_has_its_own_fence(kind: Kind) {
    let server = Server::start(kind);
    for (key, mode) in [("job", "SHARED"), ("pool", "LIMIT 9")] {
        for token in ["t1", "t2", "t3"] {
            let acquire = format!("DLOCK.ACQUIRE {key} {token} 60000 {mode}");
            let fence = server.run(&acquire).int();
            let check = server.run(&format!("DLOCK.CHECK {key} {token}"));
            assert_eq!(check.int(), fence);
        }
    }
}

#[apply(on_every_server)]
fn there_is_no_fence_after_the_end(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("DLOCK.RELEASE job alice");
    assert!(server.run("DLOCK.CHECK job alice").is_null());
    server.run("DLOCK.ACQUIRE job alice 50");
    eventually("the lease ends", || server.run("DLOCK.CHECK job alice").is_null());
}

#[apply(on_every_server)]
fn the_next_holder_has_another_fence(kind: Kind) {
    let server = Server::start(kind);
    let first = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    server.run("DLOCK.RELEASE job alice");
    let second = bob.recv().int();
    assert!(second > first);
    assert_eq!(server.run("DLOCK.CHECK job bob").int(), second);
    assert!(server.run("DLOCK.CHECK job alice").is_null());
}
