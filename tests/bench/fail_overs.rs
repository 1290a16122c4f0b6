//! The time without grants when a server fails, by the shape of the node, and the fate of another holder's
//! lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::Client;
use harness::sentinel::NAME;
use harness::watched::Watched;
use harness::{Cluster, Kind, Quorum, Server, eventually};
use tokio::runtime::Runtime;

use crate::measure::median;
use crate::options::Options;
use crate::report::{Report, Row, Target};

/// The leases of the holder and of the client that asks.
const LEASE: Duration = Duration::from_secs(10);
/// Clients ask for a free lock this often.
const PAUSE: Duration = Duration::from_millis(10);
/// The holder has had this much time to renew.
const BEFORE: Duration = Duration::from_secs(5);

/// A failure.
type Failure = fn(Kind, &Runtime) -> Pause;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let runtime = Runtime::new().expect("a runtime starts");
    let failures: [(&str, Failure); 7] = [
        ("a server is restarted", restarted),
        ("a server is killed, and started again", killed),
        ("Sentinels promote after a kill", promoted),
        ("Sentinels are told to promote", promoted_on_demand),
        ("a Cluster promotes after a kill", taken_over),
        ("a Cluster's replica is told to take over", taken_over_on_demand),
        ("one of three nodes is killed", one_of_three),
    ];
    for (what, happens) in failures {
        report.attempt(what, |report| {
            let times = if options.quick { 1 } else { 5 };
            let pauses: Vec<Pause> = (0..times).map(|_| happens(kind, &runtime)).collect();
            let kept = pauses.iter().filter(|pause| pause.is_kept).count();
            let longest =
                median(pauses.iter().map(|pause| pause.longest.as_secs_f64() * 1e3).collect());
            let what = format!("{what}; {kept} of {times} holders keep their lock");
            report.add(Row::alone(what, "ms", longest, Target::None));
        });
    }
}

/// The cost of a failure.
struct Pause {
    longest: Duration,
    /// True if the holder of another lock has held it all the time.
    is_kept: bool,
}

fn restarted(kind: Kind, runtime: &Runtime) -> Pause {
    let mut server = Server::build(kind).append_only().start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    pause(runtime, &url, ["held", "free"], || server.restart())
}

fn killed(kind: Kind, runtime: &Runtime) -> Pause {
    let mut server = Server::build(kind).append_only().start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    pause(runtime, &url, ["held", "free"], || {
        server.kill();
        server.start_again();
    })
}

fn promoted(kind: Kind, runtime: &Runtime) -> Pause {
    let mut node = watched(kind);
    pause(runtime, &node.url(), ["held", "free"], || {
        node.servers[0].kill();
        node.promoted(0, &[0, 1, 2]);
    })
}

fn promoted_on_demand(kind: Kind, runtime: &Runtime) -> Pause {
    let node = watched(kind);
    pause(runtime, &node.url(), ["held", "free"], || {
        node.sentinels[0].run(&format!("SENTINEL FAILOVER {NAME}"));
        node.promoted(0, &[0, 1, 2]);
    })
}

fn watched(kind: Kind) -> Watched {
    let node = Watched::start(kind, 1);
    node.until_followed(0);
    node
}

fn taken_over(kind: Kind, runtime: &Runtime) -> Pause {
    in_a_cluster(kind, runtime, |cluster| cluster.nodes[1].kill())
}

fn taken_over_on_demand(kind: Kind, runtime: &Runtime) -> Pause {
    in_a_cluster(kind, runtime, |cluster| {
        assert_eq!(cluster.nodes[4].run("CLUSTER FAILOVER").text(), "OK");
    })
}

fn in_a_cluster(kind: Kind, runtime: &Runtime, happens: impl FnOnce(&mut Cluster)) -> Pause {
    let mut cluster = Cluster::start_with_replicas(kind);
    cluster.nodes[1].until_followed_by(&cluster.nodes[4]);
    let keys = ["held", "free"].map(|name| cluster.key(1, name));
    let slot = cluster.slot(&keys[1]);
    pause(runtime, &cluster.url(&[0, 1, 2]), keys.each_ref().map(String::as_str), || {
        happens(&mut cluster);
        eventually("the replica takes over", || cluster.owner(slot, 0) == Some(4));
    })
}

fn one_of_three(kind: Kind, runtime: &Runtime) -> Pause {
    let mut nodes = Quorum::of((0..3).map(|_| Server::build(kind)).collect());
    let url = nodes.urls().join(",");
    pause(runtime, &url, ["held", "free"], || nodes[0].kill())
}

/// One client holds the first of two locks. Another asks for the second again and again, until a while after
/// the failure.
fn pause(runtime: &Runtime, url: &str, [held, free]: [&str; 2], happen: impl FnOnce()) -> Pause {
    let client = runtime.block_on(Client::connect(url)).expect("the node is there");
    let holder = client.lock(held).ttl(LEASE);
    let guard = runtime.block_on(holder.acquire()).expect("it is free");
    let (over, grants) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let lock = client.lock(free).ttl(LEASE);
    let asks = {
        let (over, grants) = (Arc::clone(&over), Arc::clone(&grants));
        runtime.spawn(async move {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let guard = lock.clone().acquire().await.expect("it waits for as long as it takes");
                longest = longest.max(begun.elapsed());
                grants.fetch_add(1, Ordering::Relaxed);
                // If the node is down by now, the lease ends by itself.
                let _ = guard.release().await;
                tokio::time::sleep(PAUSE).await;
            }
            longest
        })
    };
    thread::sleep(BEFORE);
    happen();
    let before = grants.load(Ordering::Relaxed);
    // The first may have been granted just before.
    eventually("it is granted again", || grants.load(Ordering::Relaxed) > before + 1);
    over.store(true, Ordering::Relaxed);
    let longest = runtime.block_on(asks).expect("it does not panic");
    Pause { longest, is_kept: guard.is_valid() }
}
