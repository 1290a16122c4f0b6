//! Places, and what happens around them: a busy or paused server, quarantine, removal from outside,
//! restarts, other roles, slots that move.

use std::thread;
use std::time::Duration;

use harness::{Kind, Server, apply, on_one_server, on_two_servers};

#[apply(on_two_servers)]
fn places_stand_still_while_clients_are_paused(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let mut away = server.client();
    let words = ["DLOCK.ACQUIRE job away 1000 KEEP 1000", "CLIENT PAUSE 600000 WRITE"];
    assert!(away.pipeline(words.map(str::to_owned))[0].is_null());
    thread::sleep(Duration::from_millis(1100));
    let left = server.run("DLOCK.INSPECT job").at("waiters").items()[0].at("left-ms").int();
    assert!(left > 500, "{left} ms are left");
    // The token asks before the pause is over.
    away.send("DLOCK.ACQUIRE job away 60000 KEEP 60000");
    server.until_blocked(1);
    server.run("CLIENT UNPAUSE");
    assert!(away.recv().is_null());
    assert_eq!(server.waiters("job"), ["away"]);
}

#[apply(on_two_servers)]
fn a_restart_forgets_places_and_keeps_turns_as_leases(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    server.run("DLOCK.ACQUIRE job holder 60000");
    assert!(server.run("DLOCK.ACQUIRE job away 30000 KEEP 30000").is_null());
    server.run("DLOCK.ACQUIRE turn holder 60000");
    assert!(server.run("DLOCK.ACQUIRE turn away 30000 KEEP 30000").is_null());
    server.run("DLOCK.RELEASE turn holder");
    let fence = server.holder("turn")["fence"].int();
    server.restart();
    assert_eq!((server.node("places").int(), server.waiters("job").len()), (0, 0));
    assert_eq!(server.holder("turn")["fence"].int(), fence);
    assert!(server.holder("turn")["ttl-ms"].int() <= 30_000);
    assert_eq!(server.run("DLOCK.ACQUIRE turn away 60000").int(), fence);
}

#[apply(on_one_server)]
fn a_plain_string_is_waited_for_by_absent_waiters(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET job old");
    assert!(server.run("DLOCK.ACQUIRE job away 60000 KEEP 60000").is_null());
    server.run("DEL job");
    assert!(server.run("DLOCK.ACQUIRE job other 60000").is_null(), "it would overtake");
    assert!(server.run("DLOCK.ACQUIRE job away 60000").int() > 0);
}
