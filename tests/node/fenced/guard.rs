//! DLOCK.GUARD: a command is carried out if the token holds the lock now.

use harness::{Kind, Server, Value, apply, eventually, on_every_server, on_one_server};

#[apply(on_one_server)]
fn only_who_holds_the_lock_gets_through(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let _waiter = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.GUARD job alice SET data 1").text(), "OK");
    for stranger in ["bob", "carol"] {
        let refused = server.run(&format!("DLOCK.GUARD job {stranger} SET data 2"));
        assert_eq!(refused.error(), "NOTHELD the token does not hold the lock now");
    }
    assert_eq!(server.run("DLOCK.GUARD nothing alice SET data 2").code(), "NOTHELD");
    assert_eq!(server.run("DLOCK.GUARD job alice GET data").text(), "1");
    assert_eq!(server.run("EXISTS nothing").int(), 0);
}

#[apply(on_one_server)]
fn nothing_gets_through_after_the_lease(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 50");
    eventually("the lease ends", || match server.run("DLOCK.GUARD job alice INCR data") {
        Value::Int(_) => false,
        refused => refused.code() == "NOTHELD",
    });
    let count = server.run("INCR data").int();
    assert_eq!(server.run("DLOCK.GUARD job alice INCR data").code(), "NOTHELD");
    assert_eq!(server.run("INCR data").int(), count + 1);
}

#[apply(on_one_server)]
fn a_plain_string_is_nobodys_grant(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET job alice PX 60000");
    assert_eq!(server.run("DLOCK.GUARD job alice SET data 1").code(), "NOTHELD");
    server.run("LPUSH list x");
    assert_eq!(server.run("DLOCK.GUARD list alice SET data 1").code(), "WRONGTYPE");
    assert_eq!(server.run("EXISTS data").int(), 0);
}

#[apply(on_every_server)]
fn what_cannot_be_guarded_is_said_whoever_asks(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    for (words, start) in [
        ("job alice NOPE", "ERR unknown command"),
        ("job alice GET", "ERR wrong number of arguments for 'get'"),
        ("job alice EVAL return 0", "NOTALLOWED "),
        ("job bob BLPOP list 0", "NOTALLOWED "),
        ("job bob DLOCK.FENCED mark 7 SET data 1", "NOTALLOWED "),
        ("job bob DLOCK.GUARD job alice SET data 1", "NOTALLOWED "),
        ("job alice", "ERR wrong number of arguments"),
    ] {
        let refused = server.run(&format!("DLOCK.GUARD {words}"));
        assert!(refused.error().starts_with(start), "{words}: {refused:?}");
    }
    assert_eq!(server.run("DBSIZE").int(), 1);
}

#[apply(on_one_server)]
fn the_lock_itself_can_be_what_the_command_is_about(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    assert_eq!(server.run("DLOCK.GUARD job alice DLOCK.EXTEND job alice 90000").int(), 1);
    assert!(server.holder("job")["ttl-ms"].int() > 60_000);
    let mut waiter = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.GUARD job alice DLOCK.RELEASE job alice").int(), 1);
    assert!(waiter.recv().int() > 0);
    assert_eq!(server.run("DLOCK.GUARD job bob DEL job").int(), 1);
    assert_eq!(server.run("DLOCK.GUARD job bob GET x").code(), "NOTHELD");
}

#[apply(on_every_server)]
fn only_effects_are_replicated(kind: Kind) {
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    primary.run("DLOCK.ACQUIRE job alice 60000");
    primary.run("DLOCK.GUARD job alice SET data 1 PX 60000");
    primary.run("DLOCK.GUARD job alice GET data");
    primary.run("DLOCK.GUARD job bob SET data 2");
    primary.assert_agrees_with(&replica);
    assert_eq!(replica.run("GET data").text(), "1");
    assert_eq!(replica.run("DLOCK.GUARD job alice GET data").code(), "READONLY");
}
