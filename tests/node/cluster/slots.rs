//! A Redis Cluster: commands go to the server that has their key. A slot moves with its held locks and their
//! waiters.

use std::time::Duration;

use harness::{Cluster, Kind, Server, apply, eventually, on_every_server};

use super::held_back::assert_sent_on;

#[apply(on_every_server)]
fn commands_go_where_their_key_is(kind: Kind) {
    let cluster = Cluster::start(kind);
    let key = cluster.key(1, "job");
    let moved = format!("MOVED {} 127.0.0.1:{}", cluster.slot(&key), cluster.nodes[1].port());
    let commands = [
        format!("DLOCK.ACQUIRE {key} alice 60000"),
        format!("DLOCK.ACQUIRE {key} alice 60000 WAIT 0"),
        format!("DLOCK.CHECK {key} alice"),
        format!("DLOCK.EXTEND {key} alice 60000"),
        format!("DLOCK.INSPECT {key}"),
        format!("DLOCK.RELEASE {key} alice"),
        format!("DLOCK.BREAK {key}"),
    ];
    for command in commands {
        for other in [0, 2] {
            assert_eq!(cluster.nodes[other].run(&command).error(), moved, "{command}");
        }
        let here = cluster.nodes[1].run(&command);
        assert!(!here.is_error(), "{command}: {here:?}");
        let keys = cluster.nodes[0].run(&format!("COMMAND GETKEYS {command}"));
        assert_eq!(keys.items().len(), 1, "{command}");
        assert_eq!(keys.items()[0].text(), key, "{command}");
    }
    let fences = cluster.nodes.iter().map(|node| node.node("fence").int());
    let granted: Vec<bool> = fences.map(|fence| fence > 0).collect();
    assert_eq!(granted, [false, true, false]);
}

#[apply(on_every_server)]
fn what_is_held_and_waited_for_moves_with_its_slot(kind: Kind) {
    let cluster = Cluster::start(kind);
    an_exclusive_lock_moves(&cluster);
    readers_and_permits_move(&cluster);
    a_lock_comes_back(&cluster);
    a_queue_starts_anew_at_the_new_node(&cluster);
    a_release_in_between_hands_over(&cluster);
    a_foreign_lock_moves(&cluster);
    a_lease_ends_before_its_slot_is_moved(&cluster);
    a_connection_ends_after_its_grant_was_moved(&cluster);
    a_holder_asks_again_at_the_new_node(&cluster);
}

fn an_exclusive_lock_moves(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "held");
    // Ahead of the clock, so that the new node's counter cannot be beyond it by itself.
    let proposal = source.run(&format!("DLOCK.ACQUIRE {key} first 60000")).int() + 300_000_000;
    source.run(&format!("DLOCK.RELEASE {key} first"));
    let ask = format!("DLOCK.ACQUIRE {key} alice 60000 FENCE {proposal} META why");
    let fence = source.run(&ask).int();
    assert!(fence >= proposal);

    cluster.move_slot(cluster.slot(&key), 0, 2);

    assert_eq!(target.run(&format!("DLOCK.CHECK {key} alice")).int(), fence);
    assert_eq!(target.holder(&key)["meta"].text(), "why");
    assert!(target.node("fence").int() >= fence);
    assert_eq!((source.node("leases").int(), target.node("leases").int()), (0, 1));
    assert_eq!(target.run(&format!("DLOCK.EXTEND {key} alice 60000")).int(), 1);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    assert!(target.run(&format!("DLOCK.ACQUIRE {key} bob 60000")).int() > fence);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} bob")).int(), 1);
    assert_eq!(source.run(&format!("DLOCK.CHECK {key} alice")).code(), "MOVED");
}

