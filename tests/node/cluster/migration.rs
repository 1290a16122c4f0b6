//! Slots that migrate as a whole (`CLUSTER MIGRATESLOTS` of Valkey 9, `CLUSTER MIGRATION` of Redis 8.4): held
//! locks and changes during the migration go along.

use harness::{Cluster, Kind, Migration, Server, apply, eventually};

use super::held_back::assert_sent_on;
use super::on_servers_that_migrate;

/// Far ahead of the clock, in µs, so that no node's counter can be beyond it by itself.
const AHEAD: i64 = 300_000_000;

/// A migration of the key's slot from the first node to the last, held before its end.
pub(super) fn begin(cluster: &Cluster, key: &str) {
    cluster.hold_migrations(0);
    let slot = cluster.slot(key);
    cluster.migrate(slot..=slot, 0, 2);
    cluster.until_caught_up(0, 2);
}

fn finish(cluster: &Cluster) {
    cluster.let_migrations_go(0);
    cluster.until_migration_is(Migration::Done, 0);
}

/// The number of keys of the slot at a node, also before it owns the slot. Redis does not show the keys of a
/// foreign slot: there it is the number of all keys.
fn keys_with(node: &Server, slot: usize) -> i64 {
    if node.kind().is_valkey() {
        return node.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}")).int();
    }
    let info = node.info("keyspace");
    let keys = info.get("db0").and_then(|db| db.strip_prefix("keys="));
    keys.and_then(|keys| keys.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Asserts that no lock is held and no client waits.
#[track_caller]
pub(super) fn assert_idle(cluster: &Cluster) {
    eventually("nothing is held anywhere", || {
        let traces = cluster.nodes.iter().map(Server::traces);
        traces.map(|now| (now.leases, now.waiters, now.keys)).all(|now| now == (0, 0, 0))
    });
}

#[apply(on_servers_that_migrate)]
fn what_is_held_or_free_goes_along_with_its_fence(kind: Kind) {
    let cluster = Cluster::start(kind);
    what_is_held_goes_along_to_and_fro(&cluster);
    a_free_key_keeps_its_fence(&cluster);
    a_lease_that_arrived_ends_at_the_new_node_without_a_request(&cluster);
    a_lease_longer_than_a_new_one_arrives_and_raises_the_bound(&cluster);
}

fn what_is_held_goes_along_to_and_fro(cluster: &Cluster) {
    let key = cluster.key(0, "held");
    let slot = cluster.slot(&key);
    let at = |name: &str| format!("{{{key}}}{name}");
    let source = &cluster.nodes[0];
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000 META why")).int();
    let (readers, permits) = (at("readers"), at("permits"));
    let take = |key: &str, token: &str, mode: &str| {
        source.run(&format!("DLOCK.ACQUIRE {key} {token} 60000 {mode}")).int()
    };
    let read = ["alice", "bob"].map(|token| take(&readers, token, "SHARED"));
    let held = ["alice", "bob"].map(|token| take(&permits, token, "LIMIT 2"));
    source.run(&format!("DLOCK.FENCED {} {fence} SET {} done", at("mark"), at("data")));
    let mut waiter = source.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
    for (from, to) in [(0, 2), (2, 1), (1, 0)] {
        cluster.migrate_to_the_end(slot..=slot, from, to);
        let node = &cluster.nodes[to];
        assert_eq!(node.run(&format!("DLOCK.CHECK {key} alice")).int(), fence);
        assert_eq!(node.holder(&key)["meta"].text(), "why");
        for (token, at) in [("alice", 0), ("bob", 1)] {
            assert_eq!(node.run(&format!("DLOCK.CHECK {readers} {token}")).int(), read[at]);
            assert_eq!(node.run(&format!("DLOCK.CHECK {permits} {token}")).int(), held[at]);
        }
        assert!(node.run(&format!("DLOCK.ACQUIRE {permits} carol 60000 LIMIT 2")).is_null());
        assert_eq!(node.run(&format!("DLOCK.MARK {}", at("mark"))).int(), fence);
        assert_eq!(node.run(&format!("GET {}", at("data"))).text(), "done");
        assert_eq!(node.node("leases").int(), 5);
        eventually("the old node has forgotten it", || {
            cluster.nodes[from].node("leases").int() == 0
        });
    }
    assert_sent_on(&mut waiter);
    for (key, token) in [
        (&key, "alice"),
        (&readers, "alice"),
        (&readers, "bob"),
        (&permits, "alice"),
        (&permits, "bob"),
    ] {
        assert_eq!(source.run(&format!("DLOCK.RELEASE {key} {token}")).int(), 1);
    }
    source.run(&format!("DEL {} {}", at("mark"), at("data")));
    assert_idle(cluster);
}

fn a_free_key_keeps_its_fence(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "free");
    let ahead = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int() + AHEAD;
    source.run(&format!("DLOCK.RELEASE {key} alice"));
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000 FENCE {ahead}")).int();
    source.run(&format!("DLOCK.RELEASE {key} alice"));
    let slot = cluster.slot(&key);
    cluster.migrate_to_the_end(slot..=slot, 0, 2);
    assert!(target.run(&format!("DLOCK.ACQUIRE {key} bob 60000")).int() > fence);
    // The key was far ahead, and no other key is.
    for other in [format!("{{{key}}}other"), cluster.key(2, "other")] {
        let near = target.run(&format!("DLOCK.ACQUIRE {other} bob 60000")).int();
        assert!(near < fence - AHEAD / 2, "{other}: {near}, {fence}");
        target.run(&format!("DLOCK.RELEASE {other} bob"));
    }
    target.run(&format!("DLOCK.RELEASE {key} bob"));
    assert_idle(cluster);
}

