//! DLOCK.CHECK: does this token hold the lock now?

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn a_holder_gets_its_fence_and_every_other_client_null(kind: Kind) {
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
