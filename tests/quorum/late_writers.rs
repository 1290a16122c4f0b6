//! Holders of one lock that write while they are paused, cut off and killed at any moment. Writes arrive late
//! all the time. Data that checks the fence takes none of them.
//!
//! They also read a counter and write it plus one. Judges by other authors see that every increment counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::{Client, Guard};
use dlock_judges::{Asked, Heard};
use harness::contender::change_networks;
use harness::wait::PATIENCE;
use harness::{History, Kind, Proxy, Quorum, Server, seed, soak};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::coordinator::ms;

const TTL: Duration = ms(500);
const NODE_TIMEOUT: Duration = ms(60);
const MARK: &str = "{history}:mark";
/// Each holder appends its fence here, at the end: the data has the order of the writes.
const HISTORY: &str = "history";
/// The count, and its writer's name.
const COUNTER: &str = "counter";
/// A run with fewer writes shows nothing.
const LEAST: usize = 20;

#[test]
fn a_write_with_its_fence_never_lands_after_that_of_a_later_holder() {
    let run = Run::new();
    // Many minutes would find more, and cost each run of the tests as many.
    let until = Instant::now() + soak::run(ms(3_000), ms(600_000));
    let seen = run.go_on_until(|seen| {
        assert_eq!(late(&seen.writes), 0, "{:?}", seen.writes);
        let enough = seen.writes.len() > LEAST && seen.counted() > LEAST / 2;
        Instant::now() > until && enough && seen.refused > 0
    });
    eprintln!("{} writes, none of them late; {}", seen.writes.len(), seen.told());
    seen.changes.assert_kept("a counter with fences");
    assert_eq!(seen.lost(), 0);
}

/// The data, and the holders' knowledge of it.
struct Seen {
    /// The fences of the writes that the data took.
    writes: Vec<u64>,
    /// The number of those that it refused.
    refused: usize,
    changes: Arc<History>,
    /// The counter.
    count: usize,
}

impl Seen {
    /// The number of times that a holder's increment was confirmed.
    fn counted(&self) -> usize {
        let lines = self.changes.lines();
        lines.iter().filter(|line| is_change(&line.asked) && line.heard == Heard::Done).count()
    }

    /// The number of confirmed increments that the counter lacks, at least: unconfirmed ones may have
    /// counted.
    fn lost(&self) -> usize {
        self.counted().saturating_sub(self.count)
    }

    fn told(&self) -> String {
        let (counted, lost) = (self.counted(), self.lost());
        format!("counted {counted} times, and the counter says {}: {lost} lost", self.count)
    }
}

/// The beginning of a command that shows the fence to the mark.
fn fenced(fence: u64, command: &str) -> redis::Cmd {
    let mut fenced = redis::cmd("DLOCK.FENCED");
    fenced.arg(MARK).arg(fence).arg(command);
    fenced
}

