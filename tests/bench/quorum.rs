//! The client library over one node and over five: what taking a lock that nobody else wants adds
//! to a round trip to all nodes, and how often one round trip is not enough.

use std::time::Instant;

use dlock_client::Client;
use futures_util::future::join_all;
use harness::{Kind, Server};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::measure::{Compared, median};
use crate::options::Options;
use crate::report::{Report, Row, Target};

const CLIENTS: u64 = 8;
const KEYS: usize = 50;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let five: Vec<Server> = (0..5).map(|_| Server::start(kind)).collect();
    runtime.block_on(measure(kind, &five, options, report));
}

async fn measure(kind: Kind, five: &[Server], options: &Options, report: &mut Report) {
    let rounds = options.rounds(5_000);
    let on_five = acquire_beside_ping(&client(five).await, rounds).await;
    let on_one = acquire_beside_ping(&client(&five[..1]).await, rounds).await;
    let row = |what, figures: [f64; 2]| {
        let [ours, theirs] = figures;
        Row::compared(what, "PING to all", "µs", Compared::once(ours, theirs), Target::AtMost(1.5))
    };
    report.add(kind, row("acquire on 1 node, p50", on_one));
    report.add(kind, row("acquire on 5 nodes, p50", on_five));
    let grows = Compared::once(on_five[0], on_one[0]);
    let row = Row::compared("acquire on 5 nodes, p50", "on 1 node", "µs", grows, Target::None);
    report.add(kind, row);
    let share = second_rounds(five, options.rounds(2_000)).await;
    let what = format!("second rounds, {CLIENTS} clients, {KEYS} keys");
    report.add(kind, Row::alone(what, "%", share * 100.0, Target::AtMost(1.0)));
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

/// The share of acquisitions for which a node had to be raised to the claim's fence.
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
                    // Lost only if it took longer than its lease.
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

/// How often a node was raised: no lease lives long enough to be renewed.
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
