//! A lock that goes round: how much of the time somebody holds it, how long one waits, and
//! whether all get the same.

use std::time::{Duration, Instant};

use harness::{Kind, Server};

use crate::measure::{Compared, fairness, percentile};
use crate::options::Options;
use crate::quorum::client;
use crate::report::{Report, Row, Target};

const CLIENTS: usize = 16;
const HOLD: Duration = Duration::from_millis(5);

/// Adds the figures.
pub async fn run(kind: Kind, servers: &[Server], options: &Options, report: &mut Report) {
    let length = Duration::from_millis(options.rounds(10_000) as u64);
    let begin = Instant::now() + Duration::from_millis(200);
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = client(servers).await;
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            let (mut held, mut rounds) = (Duration::ZERO, 0_u64);
            tokio::time::sleep_until(begin.into()).await;
            while begin.elapsed() < length {
                let asked = Instant::now();
                let guard = client.lock("round").acquire().await.expect("it is granted");
                let won = Instant::now();
                waits.push((won - asked).as_secs_f64() * 1e3);
                tokio::time::sleep(HOLD).await;
                held += won.elapsed();
                rounds += 1;
                guard.release().await.expect("it is held");
            }
            (waits, held, rounds)
        }));
    }
    let (mut waits, mut held, mut rounds) = (Vec::new(), Duration::ZERO, Vec::new());
    for task in tasks {
        let (waited, holds, count) = task.await.expect("no client fails");
        waits.extend(waited);
        held += holds;
        rounds.push(count);
    }
    let took = begin.elapsed();
    let nodes = servers.len();
    let name = |what: &str| format!("{what}, {CLIENTS} clients, {nodes} nodes");
    let ideal = CLIENTS as f64 * HOLD.as_secs_f64() * 1e3;
    let share = held.as_secs_f64() / took.as_secs_f64();
    let most = if nodes == 1 { 1.3 } else { 1.5 };
    let p99 = percentile(waits, 0.99);
    let compared = Compared { ours: p99, theirs: ideal, ratio: p99 / ideal };
    report.add(kind, Row::alone(name("held share of time"), "", share, Target::AtLeast(0.85)));
    let row =
        Row::compared(name("p99 wait"), "clients x hold", "ms", compared, Target::AtMost(most));
    report.add(kind, row);
    let least = if nodes == 1 { 0.99 } else { 0.95 };
    report
        .add(kind, Row::alone(name("Jain's index"), "", fairness(&rounds), Target::AtLeast(least)));
}