/// RESTORE of it would be refused.
fn a_lease_longer_than_a_new_one_arrives_and_raises_the_bound(cluster: &Cluster) {
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "long");
    target.run("CONFIG SET dlock.max-ttl 1000");
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 600000")).int();
    let slot = cluster.slot(&key);
    cluster.migrate_to_the_end(slot..=slot, 0, 2);
    assert_eq!(target.run(&format!("DLOCK.CHECK {key} alice")).int(), fence);
    eventually("the state file covers it", || target.node("lease-bound-ms").int() >= 590_000);
}

#[apply(on_servers_that_migrate)]
fn what_happens_during_a_migration_has_happened_at_the_new_node(kind: Kind) {
    let cluster = Cluster::start(kind);
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "busy");
    let at = |name: &str| format!("{{{key}}}{name}");
    begin(&cluster, &key);
    let mut client = source.client();
    let mut take =
        |name: &str, ttl| client.run(&format!("DLOCK.ACQUIRE {} alice {ttl}", at(name))).int();
    // A grant that comes with time, and not by a command.
    take("passed", 200);
    let passed = at("passed");
    let mut bob = source.waiter(&format!("DLOCK.ACQUIRE {passed} bob 60000 WAIT 0"));
    let fence = bob.recv().int();
    for name in ["released", "in-a-script", "in-a-transaction", "broken", "over"] {
        take(name, if name == "over" { 200 } else { 600_000 });
    }
    let longer = ["longer", "longer-in-a-script"].map(|name| take(name, 60_000));
    source.run(&format!("DLOCK.RELEASE {} alice", at("released")));
    source.run(&format!("DLOCK.BREAK {}", at("broken")));
    source.run(&format!("DLOCK.EXTEND {} alice 600000", at("longer")));
    let script = |words: &str, key: &str| {
        let script = format!("return redis.call({words})");
        let answer = source.client().run_args(&["EVAL", &script, "1", key]);
        assert_eq!(answer.int(), 1, "{words}");
    };
    script("'DLOCK.RELEASE',KEYS[1],'alice'", &at("in-a-script"));
    script("'DLOCK.EXTEND',KEYS[1],'alice',600000", &at("longer-in-a-script"));
    let mut transaction = source.client();
    for words in ["MULTI".into(), format!("DLOCK.RELEASE {} alice", at("in-a-transaction"))] {
        transaction.run(&words);
    }
    assert_eq!(transaction.run("EXEC").items()[0].int(), 1);
    let mut closing = source.client();
    closing.run(&format!("DLOCK.ACQUIRE {} alice 60000 EPHEMERAL", at("closed")));
    closing.close();
    let (mark, data) = (at("mark"), at("data"));
    assert_eq!(source.run(&format!("DLOCK.FENCED {mark} {fence} SET {data} a")).text(), "OK");
    assert_eq!(source.run(&format!("DLOCK.FENCED {mark} {fence} APPEND {data} b")).int(), 2);
    eventually("what is over has ended", || source.node("leases").int() == 3);
    finish(&cluster);

    for name in ["released", "in-a-script", "in-a-transaction", "broken", "over", "closed"] {
        assert!(target.run(&format!("DLOCK.CHECK {} alice", at(name))).is_null(), "{name}");
    }
    for (name, fence) in [("longer", longer[0]), ("longer-in-a-script", longer[1])] {
        assert_eq!(target.run(&format!("DLOCK.CHECK {} alice", at(name))).int(), fence);
        assert!(target.holder(at(name))["ttl-ms"].int() > 60_000, "{name}");
    }
    assert_eq!(target.run(&format!("DLOCK.CHECK {passed} bob")).int(), fence);
    assert_eq!(target.run(&format!("DLOCK.MARK {mark}")).int(), fence);
    assert_eq!(target.run(&format!("GET {data}")).text(), "ab");
    assert_eq!(target.node("leases").int(), 3);
}

