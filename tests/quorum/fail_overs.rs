//! Programs that contend for a few locks of a node, while its servers crash, take over and give slots away at
//! random. No two programs hold a lock at the same time, and fences grow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::contender::{Contender, KEYS, Wish};
use harness::library::connect_hasty;
use harness::{Cluster, History, Kind, Server, eventually, seed, soak};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::coordinator::{ms, run};

mod no_two_hold_together_while_a_cluster_fails_over_and_slots_migrate {
    #[test]
    fn valkey_9_1() {
        super::fail_overs_while_slots_migrate(super::Kind::Valkey91);
    }

    #[test]
    fn redis_8_6() {
        super::fail_overs_while_slots_migrate(super::Kind::Redis86);
    }
}

fn fail_overs_while_slots_migrate(kind: Kind) {
    let mut cluster = Cluster::start_with_replicas(kind);
    let url = cluster.url(&[0, 1, 2]);
    contend(
        &url,
        &[CLUSTER_PLANNED, CLUSTER_KILL, CLUSTER_MIGRATE, CLUSTER_CANCEL],
        |event, rng| {
            let slot = cluster.slot(KEYS[rng.random_range(0..KEYS.len())]);
            match event {
                CLUSTER_PLANNED => planned(&cluster, slot),
                CLUSTER_KILL => kill(&mut cluster, slot),
                event => migrate(&cluster, slot, event == CLUSTER_CANCEL, rng),
            }
        },
    );
}

const CLUSTER_PLANNED: u8 = 0;
const CLUSTER_KILL: u8 = 1;
const CLUSTER_MIGRATE: u8 = 2;
const CLUSTER_CANCEL: u8 = 3;

/// Each of these events once, or all at random for ten minutes. In between every program has to get locks
/// again.
fn contend(url: &str, events: &[u8], mut happen: impl FnMut(u8, &mut StdRng)) {
    let mut rng = seed::rng();
    let history = Arc::new(History::default());
    run(async {
        let ended = Arc::new(AtomicBool::new(false));
        let mut people = JoinSet::new();
        for number in 0..if soak::tries_every_case() { 20 } else { 6 } {
            let contender = Contender {
                name: format!("program {number}"),
                client: connect_hasty(|| vec![url.to_owned()], ms(500)).await,
                history: Arc::clone(&history),
                ended: Arc::clone(&ended),
                rng: StdRng::seed_from_u64(rng.random()),
                wish: Wish::Write,
            };
            people.spawn(contender.contend());
        }
        let until = Instant::now() + soak::run(ms(0), ms(600_000));
        let mut next = events.iter().copied();
        while let Some(event) = next.next().or_else(|| {
            let goes_on = Instant::now() < until;
            goes_on.then(|| events[rng.random_range(0..events.len())])
        }) {
            let before = history.len();
            happen(event, &mut rng);
            eventually("locks are granted again", || history.len() > before + LEAST);
        }
        ended.store(true, Ordering::Relaxed);
        people.join_all().await;
    });
    history.assert_kept("fail-overs");
    eprintln!("{} grants", history.len());
}

/// A run without grants shows nothing.
const LEAST: usize = 10;

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

/// The owner of a slot crashes, its replica takes over, and the owner comes back.
fn kill(cluster: &mut Cluster, slot: usize) {
    let (owner, _) = pair(cluster, slot);
    cluster.nodes[owner].kill();
    until_calm(cluster, slot, Some(owner));
    cluster.nodes[owner].start_again();
    until_calm(cluster, slot, None);
}

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
