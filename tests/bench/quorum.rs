//! The client library over one node and over five: the cost of taking an uncontended lock, beyond a round
//! trip to all nodes, and how often one round trip is not enough.

use std::time::Instant;

use dlock_client::Client;
use futures_util::future::join_all;
use harness::{Kind, Server};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::measure::{Compared, median};
use crate::options::Options;
use crate::peers::so_many_nodes;
use crate::report::{Report, Row, Target};

const CLIENTS: u64 = 8;
const KEYS: usize = 50;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let five: Vec<Server> = (0..5).map(|_| Server::start(kind)).collect();
    let rounds = options.rounds(5_000);
    let mut on_one = None;
    for (nodes, most) in [(1, 1.2), (5, 1.1)] {
        let what = format!("acquire on {}, p50", so_many_nodes(nodes));
        report.attempt(&what, |report| {
            let measured =
                async { acquire_beside_ping(&client(&five[..nodes]).await, rounds).await };
            let [ours, ping] = runtime.block_on(measured);
            let compared = Compared::once(ours, ping);
            let target = Target::AtMost(most);
            report.add(Row::compared(&what, "PING to all", "µs", compared, target));
            if let Some(on_one) = on_one.replace(ours) {
                let grows = Compared::once(ours, on_one);
                report.add(Row::compared(&what, "on 1 node", "µs", grows, Target::None));
            }
        });
    }
    let what = format!("second rounds, {CLIENTS} clients, {KEYS} keys");
    report.attempt(&what, |report| {
        let share = runtime.block_on(second_rounds(&five, options.rounds(2_000)));
        report.add(Row::alone(&what, "%", share * 100.0, Target::AtMost(1.0)));
    });
}

/// The medians of an acquisition and of a PING to all nodes, taken in turns.
async fn acquire_beside_ping(client: &Client, rounds: usize) -> [f64; 2] {
    let ping = redis::cmd("PING");
    let (mut acquires, mut pings) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        let guard = client.lock(format!("free:{round}")).try_acquire().await.expect("it is free");
        acquires.push(begun.elapsed().as_secs_f64() * 1e6);
        guard.release().await.expect("it is held");
        let begun = Instant::now();
        for answer in join_all(client.nodes().map(|node| node.send(&ping))).await {
            answer.expect("the node answers");
        }
        pings.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    [acquires, pings].map(median)
}

/// The share of acquisitions that raised a node to the claim's fence.
async fn second_rounds(servers: &[Server], rounds: usize) -> f64 {
    let before = raises(servers);
    let mut tasks = Vec::new();
    for seed in 0..CLIENTS {
        let client = client(servers).await;
        tasks.push(tokio::spawn(async move {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut won = 0;
            for _ in 0..rounds {
                let key = format!("busy:{}", random.random_range(0..KEYS));
                if let Ok(guard) = client.lock(&key).try_acquire().await {
                    won += 1;
                    // The lock is lost only if that took longer than its lease.
                    guard.release().await.expect("it is held");
                }
            }
            won
        }));
    }
    let mut won = 0;
    for task in tasks {
        won += task.await.expect("no client fails");
    }
    (raises(servers) - before) / f64::from(won)
}

/// The number of times that a node was raised: no lease lasts until its renewal.
fn raises(servers: &[Server]) -> f64 {
    let calls = |server: &Server| {
        let line = server.info("commandstats").get("cmdstat_dlock.extend").cloned();
        let calls = line.as_deref().and_then(|line| line.strip_prefix("calls="));
        calls.and_then(|rest| rest.split(',').next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    servers.iter().map(calls).sum()
}

/// A client of its own, with connections of its own.
async fn client(servers: &[Server]) -> Client {
    let url = |server: &Server| format!("redis://127.0.0.1:{}", server.port());
    let urls: Vec<String> = servers.iter().map(url).collect();
    Client::connect(&urls.join(",")).await.expect("the nodes are there")
}