#[apply(on_servers_that_migrate)]
fn no_lease_ends_at_the_new_node_before_the_slot_is_there(kind: Kind) {
    let cluster = Cluster::start(kind);
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let (key, own) = (cluster.key(0, "led"), cluster.key(2, "own"));
    let slot = cluster.slot(&key);
    begin(&cluster, &key);
    // In this pause the source ends no lease.
    let words = [format!("DLOCK.ACQUIRE {key} alice 1000"), "CLIENT PAUSE 600000 WRITE".to_owned()];
    source.client().pipeline(words);
    eventually("the migration has caught up", || keys_with(target, slot) == 1);
    target.run(&format!("DLOCK.ACQUIRE {own} alice 1000"));
    eventually("a lease that began later ends", || target.run("DBSIZE").int() == 0);
    assert_eq!(keys_with(target, slot), 1);
    source.run("CLIENT UNPAUSE");
    eventually("the source has ended it", || keys_with(target, slot) == 0);
    finish(&cluster);
    eventually("the new node serves", || {
        target.run(&format!("DLOCK.ACQUIRE {key} bob 300")).is_int()
    });
    assert_idle(&cluster);
}

fn a_lease_that_arrived_ends_at_the_new_node_without_a_request(cluster: &Cluster) {
    let key = cluster.key(0, "over");
    let slot = cluster.slot(&key);
    cluster.nodes[0].run(&format!("DLOCK.ACQUIRE {key} alice 1500"));
    for token in ["alice", "bob"] {
        let ask = format!("DLOCK.ACQUIRE {{{key}}}readers {token} 1500 SHARED");
        cluster.nodes[0].run(&ask);
    }
    cluster.migrate_to_the_end(slot..=slot, 0, 2);
    let target = &cluster.nodes[2];
    assert!(target.run(&format!("DLOCK.ACQUIRE {key} carol 300 WAIT 0")).int() > 0);
    assert_idle(cluster);
}

#[apply(on_servers_that_migrate)]
fn a_cancelled_migration_leaves_nothing_behind(kind: Kind) {
    let cluster = Cluster::start(kind);
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "cancelled");
    let slot = cluster.slot(&key);
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    let mut bob = source.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
    begin(&cluster, &key);
    assert_eq!(keys_with(target, slot), 1);
    cluster.cancel_migrations(0, 2);
    cluster.until_migration_is(Migration::Failed, 2);
    assert_eq!((keys_with(target, slot), target.node("leases").int()), (0, 0));
    assert_eq!(source.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    assert!(bob.recv().int() > fence);
    // And it can be tried again.
    cluster.let_migrations_go(0);
    cluster.migrate_to_the_end(slot..=slot, 0, 2);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} bob")).int(), 1);
    assert_idle(&cluster);
}

#[apply(on_servers_that_migrate)]
fn what_arrives_counts_as_memory_of_locks_before_the_slot_is_there(kind: Kind) {
    let cluster = Cluster::start(kind);
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let (key, own) = (cluster.key(0, "arrives"), cluster.key(2, "own"));
    let (slot, meta) = (cluster.slot(&key), "m".repeat(1000));
    let memory = |node: &Server| node.info_number("dlock", "dlock_memory");
    let options = ["60000", "60000 SHARED"];
    source.client().pipeline(
        (0..2_000)
            .map(|n| format!("DLOCK.ACQUIRE {{{key}}}{n} alice {} META {meta}", options[n % 2])),
    );
    // Of a hundred megabytes locks may take one.
    target.run("CONFIG SET maxmemory 100mb dlock.max-memory-percent 1");
    begin(&cluster, &key);
    assert_eq!(keys_with(target, slot), 2_000);
    assert!(memory(target) >= memory(source), "{} of {}", memory(target), memory(source));
    let take = format!("DLOCK.ACQUIRE {own} bob 60000");
    assert_eq!(target.run(&take).code(), "TOOMANY");
    // A lock that ends at the source arrives no more.
    source.client().pipeline((0..1_999).map(|n| format!("DLOCK.RELEASE {{{key}}}{n} alice")));
    eventually("the target has heard of it", || keys_with(target, slot) == 1);
    assert!(target.run(&take).is_int());
    cluster.cancel_migrations(0, 2);
    cluster.until_migration_is(Migration::Failed, 2);
    cluster.let_migrations_go(0);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {own} bob")).int(), 1);
    assert_eq!(memory(target), 0);
    cluster.migrate_to_the_end(slot..=slot, 0, 2);
    let last = format!("{{{key}}}1999");
    assert!(memory(target) > 1000, "it is the target's own now");
    assert_eq!(target.run(&format!("DLOCK.RELEASE {last} alice")).int(), 1);
    assert_eq!(memory(target), 0);
}

