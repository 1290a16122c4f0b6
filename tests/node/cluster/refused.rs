//! Migrations of slots that a node refuses, because it cannot tell which locks are held.

use harness::{Cluster, Kind, Migration, Server, apply, eventually};

use super::migration::{assert_idle, begin};
use super::on_servers_that_migrate;

/// After a crash it could not tell that the lock was held, nor for how long.
#[apply(on_servers_that_migrate)]
fn a_node_whose_state_file_cannot_say_what_arrives_does_not_take_the_slot(kind: Kind) {
    let build = || Server::build(kind).cluster();
    let nodes = vec![build().start(), build().start(), build().with_small_disk().start()];
    let cluster = Cluster::of(nodes, Server::port);
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "uncovered");
    let slot = cluster.slot(&key);
    begin(&cluster, &key);
    target.fill_disk();
    let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 600000")).int();
    for node in [0, 2] {
        cluster.until_migration_is(Migration::Failed, node);
    }
    assert_eq!(source.run(&format!("DLOCK.CHECK {key} alice")).int(), fence);
    // The server can write again, so it takes slots over.
    target.free_disk();
    eventually("it writes again", || target.node("durable").text() == "yes");
    cluster.let_migrations_go(0);
    cluster.migrate_to_the_end(slot..=slot, 0, 2);
    assert_eq!(target.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    assert_idle(&cluster);
}

/// A node in quarantine may have forgotten leases, and the node that takes its slots over would have no
/// quarantine.
#[apply(on_servers_that_migrate)]
fn a_node_in_quarantine_gives_no_slot_away(kind: Kind) {
    let cluster = Cluster::start(kind);
    let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
    let key = cluster.key(0, "forgotten");
    let slot = cluster.slot(&key);
    source.run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
    source.run(&format!("DLOCK.RELEASE {key} alice"));
    source.run("DEBUG RELOAD");
    assert_eq!(source.node("granting").text(), "quarantine");
    cluster.hold_migrations(0);
    cluster.migrate(slot..=slot, 0, 2);
    cluster.until_migration_is(Migration::Cancelled, 0);
    assert!(source.log().contains("slots do not migrate: this node is in quarantine"));
    assert_eq!(target.run(&format!("DLOCK.ACQUIRE {key} bob 60000")).code(), "MOVED");
    source.run("CONFIG SET dlock.quarantine off");
    cluster.let_migrations_go(0);
    if kind.is_valkey() {
        cluster.migrate(slot..=slot, 0, 2);
    }
    cluster.until_migration_is(Migration::Done, 0);
    assert!(target.run(&format!("DLOCK.ACQUIRE {key} bob 300")).int() > 0);
}

/// The node that takes its slots over could not tell that the key is shut.
#[apply(on_servers_that_migrate)]
fn a_node_gives_no_slot_away_while_the_key_of_an_evicted_lock_is_shut(kind: Kind) {
    for begins_before in [false, true] {
        let cluster = Cluster::start(kind);
        let [source, _, target] = &cluster.nodes[..] else { unreachable!("three nodes") };
        let key = cluster.key(0, "evicted");
        let slot = cluster.slot(&key);
        let fence = source.run(&format!("DLOCK.ACQUIRE {key} alice 600000")).int();
        if begins_before {
            begin(&cluster, &key);
            source.evict_all();
        } else {
            source.evict_all();
            cluster.hold_migrations(0);
            cluster.migrate(slot..=slot, 0, 2);
        }
        cluster.until_migration_is(Migration::Cancelled, 0);
        assert!(source.log().contains("or has evicted locks"), "{}", source.log());
        let take = format!("DLOCK.ACQUIRE {key} bob 60000");
        assert_eq!(target.run(&take).code(), "MOVED");
        source.run("FLUSHALL");
        cluster.let_migrations_go(0);
        if kind.is_valkey() {
            cluster.migrate(slot..=slot, 0, 2);
        }
        cluster.until_migration_is(Migration::Done, 0);
        assert!(target.run(&take).int() > fence);
    }
}
