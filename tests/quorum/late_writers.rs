//! Holders of one lock that write while they are stopped, cut off and killed at any moment. Writes
//! arrive late all the time. Data that is shown the fence takes none of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::{Client, Guard, Late};
use harness::wait::PATIENCE;
use harness::{Kind, Proxy, Quorum, Server, seed, soak};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::coordinator::ms;
use crate::random_faults::change_networks;

const TTL: Duration = ms(500);
const NODE_TIMEOUT: Duration = ms(60);
const MARK: &str = "{history}:mark";
/// Each holder writes its fence here, at the end. So the data itself knows in which order it took them.
const HISTORY: &str = "history";
/// A run with fewer writes shows nothing.
const LEAST: usize = 20;

#[test]
fn a_write_with_its_fence_never_lands_after_that_of_a_later_holder() {
    let run = Run::new(Shows::Fence);
    // Many minutes would find more, and cost everybody who runs the tests as many.
    let until = Instant::now() + if soak::tries_every_case() { ms(600_000) } else { ms(3_000) };
    let history = run.go_on_until(|history, refused| {
        assert_eq!(late(history), 0, "{history:?}");
        Instant::now() > until && history.len() > LEAST && refused > 0
    });
    eprintln!("{} writes, none of them late", history.len());
}

#[test]
fn a_write_without_its_fence_lands_after_that_of_a_later_holder() {
    Run::new(Shows::Nothing).go_on_until(|history, _| late(history) > 0);
}

/// The number of writes that came after one of a later holder.
fn late(history: &[u64]) -> usize {
    let mut newest = 0;
    let is_late = |fence: &&u64| {
        newest = newest.max(**fence);
        **fence < newest
    };
    history.iter().filter(is_late).count()
}

/// The proof that a holder shows to the data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    Fence,
    Nothing,
}

struct Run {
    _nodes: Quorum,
    data: Server,
    /// The networks of each holder: to the nodes, and to the data.
    networks: Vec<Vec<Proxy>>,
    holders: Vec<thread::JoinHandle<()>>,
    refused: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    rng: StdRng,
}

impl Run {
    fn new(shows: Shows) -> Run {
        let (nodes, data) = (Quorum::start(5), Server::start(Kind::Redis82));
        let (refused, ended) = (Arc::default(), Arc::default());
        let mut rng = seed::rng();
        let (mut networks, mut holders) = (Vec::new(), Vec::new());
        for _ in 0..if soak::tries_every_case() { 20 } else { 8 } {
            let ports = nodes.iter().map(|node| node.port()).chain([data.port()]);
            let own: Vec<Proxy> = ports.map(Proxy::start).collect();
            let url = |proxy: &Proxy| format!("redis://127.0.0.1:{}", proxy.port());
            let holder = Holder {
                nodes: own[..5].iter().map(url).collect(),
                data: url(&own[5]),
                shows,
                refused: Arc::clone(&refused),
                ended: Arc::clone(&ended),
                rng: StdRng::seed_from_u64(rng.random()),
            };
            networks.push(own);
            holders.push(thread::spawn(|| holder.live()));
        }
        let rng = StdRng::seed_from_u64(rng.random());
        Run { _nodes: nodes, data, networks, holders, refused, ended, rng }
    }

    /// Goes on until the writes that the data took, and the number of those that it refused, are
    /// enough.
    #[track_caller]
    fn go_on_until(mut self, mut is_enough: impl FnMut(&[u64], usize) -> bool) -> Vec<u64> {
        let begun = Instant::now();
        let longest = if soak::tries_every_case() { ms(900_000) } else { PATIENCE };
        let history = loop {
            change_networks(&self.networks, &mut self.rng);
            thread::sleep(ms(self.rng.random_range(5..60)));
            let history = self.history();
            if is_enough(&history, self.refused.load(Ordering::Relaxed)) {
                break history;
            }
            assert!(begun.elapsed() < longest, "never enough: {history:?}");
        };
        self.ended.store(true, Ordering::Relaxed);
        self.networks.iter().flatten().for_each(Proxy::pass);
        for holder in self.holders {
            holder.join().expect("no holder panics");
        }
        history
    }

    fn history(&self) -> Vec<u64> {
        let taken = self.data.run(&format!("LRANGE {HISTORY} 0 -1"));
        taken.items().iter().map(|fence| fence.text().parse().expect("a fence")).collect()
    }
}

/// A program that takes the lock and writes, again and again. The program never looks whether its
/// lock is still valid.
struct Holder {
    nodes: Vec<String>,
    data: String,
    shows: Shows,
    refused: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    rng: StdRng,
}

impl Holder {
    fn live(mut self) {
        while !self.ended.load(Ordering::Relaxed) {
            let program = Builder::new_current_thread().enable_all().build().expect("a program");
            program.block_on(self.work());
            // The program is killed here: whatever it still holds is neither renewed nor given back.
        }
    }

    async fn work(&mut self) {
        let client = Client::builder().nodes(&self.nodes).node_timeout(NODE_TIMEOUT).connect();
        let Ok(client) = client.await else { return sleep(ms(20)).await };
        while !self.ended.load(Ordering::Relaxed) {
            let lock = client.lock("account").ttl(TTL);
            let Ok(guard) = lock.acquire_within(ms(800)).await else { continue };
            self.write(&guard).await;
            match self.rng.random_range(0..3) {
                0 => _ = guard.release().await,
                1 => drop(guard),
                _ => return std::mem::forget(guard),
            }
        }
    }

    async fn write(&mut self, guard: &Guard) {
        let Ok(Ok(mut data)) = timeout(ms(200), self.open()).await else { return };
        let fence = guard.fence();
        if self.shows == Shows::Nothing {
            return self.push(&mut data, fence).await;
        }
        let mut data = guard.fenced(data, MARK).expect("it is exclusive");
        self.push(&mut data, fence).await;
    }

    async fn open(&self) -> Result<MultiplexedConnection, redis::RedisError> {
        redis::Client::open(&self.data[..])?.get_multiplexed_async_connection().await
    }

    async fn push(&mut self, data: &mut impl ConnectionLike, fence: u64) {
        for _ in 0..self.rng.random_range(1..5) {
            if self.rng.random_range(0..3) == 0 {
                // The program stands still: nothing of it runs, not even the renewal of its lock.
                thread::sleep(ms(self.rng.random_range(0..1_200)));
            }
            let mut write = redis::cmd("RPUSH");
            let written = write.arg(HISTORY).arg(fence).exec_async(data);
            if let Ok(Err(error)) = timeout(ms(200), written).await
                && Late::of(&error).is_some()
            {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}
