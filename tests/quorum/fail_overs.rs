//! Servers of a cluster take over and give slots away, for [`chaos_cluster`](crate::chaos_cluster).

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use harness::{Cluster, Server, eventually};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::coordinator::ms;

/// A replica of the owner of a slot takes over in agreement with it. On a machine that pauses for a moment it
/// may have done so by itself, or has to be asked once more.
pub fn planned(cluster: &Cluster, slot: usize) {
    let (_, replica) = pair(cluster, slot);
    let mut asked: Option<Instant> = None;
    // All was calm before it began, too.
    eventually("the replica has taken over", || {
        let leads = cluster.owner(slot, replica) == Some(replica);
        if !leads && asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
            asked = Some(Instant::now());
            cluster.nodes[replica].run("CLUSTER FAILOVER");
        }
        leads
    });
    until_calm(cluster, slot, None);
}

/// Servers abandon a planned fail-over after five seconds.
const GIVEN_UP: Duration = ms(6_000);

/// A slot goes to another primary, unless the migration is cancelled.
pub fn migrate(cluster: &Cluster, slot: usize, is_cancelled: bool, rng: &mut StdRng) {
    let (owner, _) = pair(cluster, slot);
    let source = &cluster.nodes[owner];
    // A node would not give away a lock that it may have forgotten.
    eventually("the node is not in quarantine", || source.node("granting").text() != "quarantine");
    let others: Vec<usize> = (0..cluster.nodes.len())
        .filter(|node| *node != owner && cluster.nodes[*node].node("role").text() == "primary")
        .collect();
    let to = others[rng.random_range(0..others.len())];
    if is_cancelled {
        cluster.hold_migrations(owner);
    } else {
        cluster.let_migrations_go(owner);
    }
    cluster.try_to_migrate(slot, owner, to);
    if is_cancelled {
        thread::sleep(ms(rng.random_range(0..300)));
        cluster.try_to_cancel(owner, to);
        cluster.let_migrations_go(owner);
    }
    until_migrations_are_over(cluster);
    until_calm(cluster, slot, None);
}

/// Waits until no server sends a slot, or gets one.
pub fn until_migrations_are_over(cluster: &Cluster) {
    eventually("the migration is over", || cluster.has_no_migrations());
}

/// The owner of a slot, and its partner.
pub fn pair(cluster: &Cluster, slot: usize) -> (usize, usize) {
    let owner = cluster.owner(slot, 0).expect("each slot has an owner");
    // Each stays with its first partner, whichever of the two leads.
    (owner, (owner + 3) % 6)
}

/// Waits until all running servers agree on the owner of a slot, which runs, too. All running replicas follow
/// then.
pub fn until_calm(cluster: &Cluster, slot: usize, dead: Option<usize>) {
    let alive: Vec<usize> = (0..cluster.nodes.len()).filter(|node| Some(*node) != dead).collect();
    eventually("the cluster is well", || {
        let owners: BTreeSet<_> = alive.iter().map(|node| cluster.owner(slot, *node)).collect();
        let is_alive = |owner: &Option<usize>| owner.is_some_and(|owner| alive.contains(&owner));
        owners.len() == 1
            && owners.iter().all(is_alive)
            && alive.iter().all(|node| is_well(&cluster.nodes[*node]))
    });
}

fn is_well(node: &Server) -> bool {
    let replication = node.info("replication");
    let follows = replication.get("master_link_status").is_none_or(|link| link == "up");
    follows && node.run("CLUSTER INFO").text().contains("cluster_state:ok")
}
