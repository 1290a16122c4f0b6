//! A connection that is cut after any number of bytes, each way, while a lock is taken, extended and given
//! back. Every reply to the program must be true, and nothing may be left behind.

use std::ops::Range;
use std::sync::Arc;

use dlock_client::{Client, Error, Guard};
use harness::wait::PATIENCE;
use harness::{Proxy, Quorum, Way, seed, soak};
use rand::RngExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::coordinator::{LONG, connect, healthy_program, run};

/// This many connections are cut at the same time.
const AT_ONCE: usize = 8;

#[test]
fn a_single_node_may_be_cut_off_at_any_byte() {
    any_byte(1, &[0]);
}

#[test]
fn the_gate_of_three_nodes_may_be_cut_off_at_any_byte() {
    any_byte(3, &[0]);
}

#[test]
fn a_majority_may_be_cut_off_at_any_byte() {
    any_byte(3, &[0, 1]);
}

/// Nodes, and the nodes that are cut off.
struct World {
    quorum: Quorum,
    cut: Vec<usize>,
}

fn any_byte(size: usize, cut: &[usize]) {
    let world = Arc::new(World { quorum: Quorum::start(size), cut: cut.to_vec() });
    run(async {
        let [requests, answers] = usual(&world).await;
        assert!(requests.end > 150 && answers.end > 10, "{requests:?} {answers:?}");
        let requests = requests.map(|bytes| (Way::Up, bytes));
        let answers = answers.map(|bytes| (Way::Down, bytes));
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut tries = JoinSet::new();
        // Each byte has its turn in one run of twelve.
        let step = if soak::tries_every_case() { 1 } else { 12 };
        let first = seed::rng().random_range(0..step);
        for way_and_bytes in requests.chain(answers).skip(first).step_by(step) {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is open");
            let world = Arc::clone(&world);
            tries.spawn(async move {
                cut_one(&world, way_and_bytes).await;
                drop(place);
            });
        }
        while let Some(ended) = tries.join_next().await {
            ended.expect("each try ends well");
        }
        world.quorum.until_empty();
    });
}

/// The number of bytes of taking, extending and releasing a lock, each way.
async fn usual(world: &World) -> [Range<u64>; 2] {
    let (client, networks) = behind_networks(world).await;
    let network = &networks[world.cut[0]];
    let count = || [network.arrived(Way::Up), network.arrived(Way::Down)];
    let before = count();
    let guard = client.lock("usual").ttl(LONG).try_acquire().await.expect("it is free");
    guard.extend(LONG).await.expect("it is held");
    guard.release().await.expect("it is held");
    assert!(client.released(PATIENCE).await, "the third node answers, too");
    let after = count();
    [0..after[0] - before[0] + 1, 0..after[1] - before[1] + 1]
}

/// One try: the connections are cut once, after this many bytes one way.
async fn cut_one(world: &World, (way, bytes): (Way, u64)) {
    let key = format!("job:{way:?}:{bytes}");
    let (client, networks) = behind_networks(world).await;
    let rival = healthy_program(&world.quorum).await;
    for node in &world.cut {
        networks[*node].cut_after(way, bytes);
    }
    let is_minority = world.cut.len() < world.quorum.majority();
    let taken = client.lock(&key).ttl(LONG).try_acquire().await;
    let fence = match taken {
        Ok(guard) => use_it(world, &rival, guard, is_minority).await,
        Err(Error::NoQuorum { .. }) if !is_minority => 0,
        Err(other) => panic!("{key}: {other}"),
    };
    let next = rival.lock(&key).ttl(LONG).acquire().await;
    let next = next.unwrap_or_else(|error| panic!("{key}: {error}"));
    assert!(next.fence() > fence, "{key}");
    next.release().await.unwrap_or_else(|loss| panic!("{key}: {loss}"));
    client.close().await;
}

/// A valid guard is really held.
async fn use_it(world: &World, rival: &Client, guard: Guard, is_minority: bool) -> u64 {
    let (key, fence) = (guard.key().clone(), guard.fence());
    assert_is_true(world, rival, &guard).await;
    let extended = guard.extend(LONG).await;
    assert!(extended.is_ok() || !is_minority, "{key}: {extended:?}");
    assert_is_true(world, rival, &guard).await;
    let released = guard.release().await;
    assert!(released.is_ok() || !is_minority, "{key}: {released:?}");
    fence
}

async fn assert_is_true(world: &World, rival: &Client, guard: &Guard) {
    let key = guard.key();
    let rivals = rival.lock(key).ttl(LONG).try_acquire().await;
    let held = world.quorum.held_by(key, &guard.token().to_string());
    // The guard is checked last: if it is valid now, it was held until now.
    if guard.is_valid() {
        assert!(rivals.is_err(), "{key}: two are valid");
        assert!(held >= world.quorum.majority(), "{key}: on {held} nodes");
    }
}

/// A program with networks of its own.
async fn behind_networks(world: &World) -> (Client, Vec<Proxy>) {
    let networks: Vec<Proxy> = world.quorum.iter().map(|node| Proxy::start(node.port())).collect();
    let url = |network: &Proxy| format!("redis://127.0.0.1:{}", network.port());
    let urls: Vec<String> = networks.iter().map(url).collect();
    (connect(&urls).await, networks)
}