fn readers_and_permits_move(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    for (name, mode) in [("read", "SHARED"), ("pool", "LIMIT 2")] {
        let key = cluster.key(0, name);
        let first = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000 {mode}")).int();
        let second = source.run(&format!("DLOCK.ACQUIRE {key} bob 60000 {mode}")).int();
        cluster.move_slot(cluster.slot(&key), 0, 2);
        assert_eq!(target.run(&format!("DLOCK.CHECK {key} alice")).int(), first);
        assert_eq!(target.run(&format!("DLOCK.CHECK {key} bob")).int(), second);
        assert!(target.run(&format!("DLOCK.ACQUIRE {key} carol 60000")).is_null());
        assert_eq!(target.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
        assert_eq!(target.run(&format!("DLOCK.RELEASE {key} bob")).int(), 1);
        assert!(target.run(&format!("DLOCK.ACQUIRE {key} carol 60000")).int() > second);
        assert_eq!(target.run(&format!("DLOCK.BREAK {key}")).int(), 1);
    }
}

fn a_lock_comes_back(cluster: &Cluster) {
    let key = cluster.key(0, "back");
    let slot = cluster.slot(&key);
    let fence = cluster.nodes[0].run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        cluster.move_slot(slot, from, to);
        assert_eq!(cluster.nodes[to].run(&format!("DLOCK.CHECK {key} alice")).int(), fence);
    }
    let mut bob = cluster.nodes[0].waiter(&format!("DLOCK.ACQUIRE {key} bob 200 WAIT 0"));
    assert_eq!(cluster.nodes[0].run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    assert!(bob.recv().int() > fence);
    eventually("bob's lease ends", || cluster.nodes[0].run("DBSIZE").int() == 0);
    assert_idle(cluster);
}

fn a_queue_starts_anew_at_the_new_node(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "queue");
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    let ask = |n: usize| format!("DLOCK.ACQUIRE {key} t{n} 60000 WAIT 60000");
    let mut waiters = source.line(20, ask);
    let slot = cluster.slot(&key);
    cluster.open(slot, 0, 2);
    assert!(!waiters[0].has_answer(), "the lock is still here, and so is its queue");
    cluster.move_keys(slot, 0, 2);
    waiters.iter_mut().for_each(assert_sent_on);
    // Between the two halves, the old server redirects clients.
    assert_eq!(waiters[0].run(&ask(0)).code(), "ASK");
    cluster.close(slot, 0, 2);
    assert_eq!(waiters[0].run(&ask(0)).code(), "MOVED");

    let mut waiters = target.line(20, ask);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    let mut last = fence;
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let fence = waiter.recv().int();
        assert!(fence > last);
        last = fence;
        assert_eq!(target.run(&format!("DLOCK.RELEASE {key} t{number}")).int(), 1);
    }
    assert_idle(cluster);
}

fn a_release_in_between_hands_over(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "released");
    let slot = cluster.slot(&key);
    source.run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
    let mut bob = source.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
    let mut carol = source.waiter(&format!("DLOCK.ACQUIRE {key} carol 60000 WAIT 0"));
    cluster.open(slot, 0, 2);
    assert_eq!(source.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    let fence = bob.recv().int();
    cluster.move_keys(slot, 0, 2);
    assert_sent_on(&mut carol);
    cluster.close(slot, 0, 2);
    assert_eq!(target.run(&format!("DLOCK.CHECK {key} bob")).int(), fence);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} bob")).int(), 1);
    assert_idle(cluster);
}

fn a_foreign_lock_moves(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "foreign");
    source.run(&format!("SET {key} someone PX 60000"));
    let mut bob = source.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
    cluster.move_slot(cluster.slot(&key), 0, 2);
    assert_sent_on(&mut bob);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} someone")).int(), 0);
    assert_eq!(target.run(&format!("DEL {key}")).int(), 1);
    assert_idle(cluster);
}

fn a_lease_ends_before_its_slot_is_moved(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "between");
    let slot = cluster.slot(&key);
    source.run(&format!("DLOCK.ACQUIRE {key} alice 200"));
    cluster.open(slot, 0, 2);
    cluster.move_keys(slot, 0, 2);
    // Nothing to wait on: the defect would be a lock that outlives its lease for ever.
    std::thread::sleep(Duration::from_millis(500));
    cluster.close(slot, 0, 2);
    eventually("the lease is over, though nobody asks", || {
        source.run("DBSIZE").int() + target.run("DBSIZE").int() == 0
    });
    assert_idle(cluster);
}

