//! DLOCK.PROBE: dlock asks the server whether it would let a client write. A client that sends it gets the
//! server's reply, and nothing changes.

use std::time::Duration;

use harness::{Kind, Server, apply, eventually, on_every_server, on_one_server, on_two_servers};

#[apply(on_one_server)]
fn nothing_happens(kind: Kind) {
    let server = Server::build(kind).append_only().start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("SET text any");
    let mut watcher = server.client();
    watcher.run("WATCH job text free");
    let state = || (server.traces(), server.pictures(), server.digest(), changes(&server));
    let before = state();
    for key in ["job", "text", "free"] {
        assert_eq!(server.run(&format!("DLOCK.PROBE {key}")).int(), 1);
    }
    for wrong in ["DLOCK.PROBE", "DLOCK.PROBE job more"] {
        assert_eq!(server.run(wrong).code(), "ERR", "{wrong}");
    }
    assert_eq!(state(), before);
    watcher.run("MULTI");
    watcher.run("DLOCK.PROBE job");
    assert_eq!(watcher.run("EXEC").items()[0].int(), 1, "a watched key has changed");
    let log = std::fs::read_to_string(server.append_only_log()).expect("it keeps a log");
    assert!(log.contains("any") && !log.to_uppercase().contains("PROBE"), "{log}");
}

#[apply(on_two_servers)]
fn a_user_that_may_not_write_is_refused_as_with_any_write(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    assert_eq!(replica.run("DLOCK.PROBE job").code(), "READONLY");
    primary.run("CONFIG SET min-replicas-to-write 2");
    assert_eq!(primary.run("DLOCK.PROBE job").code(), "NOREPLICAS");
    primary.run("ACL SETUSER bob on nopass ~bob:* +dlock.probe");
    primary.run("CONFIG SET min-replicas-to-write 0");
    let mut bob = primary.client();
    bob.run("AUTH bob any");
    assert_eq!(bob.run("DLOCK.PROBE bob:job").int(), 1);
    assert_eq!(bob.run("DLOCK.PROBE job").code(), "NOPERM");
}

#[apply(on_every_server)]
fn no_lock_is_handed_over_where_a_client_would_be_refused_and_commands_are_disabled(kind: Kind) {
    let server = Server::build(kind)
        .config("rename-command RENAMENX \"\"")
        .config("rename-command EVAL \"\"")
        .start();
    let [mut alice, mut bob, _] = server.in_one_turn([
        "DLOCK.ACQUIRE job alice 200",
        "DLOCK.ACQUIRE job bob 60000 WAIT 0",
        "CONFIG SET min-replicas-to-write 1",
    ]);
    assert!(alice.recv().int() > 0);
    eventually("the lease is over", || server.run("DLOCK.CHECK job alice").is_null());
    // Long enough for several looks.
    let answer = bob.recv_within(Duration::from_millis(500));
    assert!(answer.is_none(), "{answer:?}");
    server.run("CONFIG SET min-replicas-to-write 0");
    assert!(bob.recv().int() > 0);
}

fn changes(server: &Server) -> i64 {
    server.info_number("persistence", "rdb_changes_since_last_save")
}
