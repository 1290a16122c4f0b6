//! Fences of a promoted node: larger than all that the node before it granted, or may have granted.

use harness::{Kind, Server, apply, eventually, on_two_servers};

use crate::replicas::promotion::{cut, promote, streams, until_told};

/// The lead of the proposals here, in microseconds: nine minutes. A client may propose a fence that
/// is ten minutes ahead of the clock and the counter.
const AHEAD: i64 = 540_000_000;

/// Takes and releases a lock this many times, and returns the last fence.
fn take_often(server: &Server, times: usize) -> i64 {
    let cycle = ["DLOCK.ACQUIRE often alice 60000", "DLOCK.RELEASE often alice"];
    let requests = (0..times).flat_map(|_| cycle.map(str::to_owned));
    let answers = server.client().pipeline(requests);
    answers.iter().map(|answer| answer.int()).max().expect("some")
}

/// Raises the counter of a server far above its clock, with a key that is taken often, and returns it.
fn raise(server: &Server) -> i64 {
    let proposal = server.node("fence").int() + AHEAD;
    let fence = server.run(&format!("DLOCK.ACQUIRE often alice 600000 FENCE {proposal}"));
    assert!(fence.int() >= proposal, "{fence:?}");
    assert_eq!(server.run("DLOCK.RELEASE often alice").int(), 1);
    fence.int()
}

/// The first fence that a promoted node grants.
#[track_caller]
fn next_fence(replica: &Server) -> i64 {
    promote(replica);
    assert_eq!(replica.run("CONFIG SET dlock.quarantine off").text(), "OK");
    let fence = replica.run("DLOCK.ACQUIRE job bob 60000").int();
    assert!(replica.node("fence-reserved").int() >= fence);
    fence
}

#[apply(on_two_servers)]
fn they_are_larger_than_those_that_never_reached_the_replica(kind: Kind) {
    for is_ahead in [false, true] {
        let (primary, replica) = Server::pair(kind);
        let known = if is_ahead { raise(&primary) } else { take_often(&primary, 1) };
        until_told(&primary, &replica);
        eventually("the replica knows the counter", || replica.node("fence").int() >= known);
        cut(&primary, &replica);
        let lost = take_often(&primary, 200);
        assert!(lost > known);
        primary.pause();
        replica.resume();
        let next = next_fence(&replica);
        println!("{known} was replicated, {lost} was lost, {next} is next");
        assert!(next > lost, "{next} after {lost}");
    }
}

/// Without its primary's promise, it begins above all fences that a node accepts.
#[apply(on_two_servers)]
fn a_replica_that_is_promoted_as_soon_as_it_has_the_data_set_knows_enough(kind: Kind) {
    let primary = streams(kind);
    let fence = raise(&primary);
    for round in 0..5 {
        let replica = Server::start(kind);
        replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        eventually("the link is up", || replica.info("replication")["master_link_status"] == "up");
        promote(&replica);
        let node = replica.run("DLOCK.NODE");
        assert_eq!(node.at("granting").text(), "quarantine", "{round}: {node:?}");
        assert!(node.at("quarantine-ms").int() > 50_000, "{round}");
        replica.run("CONFIG SET dlock.quarantine off");
        let next = replica.run("DLOCK.ACQUIRE job bob 60000").int();
        assert!(next > fence, "{round}: {next} after {fence}");
    }
}
