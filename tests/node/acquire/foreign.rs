//! Foreign locks: plain strings that old clients set at a key. They are honoured and waited for.

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

#[apply(on_two_servers)]
fn a_string_at_the_key_is_a_held_lock(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET job old-client");
    let before = server.traces();
    for mode in ["", "SHARED", "LIMIT 3"] {
        let acquire = format!("DLOCK.ACQUIRE job alice 60000 {mode}");
        assert!(server.run(&acquire).is_null());
    }
    // Its own value does not take it either: there is no fence to reply.
    assert!(server.run("DLOCK.ACQUIRE job old-client 60000").is_null());
    assert!(server.run("DLOCK.CHECK job old-client").is_null());
    assert_eq!(server.traces(), before);
    assert_eq!(server.run("GET job").text(), "old-client");
}

#[apply(on_two_servers)]
fn a_waiter_gets_the_lock_when_the_string_is_deleted(kind: Kind) {
    let server = Server::start(kind);
    for deletion in ["DEL", "UNLINK", "GETDEL"] {
        server.run("SET job old-client");
        let mut alice = server.waiter("DLOCK.ACQUIRE job alice 60000 WAIT 0");
        let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
        server.run(&format!("{deletion} job"));
        assert!(alice.recv().int() > 0, "{deletion}");
        assert!(!bob.has_answer());
        server.run("DLOCK.RELEASE job alice");
        assert!(bob.recv().int() > 0);
        server.run("DLOCK.RELEASE job bob");
    }
}

#[apply(on_two_servers)]
fn a_waiter_is_told_when_a_set_takes_the_place_of_the_string(kind: Kind) {
    let server = Server::start(kind);
    server.run("SADD set member");
    server.run("SET job old-client");
    let mut alice = server.waiter("DLOCK.ACQUIRE job alice 60000 WAIT 0");
    assert_eq!(server.run("SUNIONSTORE job set").int(), 1);
    assert_eq!(alice.recv().code(), "UNBLOCKED");
}

#[apply(on_two_servers)]
fn a_string_that_has_expired_holds_nothing(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET job old-client PX 20");
    eventually("the string expires", || server.run("DLOCK.ACQUIRE job alice 60000").is_int());
    assert_eq!(server.holders("job"), ["alice"]);
}

#[apply(on_one_server)]
fn a_key_of_another_type_is_refused(kind: Kind) {
    let server = Server::start(kind);
    server.run("LPUSH list a");
    server.run("HSET hash a b");
    server.run("SADD set a");
    server.run("ZADD zset 1 a");
    server.run("XADD stream * a b");
    let before = server.traces();
    for key in ["list", "hash", "set", "zset", "stream"] {
        for request in [
            "DLOCK.ACQUIRE {} alice 60000",
            "DLOCK.ACQUIRE {} alice 60000 WAIT 0",
            "DLOCK.RELEASE {} alice",
            "DLOCK.EXTEND {} alice 60000",
            "DLOCK.EXTEND {} alice 60000 FENCE 5",
            "DLOCK.CHECK {} alice",
            "DLOCK.INSPECT {}",
            "DLOCK.TOKENS {}",
            "DLOCK.BREAK {}",
        ] {
            let request = request.replace("{}", key);
            assert_eq!(server.run(&request).code(), "WRONGTYPE", "{request}");
        }
    }
    assert_eq!(server.traces(), before);
}
