//! Nodes that change their version while locks are held.

use std::collections::BTreeMap;
use std::path::Path;

use harness::program;
use harness::quarantine::{CRASHED, PROMOTED};
use harness::running::{Running, dlock};
use harness::{Builder, Kind, Picture, Quorum, Server, apply, eventually, on_two_servers};
use nix::sys::signal::Signal;

use crate::former;

/// Three former nodes.
fn former_nodes(describe: fn(Builder) -> Builder) -> Quorum {
    let kinds = [Kind::Redis82, Kind::Valkey91, Kind::Redis70];
    Quorum::of(kinds.into_iter().map(|kind| describe(former::node(kind))).collect())
}

/// A program of either version that takes a lock as soon as it can, and holds it until it is ended.
fn contender(program: &Path, quorum: &Quorum, key: &str) -> Running {
    let mut command = program::command_of(program, &quorum.urls());
    command.args(["run", "--ttl", "6s", key, "--", "sleep", "1000"]);
    Running::of(command)
}

/// A lock on all nodes, and the program that holds it.
struct Held {
    key: &'static str,
    holders: Vec<String>,
    running: Running,
}

/// A lock for each version of the program.
fn take(quorum: &Quorum) -> [Held; 2] {
    [("former", former::program()), ("present", program::path().clone())].map(|(key, program)| {
        let running = contender(&program, quorum, key);
        eventually("all have granted it", || quorum.held(key) == 3);
        Held { key, holders: quorum[0].holders(key), running }
    })
}

/// Upgrades a quorum node by node, as docs/operating.md says.
#[track_caller]
fn upgrade(quorum: &mut Quorum, held: &mut [Held]) {
    for node in 0..quorum.len() {
        quorum[node].stop();
        quorum[node].take_module_back();
        quorum[node].start_again();
        dlock(quorum, &["ready", "--wait", "60"]).with_code(0);
        for Held { key, holders, running } in &mut *held {
            eventually("it is held there, too", || quorum[node].holders(*key) == *holders);
            assert!(!running.has_ended(), "the lock on {key} is lost");
        }
    }
}

#[test]
fn nodes_with_a_log_are_upgraded_one_by_one_and_nobody_loses_a_lock_or_a_place() {
    let mut quorum = former_nodes(Builder::append_only);
    let mut held = take(&quorum);
    // Each waits for the lock of the other.
    let mut waiting = [
        contender(program::path(), &quorum, "former"),
        contender(&former::program(), &quorum, "present"),
    ];
    upgrade(&mut quorum, &mut held);
    assert!(waiting.iter_mut().all(|one| !one.has_ended()));
    for Held { key, holders, running } in held {
        running.signal(Signal::SIGTERM);
        eventually("who waited holds it", || {
            quorum.held(key) == 3 && quorum[0].holders(key) != holders
        });
    }
}

#[test]
fn nodes_that_forget_are_upgraded_one_by_one_and_nobody_loses_a_lock() {
    let mut quorum = former_nodes(|builder| builder);
    let mut held = take(&quorum);
    upgrade(&mut quorum, &mut held);
}

/// Takes locks in each mode, and raises a mark.
fn fill(server: &Server) {
    for words in [
        "DLOCK.ACQUIRE job alice 60000 META host=a",
        "DLOCK.ACQUIRE shared alice 60000 SHARED",
        "DLOCK.ACQUIRE shared bob 60000 SHARED",
        "DLOCK.ACQUIRE limited alice 60000 LIMIT 3",
        "DLOCK.ACQUIRE long alice 600000",
        "DLOCK.ACQUIRE gone alice 60000",
        "DLOCK.EXTEND job alice 90000",
        "DLOCK.FENCED mark 7 SET data 1",
    ] {
        let answer = server.run(words);
        assert!(!answer.is_null(), "{words}");
    }
    assert_eq!(server.run("DLOCK.RELEASE gone alice").int(), 1);
}

/// Asserts that a server has what [`fill`] left, and grants above it.
#[track_caller]
fn assert_filled(server: &Server, pictures: &BTreeMap<String, Picture>) {
    assert_eq!(&server.pictures(), pictures);
    assert_eq!(server.run("DLOCK.FENCED mark 6 SET data 0").code(), "STALE");
    assert_eq!(server.run("GET data").text(), "1");
    let largest =
        pictures.values().flat_map(|lock| lock.holders.values()).map(|one| one.fence).max();
    server.run("CONFIG SET dlock.quarantine off");
    assert!(server.run("DLOCK.ACQUIRE job bob 1000").is_null());
    assert!(Some(server.run("DLOCK.ACQUIRE next bob 1000").int()) > largest);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
}

#[apply(on_two_servers)]
fn a_present_replica_of_a_former_primary_can_take_its_place(kind: Kind) {
    let mut primary = former::node(kind).start();
    // Some comes with the synchronisation, the rest in the stream.
    primary.run("DLOCK.ACQUIRE early alice 60000");
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    fill(&primary);
    primary.assert_agrees_with(&replica);
    let pictures = primary.pictures();
    primary.kill();
    replica.run("REPLICAOF NO ONE");
    replica.assert_in_quarantine(PROMOTED);
    assert_filled(&replica, &pictures);
}

#[apply(on_two_servers)]
fn after_a_crash_of_a_former_node_the_present_one_waits_as_it_promised(kind: Kind) {
    let mut server = former::node(kind).start();
    server.run("DLOCK.ACQUIRE job alice 3000");
    let (fence, promised) = server.fences();
    let id = server.node("node-id").text();
    server.kill();
    server.take_module_back();
    server.start_again();
    server.assert_in_quarantine(CRASHED);
    assert_eq!(server.node("node-id").text(), id);
    server.until_it_grants();
    let next = server.next_fence();
    assert!(next > fence && next > promised, "{next} after {fence}, {promised} promised");
}
