//! Several locks under the same faults. Programs contend for one lock after the other. Again and again one of
//! three servers is out of reach for a moment, while another one is killed and starts again at once. Judges
//! by other authors decide for each lock whether two clients held it at once.
//!
//! These tests print the table in docs/contributing/proof.md with DLOCK_SOAK_FAULTS=100.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::{Client, Guard};
use dlock_judges::verdict::Promise;
use dlock_judges::{Heard, Mode};
use harness::wait::PATIENCE;
use harness::{Grant, History, Quorum, seed, soak};
use rand::RngExt;
use tokio::runtime::{Builder, Runtime};

use crate::library::{connect, ms};
use crate::redlock::{Held, Redlock};

const TTL: Duration = ms(800);
/// A program works this long under a lock, at most, and stops when its lock is over by its own clock.
const LONGEST_HOLD: u64 = 700;
const PROGRAMS: usize = 6;
/// All programs want each lock for this long, and then the next.
const ROUND: Duration = ms(2_000);
/// One of the three servers is out of reach for this long, and then another one is killed. This repeats after
/// the pause.
const AWAY: Duration = ms(500);
const PAUSE: Duration = ms(1_000);
/// A run with fewer grants shows nothing.
const LEAST: usize = 15;
const NODE_TIMEOUT: Duration = ms(200);

#[test]
fn dlock_over_three_nodes_is_not_held_twice() {
    assert_never_held_twice("dlock, three nodes", |_, urls| Box::new(Dlock::new(urls)));
}

#[test]
fn dlock_on_one_node_is_not_held_twice() {
    assert_never_held_twice("dlock, one node", |_, urls| Box::new(Dlock::new(&urls[..1])));
}

#[test]
fn dlock_without_quarantine_is_held_twice() {
    let nodes = Quorum::with(3, |node| node.config("dlock.quarantine off"));
    let begin = |_, urls: &[String]| -> Box<dyn Party> { Box::new(Dlock::new(urls)) };
    assert_held_twice("dlock, three nodes, `dlock.quarantine off`", nodes, contend(begin));
}

#[test]
fn redlock_is_held_twice() {
    let nodes = Quorum::with(3, |node| node.without_module());
    let contenders =
        contend(|_, urls| Box::new(Recipe::of(Redlock::at(ports(urls), NODE_TIMEOUT))));
    assert_held_twice("Redlock by hand, three nodes", nodes, contenders);
}

// --- verdicts ------------------------------------------------------------------------------------

#[track_caller]
fn assert_never_held_twice(
    lock: &str,
    begin: impl Fn(usize, &[String]) -> Box<dyn Party> + Send + Sync + 'static,
) {
    let longest = soak::faults().unwrap_or(ms(8_000));
    let history = run(Quorum::start(3), contend(begin), |history, begun| {
        begun.elapsed() > PATIENCE || begun.elapsed() > longest && history.len() > LEAST
    });
    tell(lock, &history);
    history.assert_kept(lock);
    assert!(history.len() > LEAST, "{} grants show nothing", history.len());
}

/// Goes on until the judges accuse the lock, or for the time of `make soak`.
#[track_caller]
fn assert_held_twice(lock: &str, nodes: Quorum, contenders: Contenders) {
    let history = run(nodes, contenders, |history, begun| match soak::faults() {
        Some(longest) => begun.elapsed() > longest,
        None => begun.elapsed() > PATIENCE || held_twice(history, lock) > 0,
    });
    tell(lock, &history);
    assert!(held_twice(&history, lock) > 0, "no two clients held {lock} at once");
}

fn held_twice(history: &History, lock: &str) -> usize {
    let accused = history.accusations(lock);
    accused.iter().filter(|one| one.promise == Promise::Exclusion).count()
}

fn tell(lock: &str, history: &History) {
    let lines = history.lines();
    let (keys, holds) = (dlock_judges::verdict::keys(&lines), dlock_judges::verdict::holds(&lines));
    eprintln!(
        "{lock}: of {keys} locks {} were held twice, with {holds} holds",
        held_twice(history, lock)
    );
}

// --- the faults ----------------------------------------------------------------------------------

/// The programs that contend, from the moment when they have the nodes' URLs until the flag is set.
type Contenders = Box<dyn FnOnce(Vec<String>, Arc<History>, Arc<AtomicBool>) + Send>;

