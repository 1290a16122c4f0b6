//! Programs that contend for a few locks while their networks and the nodes fail at random. Each
//! writes down when it was told that it holds, and no two may have been told so at the same time.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::Client;
use harness::library::connect_hasty;
use harness::{Grant, History, Promise, Proxy, Quorum, Way, seed, soak};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::coordinator::{ms, run};

const PROGRAMS: usize = 6;
pub const KEYS: [&str; 2] = ["a", "b"];
pub const TTL: Duration = ms(400);
/// A run in which nobody gets a lock shows nothing.
const LEAST: usize = 20;

/// Short, so that much goes wrong.
const NODE_TIMEOUT: Duration = ms(60);

#[test]
fn no_two_hold_together_while_networks_fail() {
    contend(3, Nodes::Run, Wish::Write);
    contend(5, Nodes::Run, Wish::Write);
}

#[test]
fn no_writer_holds_with_anybody_while_networks_fail() {
    contend(3, Nodes::Run, Wish::ReadOrWrite);
}

#[test]
fn no_two_hold_together_while_nodes_are_suspended() {
    contend(3, Nodes::Pause, Wish::Write);
}

#[test]
fn no_two_hold_together_while_nodes_crash() {
    contend(3, Nodes::Crash, Wish::Write);
}

#[test]
fn no_two_hold_together_while_nodes_lose_their_disks() {
    contend(3, Nodes::LoseDisks, Wish::Write);
    contend(1, Nodes::LoseDisks, Wish::Write);
}

#[test]
fn no_two_hold_together_on_one_node_while_its_network_fails() {
    contend(1, Nodes::Run, Wish::Write);
}

/// The nodes' own faults, beside those of their networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    Run,
    Pause,
    Crash,
    LoseDisks,
}

/// The ways in which programs want a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Write,
    ReadOrWrite,
}

fn contend(size: usize, nodes: Nodes, wish: Wish) {
    let mut quorum = match nodes {
        Nodes::LoseDisks => Quorum::with(size, |node| {
            node.config(&format!("dlock.newborn-quarantine {}", TTL.as_millis()))
        }),
        _ => Quorum::start(size),
    };
    let mut rng = seed::rng();
    let history = Arc::new(History::default());
    run(async {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut people, mut networks) = (JoinSet::new(), Vec::new());
        for _ in 0..PROGRAMS {
            let own: Vec<Proxy> = quorum.iter().map(|node| Proxy::start(node.port())).collect();
            let url = |proxy: &Proxy| format!("redis://127.0.0.1:{}", proxy.port());
            let urls = || own.iter().map(url).collect();
            let client = connect_hasty(urls, NODE_TIMEOUT).await;
            networks.push(own);
            let contender = Contender {
                client,
                history: Arc::clone(&history),
                ended: Arc::clone(&ended),
                rng: StdRng::seed_from_u64(rng.random()),
                wish,
            };
            people.spawn(contender.contend());
        }
        // Many seconds here would find more, and cost everybody who runs the tests as many.
        let lasts = if soak::tries_every_case() { ms(30_000) } else { ms(3_000) };
        let until = Instant::now() + lasts;
        // A busy machine takes longer to show as much.
        while Instant::now() < until || history.len() <= LEAST {
            change_networks(&networks, &mut rng);
            trouble(&mut quorum, nodes, &mut rng);
            thread::sleep(ms(rng.random_range(5..60)));
        }
        for network in networks.iter().flatten() {
            network.pass();
        }
        ended.store(true, Ordering::Relaxed);
        people.join_all().await;
    });
    let mut violations = history.violations();
    // Readers that come at the same time may have the same fence.
    violations.retain(|one| wish == Wish::Write || one.promise != Promise::FenceUsedOnce);
    assert!(violations.is_empty(), "{size} nodes, {nodes:?}: {violations:#?}");
    eprintln!("{size} nodes, {nodes:?}, {wish:?}: {} grants", history.len());
    quorum.assert_empty_within(TTL);
}

/// One network, or all of a program, changes.
pub fn change_networks(networks: &[Vec<Proxy>], rng: &mut impl Rng) {
    let program = &networks[rng.random_range(0..networks.len())];
    let one = rng.random_range(0..program.len());
    let concerned = if rng.random_range(0..4) == 0 { &program[..] } else { &program[one..=one] };
    let event = rng.random_range(0..10);
    for network in concerned {
        match event {
            0 => network.cut(),
            1 => network.swallow(),
            2 => network.refuse(),
            3 => network.keep_back(Way::Up),
            4 => network.keep_back(Way::Down),
            5 => network.delay(ms(rng.random_range(1..40))),
            6 => network
                .cut_after([Way::Up, Way::Down][rng.random_range(0..2)], rng.random_range(0..300)),
            _ => network.pass(),
        }
    }
}

/// Sometimes a node itself is in trouble, one at a time.
fn trouble(quorum: &mut Quorum, nodes: Nodes, rng: &mut impl Rng) {
    if rng.random_range(0..8) > 0 {
        return;
    }
    let place = rng.random_range(0..quorum.len());
    let node = &mut quorum[place];
    match nodes {
        Nodes::Run => {}
        Nodes::Pause => {
            node.pause();
            thread::sleep(ms(rng.random_range(10..600)));
            node.resume();
        }
        Nodes::Crash => {
            node.kill();
            node.start_again();
        }
        Nodes::LoseDisks => {
            node.kill();
            fs::remove_file(node.state_file()).expect("it was there");
            node.start_again();
            // The next one may follow before it grants, or after.
            thread::sleep(ms(rng.random_range(0..900)));
        }
    }
}

/// A program that wants locks all the time.
pub struct Contender {
    pub client: Client,
    pub history: Arc<History>,
    pub ended: Arc<AtomicBool>,
    pub rng: StdRng,
    pub wish: Wish,
}

impl Contender {
    pub async fn contend(mut self) {
        while !self.ended.load(Ordering::Relaxed) {
            self.take_and_hold().await;
        }
    }

    async fn take_and_hold(&mut self) {
        let rng = &mut self.rng;
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let shared = self.wish == Wish::ReadOrWrite && rng.random();
        let mut lock = self.client.lock(key).ttl(TTL);
        if shared {
            lock = lock.shared();
        }
        let asked = Instant::now();
        let taken = if rng.random_range(0..3) == 0 {
            lock.try_acquire().await
        } else {
            lock.acquire_within(ms(rng.random_range(1..800))).await
        };
        let Ok(guard) = taken else { return tokio::time::sleep(ms(5)).await };
        let (token, fence) = (guard.token().to_string(), guard.fence() as i64);
        let mut grant = Grant::new(key, &token, fence, asked, Duration::ZERO);
        if shared {
            grant = grant.shared();
        }
        // Some hold for longer than a lease.
        let longest = if rng.random_range(0..12) == 0 { 700 } else { 12 };
        let until = Instant::now() + ms(rng.random_range(0..longest));
        loop {
            // A guard that is valid after this moment was so at this moment.
            let now = Instant::now();
            if !guard.is_valid() {
                break;
            }
            grant.extended(now, Duration::ZERO);
            if now > until {
                break;
            }
            tokio::time::sleep(ms(1)).await;
        }
        self.history.add(grant);
        if rng.random() {
            let _ = guard.release().await;
        }
    }
}
