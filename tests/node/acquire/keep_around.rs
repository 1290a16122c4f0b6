//! Places, and what happens around them: a busy or paused server, quarantine, removal from outside,
//! restarts, other roles, slots that move.

use std::thread;
use std::time::Duration;

use harness::{Cluster, Kind, Server, Value, apply, eventually, on_every_server, on_two_servers};

/// A script that takes longer than the KEEP next to it.
///
/// Some servers have no clock of the processor. On the others time stands still in scripts.
const BUSY: &str = "local has, clock = pcall(function() return os.clock end) \
                    if not has then clock = function() \
                    local t = redis.call('TIME') return t[1] + t[2] / 1000000 end end \
                    local t = clock() + 2.5 while clock() < t do end return 1";

#[apply(on_two_servers)]
fn a_place_outlasts_a_script_during_which_the_request_came(kind: Kind) {
    let server = Server::build(kind).config("busy-reply-threshold 60000").start();
    // The script counts the time of the processor: on a busy machine it takes far longer.
    server.run("DLOCK.ACQUIRE waited holder 600000");
    let mut waiting = server.client();
    let mut busy = server.client();
    assert!(waiting.run("DLOCK.ACQUIRE waited away 1000 KEEP 1000").is_null());
    let mut other = server.waiter("DLOCK.ACQUIRE waited other 60000 WAIT 0");
    busy.send_args(&["EVAL", BUSY, "0"]);
    // In the middle of it the place ends, and its token asks.
    thread::sleep(Duration::from_millis(1200));
    waiting.send("DLOCK.ACQUIRE waited away 60000 KEEP 60000");
    assert_eq!(busy.recv().int(), 1);
    assert!(waiting.recv().is_null());
    assert_eq!(server.waiters("waited"), ["away", "other"]);
    assert!(!other.has_answer());
}

#[apply(on_two_servers)]
fn places_stand_still_while_clients_are_paused(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let mut away = server.client();
    assert!(away.run("DLOCK.ACQUIRE job away 1000 KEEP 1000").is_null());
    let _other = server.waiter("DLOCK.ACQUIRE job other 60000 WAIT 0");
    let left = |inspected: &Value| inspected.at("waiters").items()[0].at("left-ms").int();
    let words = ["DLOCK.INSPECT job", "CLIENT PAUSE 2500 WRITE"];
    let said = server.client().pipeline(words.map(str::to_owned));
    thread::sleep(Duration::from_millis(2000));
    assert_eq!(server.waiters("job"), ["away", "other"]);
    let (before, after) = (left(&said[0]), left(&server.run("DLOCK.INSPECT job")));
    assert!(after > before - 500, "{after} ms are left of {before}");
    assert!(away.run("DLOCK.ACQUIRE job away 60000 KEEP 60000").is_null());
    assert_eq!(server.waiters("job"), ["away", "other"]);
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

#[apply(on_two_servers)]
fn a_server_that_becomes_a_replica_drops_places_and_its_turns_are_leases_elsewhere(kind: Kind) {
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    primary.run("DLOCK.ACQUIRE job holder 60000");
    assert!(primary.run("DLOCK.ACQUIRE job away 30000 KEEP 30000").is_null());
    primary.run("DLOCK.RELEASE job holder");
    let fence = primary.holder("job")["fence"].int();
    assert!(primary.run("DLOCK.ACQUIRE job next 30000 KEEP 30000").is_null());
    primary.until_followed_by(&replica);
    replica.run("REPLICAOF NO ONE");
    assert_eq!(replica.holder("job")["fence"].int(), fence);
    assert!(replica.waiters("job").is_empty());
    primary.run(&format!("REPLICAOF 127.0.0.1 {}", replica.port()));
    eventually("the place is dropped", || primary.node("places").int() == 0);
}

#[apply(on_two_servers)]
fn a_slot_that_moves_leaves_its_places_behind(kind: Kind) {
    let cluster = Cluster::start(kind);
    let key = cluster.key(0, "job");
    cluster.nodes[0].run(&format!("DLOCK.ACQUIRE {key} holder 60000"));
    let poll = format!("DLOCK.ACQUIRE {key} away 60000 KEEP 60000");
    assert!(cluster.nodes[0].run(&poll).is_null());
    cluster.move_slot(cluster.slot(&key), 0, 2);
    eventually("the place is dropped", || cluster.nodes[0].node("places").int() == 0);
    assert!(cluster.nodes[2].run(&poll).is_null());
    assert_eq!(cluster.nodes[2].waiters(&key), ["away"]);
}

#[apply(on_every_server)]
fn a_plain_string_is_waited_for_by_absent_waiters(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET job old");
    assert!(server.run("DLOCK.ACQUIRE job away 60000 KEEP 60000").is_null());
    server.run("DEL job");
    assert!(server.run("DLOCK.ACQUIRE job other 60000").is_null(), "it would overtake");
    assert!(server.run("DLOCK.ACQUIRE job away 60000").int() > 0);
}