fn run(
    mut nodes: Quorum,
    contenders: Contenders,
    is_enough: impl Fn(&History, Instant) -> bool,
) -> Arc<History> {
    let mut rng = seed::rng();
    let (history, ended) = (Arc::new(History::default()), Arc::new(AtomicBool::new(false)));
    let (urls, begun) = (nodes.urls(), Instant::now());
    let all = {
        let (history, ended) = (Arc::clone(&history), Arc::clone(&ended));
        thread::spawn(|| contenders(urls, history, ended))
    };
    while !is_enough(&history, begun) {
        thread::sleep(PAUSE);
        let away = rng.random_range(0..3);
        let killed = (away + rng.random_range(1..3)) % 3;
        nodes[away].network().refuse();
        thread::sleep(AWAY);
        nodes[killed].kill();
        nodes[killed].start_again();
        nodes[away].network().pass();
    }
    ended.store(true, Ordering::Relaxed);
    all.join().expect("no program panics");
    history
}

/// The lock that all programs want now.
fn wanted(begun: Instant) -> String {
    format!("job:{}", begun.elapsed().as_millis() / ROUND.as_millis())
}

// --- programs in this process --------------------------------------------------------------------

/// A program with some lock.
trait Party: Send {
    /// Tries to take it, once.
    fn try_lock(&mut self, key: &str) -> Option<Grant>;

    /// The end of its validity, as stated now.
    fn until(&self) -> Instant;

    fn unlock(&mut self);
}

fn contend(
    begin: impl Fn(usize, &[String]) -> Box<dyn Party> + Send + Sync + 'static,
) -> Contenders {
    Box::new(move |urls, history, ended| {
        let begun = Instant::now();
        thread::scope(|scope| {
            for number in 0..PROGRAMS {
                let mut party = begin(number, &urls);
                let (history, ended) = (&history, &ended);
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        take_a_turn(&mut *party, number, &wanted(begun), history);
                    }
                });
            }
        });
    })
}

fn take_a_turn(party: &mut dyn Party, number: usize, key: &str, history: &History) {
    let (name, asked) = (format!("program {number}"), Instant::now());
    let Some(grant) = party.try_lock(key) else {
        history.add_attempt(key, &name, Mode::Exclusive, asked, Heard::Nothing);
        return thread::sleep(ms(rand::random_range(5..30)));
    };
    let mut grant = grant.by(&name);
    let enough = Instant::now() + ms(rand::random_range(0..LONGEST_HOLD));
    loop {
        let until = party.until();
        grant.extended(until, Duration::ZERO);
        let now = Instant::now();
        if now >= enough.min(until) {
            break;
        }
        thread::sleep(ms(2));
    }
    let sent = Instant::now();
    party.unlock();
    grant.released(sent, None);
    history.add(grant);
}

struct Dlock {
    runtime: Runtime,
    client: Client,
    guard: Option<Guard>,
}

impl Dlock {
    fn new(urls: &[String]) -> Dlock {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("there are threads");
        let client = runtime.block_on(connect(urls, NODE_TIMEOUT));
        Dlock { runtime, client, guard: None }
    }
}

impl Party for Dlock {
    fn try_lock(&mut self, key: &str) -> Option<Grant> {
        let asked = Instant::now();
        let attempt = self.client.lock(key).ttl(TTL).try_acquire();
        let guard = self.runtime.block_on(attempt).ok()?;
        let token = guard.token().to_string();
        let grant = Grant::new(key, &token, guard.fence() as i64, asked, Duration::ZERO);
        self.guard = Some(guard);
        Some(grant)
    }

    fn until(&self) -> Instant {
        let now = Instant::now();
        now + self.guard.as_ref().map_or(Duration::ZERO, Guard::valid_for)
    }

    fn unlock(&mut self) {
        if let Some(guard) = self.guard.take() {
            let _ = self.runtime.block_on(guard.release());
        }
    }
}

/// Redlock, which has no fences.
struct Recipe {
    redlock: Redlock,
    held: Option<Held>,
}

impl Recipe {
    fn of(redlock: Redlock) -> Recipe {
        Recipe { redlock, held: None }
    }
}

impl Party for Recipe {
    fn try_lock(&mut self, key: &str) -> Option<Grant> {
        let asked = Instant::now();
        let held = self.redlock.lock(key, TTL)?;
        let grant = Grant::without_fence(key, &held.value, asked);
        self.held = Some(held);
        Some(grant)
    }

    fn until(&self) -> Instant {
        self.held.as_ref().map_or_else(Instant::now, |held| held.until)
    }

    fn unlock(&mut self) {
        if let Some(held) = self.held.take() {
            self.redlock.unlock(&held);
        }
    }
}

fn ports(urls: &[String]) -> Vec<u16> {
    let port = |url: &String| url.rsplit(':').next().and_then(|port| port.parse().ok());
    urls.iter().map(|url| port(url).expect("a URL with a port")).collect()
}
