//! Slots that move away while a node holds back their locks, in quarantine or evicted: a node grants nothing
//! in a slot that has left it.

use std::time::Duration;

use harness::{Client, Cluster, Kind, apply, eventually, on_every_server, on_two_servers};

#[apply(on_every_server)]
fn a_waiter_for_a_lock_that_is_held_back_is_sent_on_when_its_slot_moves(kind: Kind) {
    let cluster = Cluster::start(kind);
    in_quarantine(&cluster);
    evicted(&cluster);
}

fn in_quarantine(cluster: &Cluster) {
    let source = &cluster.nodes[0];
    let (held, free) = (cluster.key(0, "held"), cluster.key(0, "free"));
    assert!(source.run(&format!("DLOCK.ACQUIRE {held} alice 60000")).int() > 0);
    source.run("DEBUG RELOAD");
    let mut waiters: Vec<Client> = [&held, &free]
        .map(|key| source.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0")))
        .into();
    for key in [&held, &free] {
        cluster.move_slot(cluster.slot(key), 0, 2);
    }
    source.run("CONFIG SET dlock.quarantine off");
    source.run("CONFIG SET dlock.quarantine auto");
    for waiter in &mut waiters {
        assert_sent_on(waiter);
    }
    assert_idle(cluster, 0);
    // The lock travelled with its slot.
    let target = &cluster.nodes[2];
    assert_eq!(target.run(&format!("DLOCK.RELEASE {held} alice")).int(), 1);
    assert_idle(cluster, 2);
}

fn evicted(cluster: &Cluster) {
    let source = &cluster.nodes[1];
    let key = cluster.key(1, "evicted");
    let [mut alice, mut waiter, _] = source.in_one_turn([
        &format!("DLOCK.ACQUIRE {key} alice 60000"),
        &format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"),
        "CONFIG SET maxmemory-policy allkeys-random maxmemory 1",
    ]);
    assert!(alice.recv().int() > 0);
    source.evict_all();
    cluster.move_slot(cluster.slot(&key), 1, 2);
    // The lease is over, and the lock would be granted here.
    source.run("FLUSHALL");
    assert_sent_on(&mut waiter);
    assert_idle(cluster, 1);
}

#[apply(on_two_servers)]
fn a_waiter_at_a_node_that_lacks_replicas_is_not_sent_on_and_served_afterwards(kind: Kind) {
    let cluster = Cluster::start(kind);
    let node = &cluster.nodes[0];
    let key = cluster.key(0, "job");
    let [mut alice, mut waiter, _] = node.in_one_turn([
        &format!("DLOCK.ACQUIRE {key} alice 200"),
        &format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"),
        "CONFIG SET min-replicas-to-write 1",
    ]);
    assert!(alice.recv().int() > 0);
    eventually("the lease is over", || node.run(&format!("DLOCK.CHECK {key} alice")).is_null());
    // Long enough for several looks.
    assert!(waiter.recv_within(Duration::from_millis(500)).is_none());
    node.run("CONFIG SET min-replicas-to-write 0");
    assert!(waiter.recv().int() > 0);
}

/// A cluster client asks again after this reply, and is redirected then.
#[track_caller]
pub fn assert_sent_on(waiter: &mut Client) {
    let answer = waiter.recv();
    assert!(["TRYAGAIN", "MOVED"].contains(&answer.code()), "{answer:?}");
    waiter.assert_in_step();
}

#[track_caller]
fn assert_idle(cluster: &Cluster, node: usize) {
    let node = &cluster.nodes[node];
    eventually("nothing is held here", || {
        let now = node.traces();
        (now.leases, now.waiters, now.keys) == (0, 0, 0)
    });
}