fn is_change(asked: &Asked) -> bool {
    matches!(asked, Asked::Change { .. })
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

struct Run {
    _nodes: Quorum,
    data: Server,
    /// The networks of each holder: to the nodes, and to the data.
    networks: Vec<Vec<Proxy>>,
    holders: Vec<thread::JoinHandle<()>>,
    refused: Arc<AtomicUsize>,
    changes: Arc<History>,
    ended: Arc<AtomicBool>,
    rng: StdRng,
}

impl Run {
    fn new() -> Run {
        let (nodes, data) = (Quorum::start(5), Server::start(Kind::Redis82));
        let (refused, ended, changes) = (Arc::default(), Arc::default(), Arc::default());
        let mut rng = seed::rng();
        let (mut networks, mut holders) = (Vec::new(), Vec::new());
        for _ in 0..if soak::tries_every_case() { 20 } else { 8 } {
            let ports = nodes.iter().map(|node| node.port()).chain([data.port()]);
            let own: Vec<Proxy> = ports.map(Proxy::start).collect();
            let url = |proxy: &Proxy| format!("redis://127.0.0.1:{}", proxy.port());
            let holder = Holder {
                nodes: own[..5].iter().map(url).collect(),
                data: url(&own[5]),
                refused: Arc::clone(&refused),
                changes: Arc::clone(&changes),
                ended: Arc::clone(&ended),
                rng: StdRng::seed_from_u64(rng.random()),
            };
            networks.push(own);
            holders.push(thread::spawn(|| holder.live()));
        }
        let rng = StdRng::seed_from_u64(rng.random());
        Run { _nodes: nodes, data, networks, holders, refused, changes, ended, rng }
    }

    /// Goes on until it is enough.
    #[track_caller]
    fn go_on_until(mut self, mut is_enough: impl FnMut(&Seen) -> bool) -> Seen {
        let begun = Instant::now();
        let longest = PATIENCE + soak::run(ms(0), ms(840_000));
        loop {
            for _ in 0..10 {
                change_networks(&self.networks, &mut self.rng);
                thread::sleep(ms(self.rng.random_range(5..60)));
            }
            let seen = self.seen();
            if is_enough(&seen) {
                break;
            }
            assert!(begun.elapsed() < longest, "never enough: {:?}; {}", seen.writes, seen.told());
        }
        self.ended.store(true, Ordering::Relaxed);
        self.networks.iter().flatten().for_each(Proxy::pass);
        for holder in std::mem::take(&mut self.holders) {
            holder.join().expect("no holder panics");
        }
        self.seen()
    }

    fn seen(&self) -> Seen {
        // Read the holders' records first: a write after that is not lost.
        let changes = Arc::new(self.changes.so_far());
        let writes = self.data.run(&format!("LRANGE {HISTORY} 0 -1"));
        let count = self.data.run(&format!("GET {COUNTER}"));
        Seen {
            writes: writes
                .items()
                .iter()
                .map(|fence| fence.text().parse().expect("a fence"))
                .collect(),
            refused: self.refused.load(Ordering::Relaxed),
            changes,
            count: if count.is_null() { 0 } else { count_of(&count.text()) },
        }
    }
}

fn count_of(value: &str) -> usize {
    value.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// A program that takes the lock and writes, again and again. It never checks that its lock is still valid.
struct Holder {
    nodes: Vec<String>,
    data: String,
    refused: Arc<AtomicUsize>,
    changes: Arc<History>,
    ended: Arc<AtomicBool>,
    rng: StdRng,
}

impl Holder {
    fn live(mut self) {
        while !self.ended.load(Ordering::Relaxed) {
            let program = Builder::new_current_thread().enable_all().build().expect("a program");
            program.block_on(self.work());
            // The program is killed here: its locks are neither renewed nor released.
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
        if self.count(&mut data, guard).await {
            self.push(&mut data, guard.fence()).await;
        }
    }

    async fn open(&self) -> Result<MultiplexedConnection, redis::RedisError> {
        redis::Client::open(&self.data[..])?.get_multiplexed_async_connection().await
    }

    /// Reads the counter, and writes it plus one. True if this was confirmed. Without a reply a holder must
    /// not go on: its request may arrive after its next one.
    async fn count(&mut self, data: &mut impl ConnectionLike, guard: &Guard) -> bool {
        let (asked, token) = (Instant::now(), guard.token().as_str());
        let mut get = fenced(guard.fence(), "GET");
        let read = timeout(ms(200), get.arg(COUNTER).query_async::<Option<String>>(data)).await;
        let Ok(Ok(read)) = read else { return false };
        let read = read.unwrap_or_default();
        self.stand_still();
        let wrote = format!("{} {token}", count_of(&read) + 1);
        let mut set = fenced(guard.fence(), "SET");
        let written = timeout(ms(200), set.arg(COUNTER).arg(&wrote).exec_async(data)).await;
        let heard = match written {
            Ok(Ok(())) => Heard::Done,
            Ok(Err(error)) if error.code() == Some("STALE") => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Heard::Refused
            }
            _ => Heard::Nothing,
        };
        let returned = (heard != Heard::Nothing).then(Instant::now);
        self.changes.add_change((COUNTER, token), (asked, returned), heard, (&read, &wrote));
        heard == Heard::Done
    }

    /// Now and then the whole program pauses, with the renewal of its lock.
    fn stand_still(&mut self) {
        if self.rng.random_range(0..3) == 0 {
            thread::sleep(ms(self.rng.random_range(0..1_200)));
        }
    }

    async fn push(&mut self, data: &mut impl ConnectionLike, fence: u64) {
        for _ in 0..self.rng.random_range(1..5) {
            self.stand_still();
            let mut write = fenced(fence, "RPUSH");
            let written = write.arg(HISTORY).arg(fence).exec_async(data);
            if let Ok(Err(error)) = timeout(ms(200), written).await
                && error.code() == Some("STALE")
            {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}