fn a_connection_ends_after_its_grant_was_moved(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    for closes_between in [true, false] {
        let key = cluster.key(0, if closes_between { "job" } else { "other" });
        let slot = cluster.slot(&key);
        let mut alice = source.client();
        alice.run(&format!("DLOCK.ACQUIRE {key} alice 1500 EPHEMERAL"));
        let bob = source.waiter(&format!("DLOCK.ACQUIRE {key} bob 1500 WAIT 0 EPHEMERAL"));
        cluster.open(slot, 0, 2);
        cluster.move_keys(slot, 0, 2);
        if closes_between {
            alice.close();
            bob.close();
            cluster.close(slot, 0, 2);
        } else {
            cluster.close(slot, 0, 2);
            alice.close();
            bob.close();
        }
        assert_eq!(source.run(&format!("DLOCK.CHECK {key} alice")).code(), "MOVED");
        eventually("its lease ends", || target.run("DBSIZE").int() == 0);
    }
    assert_idle(cluster);
}

fn a_holder_asks_again_at_the_new_node(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "again");
    let ask = format!("DLOCK.ACQUIRE {key} alice 60000 EPHEMERAL");
    let mut old = source.client();
    let fence = old.run(&ask).int();
    cluster.move_slot(cluster.slot(&key), 0, 2);
    let mut new = target.client();
    assert_eq!(new.run(&ask).int(), fence);
    old.close();
    new.close();
    eventually("the grant ends with its new connection", || target.run("DBSIZE").int() == 0);
    assert_idle(cluster);
}

#[apply(on_every_server)]
fn what_ends_while_the_cluster_is_down_is_made_up_for(kind: Kind) {
    let cluster = Cluster::start(kind);
    let node = &cluster.nodes[0];
    let unused = cluster.slot(&cluster.key(0, "unused"));
    let (job, other) = (cluster.key(0, "job"), cluster.key(0, "other"));
    node.run(&format!("DLOCK.ACQUIRE {job} alice 600"));
    node.run(&format!("DLOCK.ACQUIRE {other} alice 600"));
    let mut bob = node.waiter(&format!("DLOCK.ACQUIRE {job} bob 600 WAIT 0"));
    // A slot without a server stops the whole cluster.
    node.run(&format!("CLUSTER DELSLOTS {unused}"));
    let state = |words| node.run("CLUSTER INFO").text().contains(words);
    eventually("the cluster is down", || state("cluster_state:fail"));
    assert_eq!(node.run(&format!("DLOCK.CHECK {job} alice")).code(), "CLUSTERDOWN");
    assert!(cluster.nodes.iter().any(|one| one.node("granting").text() == "CLUSTERDOWN"));
    std::thread::sleep(Duration::from_millis(800));
    node.run(&format!("CLUSTER ADDSLOTS {unused}"));
    eventually("the cluster is up", || state("cluster_state:ok"));

    // Redis itself ends waits; on Valkey the waiter is served once the cluster is up.
    let answer = bob.recv();
    let ends_waits = !matches!(kind, Kind::Valkey81 | Kind::Valkey91);
    assert!(answer.is_int() || ends_waits && answer.code() == "CLUSTERDOWN", "{answer:?}");
    eventually("both leases end, though nobody asks", || node.run("DBSIZE").int() == 0);
    assert_idle(&cluster);
}

/// Asserts that no lock is held, no client waits, and all servers run.
#[track_caller]
fn assert_idle(cluster: &Cluster) {
    let idle = |node: &Server| {
        let now = node.traces();
        (now.leases, now.waiters) == (0, 0)
    };
    let held = |node: &Server| (node.run("DBSIZE").int(), node.traces());
    let all: Vec<_> = cluster.nodes.iter().map(held).collect();
    assert!(cluster.nodes.iter().all(idle), "{all:?}");
}