#[apply(on_servers_that_migrate)]
fn a_node_that_dies_during_a_migration_takes_nothing_along(kind: Kind) {
    let mut cluster = Cluster::start(kind);
    let key = cluster.key(0, "dies");
    let slot = cluster.slot(&key);
    let fence = cluster.nodes[0].run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    begin(&cluster, &key);
    cluster.nodes[2].kill();
    cluster.until_migration_is(Migration::Failed, 0);
    assert_eq!(cluster.nodes[0].run(&format!("DLOCK.CHECK {key} alice")).int(), fence);
    cluster.nodes[2].start_again();
    eventually("both nodes serve again", || {
        let serves = |node: &Server| node.run("CLUSTER INFO").text().contains("cluster_state:ok");
        serves(&cluster.nodes[0]) && serves(&cluster.nodes[2])
    });
    begin(&cluster, &key);
    assert_eq!(keys_with(&cluster.nodes[2], slot), 1);
    cluster.nodes[0].kill();
    cluster.until_migration_is(Migration::Failed, 2);
    assert_eq!((keys_with(&cluster.nodes[2], slot), cluster.nodes[2].node("leases").int()), (0, 0));
}

/// The pause stops the message with the fences, as that of another migration can on Valkey. After a crash the fences of
/// the first node are ahead of the other nodes' clocks.
#[apply(on_servers_that_migrate)]
fn a_free_key_keeps_its_fence_though_writes_are_paused(kind: Kind) {
    let mut cluster = Cluster::start(kind);
    let key = cluster.key(0, "free");
    cluster.nodes[0].run(&format!("DLOCK.ACQUIRE {key} alice 1000")).int();
    cluster.nodes[0].kill();
    cluster.nodes[0].start_again();
    let take = |node: usize| {
        let taken = cluster.nodes[node].run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
        cluster.nodes[node].run(&format!("DLOCK.RELEASE {key} alice"));
        taken.is_int().then(|| taken.int())
    };
    eventually("it grants again", || take(0).is_some());
    assert!(cluster.nodes[0].node("fence-ahead-ms").int() > 10_000);
    let before = take(0);
    cluster.nodes[0].run("CLIENT PAUSE 3000 WRITE");
    let slot = cluster.slot(&key);
    cluster.migrate(slot..=slot, 0, 2);
    eventually("the slot is there", || take(2).is_some());
    assert!(take(2) > before, "{before:?}");
}

#[apply(on_servers_that_migrate)]
fn the_new_nodes_replica_has_what_arrived_and_may_be_promoted(kind: Kind) {
    let mut cluster = Cluster::start(kind);
    let replica = cluster.replica_of(2);
    let key = cluster.key(0, "replicated");
    let at = |name: &str| format!("{{{key}}}{name}");
    let source = &cluster.nodes[0];
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    begin(&cluster, &key);
    source.run(&format!("DLOCK.ACQUIRE {} alice 60000", at("later")));
    source.run(&format!("DLOCK.ACQUIRE {} alice 60000", at("released")));
    source.run(&format!("DLOCK.RELEASE {} alice", at("released")));
    source.run(&format!("DLOCK.FENCED {} {fence}", at("mark")));
    // The replica follows the target, and the target follows the source.
    eventually("the replica knows of both", || replica.node("leases").int() == 2);
    finish(&cluster);
    cluster.nodes[2].assert_agrees_with(&replica);
    cluster.nodes[2].kill();
    eventually("the replica leads", || replica.run("ROLE").items()[0].text() == "master");
    eventually("the cluster serves", || {
        replica.run("CLUSTER INFO").text().contains("cluster_state:ok")
    });
    assert_eq!(replica.holder(&key)["fence"].int(), fence);
    assert_eq!(
        replica.run(&format!("DLOCK.ACQUIRE {} bob 1000", at("released"))).code(),
        "QUARANTINE"
    );
    assert_eq!(replica.run(&format!("DLOCK.EXTEND {key} alice 1000 FENCE {fence}")).int(), 1);
}

#[apply(on_servers_that_migrate)]
fn the_old_nodes_replica_learns_meanwhile_what_is_promised(kind: Kind) {
    let cluster = Cluster::start(kind);
    let replica = cluster.replica_of(0);
    let key = cluster.key(0, "promised");
    let source = &cluster.nodes[0];
    begin(&cluster, &key);
    // Each of these is written into the state file first, and sent to replicas.
    for power in 0..8 {
        source.run(&format!("DLOCK.ACQUIRE {key} alice {}", 4_000 << power));
        eventually("the replica knows for how long", || {
            let [own, its] = [source, &replica].map(|node| node.node("lease-bound-ms").int());
            its >= own
        });
    }
    finish(&cluster);
    cluster.nodes[0].assert_agrees_with(&replica);
}
