//! A node that is a primary behind Sentinels, or a Redis Cluster: what that adds to a lock that nobody else
//! wants, and how long others wait after a fail-over and while slots move.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::Client;
use harness::watched::Watched;
use harness::{Cluster, Kind, Server};
use tokio::runtime::Runtime;

use crate::measure::{Compared, median};
use crate::options::Options;
use crate::report::{Report, Row, Target};

/// This many acquisitions are one figure.
const ACQUISITIONS: usize = 100;
/// This many slots move.
const SLOTS: usize = 1_500;
/// Keys for which two clients each contend meanwhile.
const KEYS: usize = 8;
/// A lease that nobody renews.
const LEASE: i64 = 10_000;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let runtime = Runtime::new().expect("a runtime starts");
    let rounds = options.rounds(50);
    let what = "acquire over Sentinel, p50";
    report.attempt(what, |report| {
        let node = Watched::start(kind, 1);
        let urls = [node.url(), direct(&node.servers[0])];
        let compared = runtime.block_on(uncontended(&urls, "free", rounds));
        let target = Target::AtMost(1.05);
        report.add(kind, Row::compared(what, "the same server", "µs", compared, target));
    });
    let what = "acquire over a Cluster, p50";
    report.attempt(what, |report| {
        let cluster = Cluster::start(kind);
        let urls = [cluster.url(&[0, 1, 2]), direct(&cluster.nodes[1])];
        let tag = cluster.key(1, "free");
        let compared = runtime.block_on(uncontended(&urls, &format!("{{{tag}}}"), rounds));
        let target = Target::AtMost(1.05);
        report.add(kind, Row::compared(what, "the same server", "µs", compared, target));
    });
    let what = "first waiter after promotion and quarantine";
    report.attempt(what, |report| {
        let times = if options.quick { 1 } else { 3 };
        let late = median((0..times).map(|_| after_a_fail_over(kind, &runtime)).collect());
        report.add(kind, Row::alone(what, "ms", late, Target::AtMost(500.0)));
    });
    let what = format!("longest wait, more while {SLOTS} slots move");
    report.attempt(&what, |report| {
        let [moving, calm] = while_slots_move(kind, &runtime);
        let row = Row::alone(&what, "ms", (moving - calm).max(0.0), Target::AtMost(1_000.0));
        report.add(kind, row.beside("the longest while none do", calm));
    });
}

fn direct(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

async fn client(url: &str) -> Client {
    Client::connect(url).await.expect("the node is there")
}

/// The medians of acquisitions by two ways to the same server, taken in turns.
async fn uncontended(urls: &[String; 2], prefix: &str, rounds: usize) -> Compared {
    let clients = [client(&urls[0]).await, client(&urls[1]).await];
    let mut pairs = Vec::new();
    for round in 0..=rounds {
        let mut took = [Vec::new(), Vec::new()];
        for number in 0..ACQUISITIONS {
            // Neither is always the first.
            let first = number % 2;
            for side in [first, 1 - first] {
                let lock = clients[side].lock(format!("{prefix}:{round}:{number}:{side}"));
                let begun = Instant::now();
                let guard = lock.try_acquire().await.expect("it is free");
                took[side].push(begun.elapsed().as_secs_f64() * 1e6);
                guard.release().await.expect("it is held");
            }
        }
        pairs.push(took.map(median));
    }
    // The first time is never like the others.
    Compared::of_pairs(&pairs[1..])
}

/// The delay of the first waiter after a fail-over, in milliseconds: how much later than promotion,
/// quarantine and lease allow it has the lock of a holder that died with the primary.
fn after_a_fail_over(kind: Kind, runtime: &Runtime) -> f64 {
    let mut node = Watched::start(kind, 1);
    assert!(node.servers[0].run(&format!("DLOCK.ACQUIRE job holder {LEASE}")).int() > 0);
    let url = node.url();
    let waiter = runtime.spawn(async move {
        let guard = client(&url).await.lock("job").acquire().await.expect("it waits for it all");
        let served = Instant::now();
        guard.release().await.expect("it is held");
        served
    });
    node.servers[0].until_blocked(1);
    node.until_followed(0);
    node.servers[0].kill();
    let now = node.promoted(0, &[0, 1, 2]);
    let promoted = Instant::now();
    let lock = node.servers[now].run("DLOCK.INSPECT job");
    let lease = if lock.is_null() { 0 } else { lock.at("holders").items()[0].at("ttl-ms").int() };
    let left = lease.max(node.servers[now].node("quarantine-ms").int());
    let allowed = promoted + Duration::from_millis(u64::try_from(left).unwrap_or(0));
    let served = runtime.block_on(waiter).expect("it does not panic");
    served.saturating_duration_since(allowed).as_secs_f64() * 1e3
}

/// The longest waits of sixteen clients while slots move, and while none do, in milliseconds.
fn while_slots_move(kind: Kind, runtime: &Runtime) -> [f64; 2] {
    let cluster = Cluster::start(kind);
    let names = (0..).map(|at| format!("job{at}"));
    let keys: Vec<String> = names.filter(|key| cluster.slot(key) < SLOTS).take(KEYS).collect();
    let url = cluster.url(&[0, 1, 2]);
    let begun = Instant::now();
    let moving = contend(runtime, &url, &keys, || match kind {
        Kind::Valkey91 => cluster.migrate_to_the_end(0..=SLOTS - 1, 0, 1),
        _ => (0..SLOTS).for_each(|slot| cluster.move_slot(slot, 0, 1)),
    });
    let took = begun.elapsed();
    [moving, contend(runtime, &url, &keys, || thread::sleep(took))]
}

/// The longest wait of two clients for each key while something happens, in milliseconds.
fn contend(runtime: &Runtime, url: &str, keys: &[String], happen: impl FnOnce()) -> f64 {
    let over = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = keys
        .iter()
        .chain(keys)
        .map(|key| {
            let (key, url, over) = (key.clone(), url.to_owned(), Arc::clone(&over));
            runtime.spawn(async move {
                let client = client(&url).await;
                let mut longest = Duration::ZERO;
                while !over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let guard = client.lock(key.as_str()).acquire().await.expect("no error");
                    longest = longest.max(begun.elapsed());
                    guard.release().await.expect("no guard is lost");
                }
                longest
            })
        })
        .collect();
    happen();
    over.store(true, Ordering::Relaxed);
    let longest = all.into_iter().map(|one| runtime.block_on(one).expect("no error"));
    longest.max().unwrap_or_default().as_secs_f64() * 1e3
}
