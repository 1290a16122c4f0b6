//! `dlock bench`: measures the cost of a free lock on the given nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_client::operator::Node;
use dlock_client::{Client, Error, Lock, Token};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::global::Global;
use crate::nodes;
use crate::say::duration::{self, measured};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::stdout;
use crate::say::table::Table;
use crate::signals::Signals;

/// Measure the nodes: what a free lock costs, beside a PING to all
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Length of the measurement: between 100ms and 1m
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    time: Duration,

    /// The lease, between 100ms and 10m: if this command is killed, its lock is free after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = ttl)]
    ttl: Duration,
}

impl Args {
    /// Measures, prints, and releases its lock.
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let client = tokio::select! {
            connected = nodes::connect(global) => connected?,
            signal = signals.next_that_ends() => return Ok(Exit::Signal(signal)),
        };
        let lock = client.lock(format!("dlock-bench:{}", &Token::random().as_str()[..16]));
        let measuring = measure(client.clone(), lock.ttl(self.ttl), self.time);
        // In another thread than the one that handles signals.
        let mut task = tokio::spawn(measuring);
        let ended = tokio::select! {
            found = &mut task => Ok(found),
            signal = signals.next_that_ends() => Err(signal),
        };
        if ended.is_err() {
            task.abort();
            let _ = task.await;
        }
        // The library releases a guard that was dropped. A second signal does not wait for that.
        tokio::select! {
            () = client.close() => {}
            _ = signals.next_that_ends() => {}
        }
        match ended {
            Ok(Ok(Ok(found))) => found.show(global.json).map(|()| Exit::OK),
            Ok(Ok(Err(error))) => Err(unavailable(error)),
            Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            Err(signal) => Ok(Exit::Signal(signal)),
        }
    }
}

struct Measured {
    nodes: usize,
    acquire: Times,
    release: Times,
    /// A PING to all nodes that answer, until the last has answered. Empty if this user may not send it.
    ping: Times,
    /// Failed rounds; they are in no percentile.
    failures: u64,
    last_failure: Option<String>,
}

/// Measures until the time is over, or until the nodes stop granting.
async fn measure(client: Client, lock: Lock, time: Duration) -> Result<Measured, Error> {
    let mut pinged: Vec<&Arc<Node>> = client.nodes().collect();
    let mut found = Measured {
        nodes: client.size(),
        acquire: Times::default(),
        release: Times::default(),
        ping: Times::default(),
        failures: 0,
        last_failure: None,
    };
    let begun = Instant::now();
    let mut granted = begun;
    for round in 0_u64.. {
        match cycle(&lock).await {
            Ok((acquire, release)) => {
                granted = Instant::now();
                let ping = ping_all(&mut pinged).await;
                // The first rounds warm up connections and caches.
                if round >= WARM_UP {
                    found.acquire.0.push(acquire);
                    found.release.0.push(release);
                    found.ping.0.extend(ping);
                }
            }
            Err(error) => {
                found.failures += 1;
                found.last_failure = Some(error.to_string());
                let never = matches!(error, Error::Refused { .. } | Error::Usage(_));
                if never || granted.elapsed() > PATIENCE {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        if begun.elapsed() >= time && !found.acquire.0.is_empty() {
            break;
        }
    }
    for times in [&mut found.acquire, &mut found.release, &mut found.ping] {
        times.0.sort_unstable();
    }
    Ok(found)
}

/// Measures the acquisition of the lock, and its release.
async fn cycle(lock: &Lock) -> Result<(Duration, Duration), Error> {
    let begun = Instant::now();
    let guard = lock.clone().try_acquire().await?;
    let taken = Instant::now();
    guard.release().await?;
    Ok((taken - begun, taken.elapsed()))
}

/// Asks all at once, and waits for the last. A node that does not answer is not asked again: that would measure its
/// silence.
async fn ping_all(nodes: &mut Vec<&Arc<Node>>) -> Option<Duration> {
    let ping = redis::cmd("PING");
    let begun = Instant::now();
    let answers = join_all(nodes.iter().map(|node| node.send(&ping))).await;
    let took = begun.elapsed();
    let answered = answers.iter().all(Result::is_ok) && !nodes.is_empty();
    let mut answers = answers.iter();
    nodes.retain(|_| answers.next().is_some_and(Result::is_ok));
    answered.then_some(took)
}

impl Measured {
    fn show(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return stdout::json(&self.json());
        }
        let mut table = Table::new(&[
            "NODES",
            "ACQUIRE p50",
            "p99",
            "MAX",
            "RELEASE p50",
            "p99",
            "PING ALL p50",
            "FAILURES",
        ]);
        let shown = |time: Option<Duration>| time.map_or("-".to_owned(), measured);
        let mut cells = vec![self.nodes.to_string()];
        cells.extend([0.5, 0.99, 1.0].map(|share| shown(self.acquire.at(share))));
        cells.extend([0.5, 0.99].map(|share| shown(self.release.at(share))));
        cells.push(shown(self.ping.at(0.5)));
        cells.push(self.failures.to_string());
        table.row(cells);
        table.print()?;
        let failed = self.last_failure.as_ref().map(|failure| {
            format!("{} failed, and are in no percentile; the last: {failure}", self.failures)
        });
        failed.iter().try_for_each(stdout::line)
    }

    fn json(&self) -> Value {
        let micros =
            |time: Option<Duration>| time.map(|time| (time.as_secs_f64() * 1e7).round() / 10.0);
        let (acquire, release) = (&self.acquire, &self.release);
        json!({
            "nodes": self.nodes,
            "acquire_us": {
                "p50": micros(acquire.at(0.5)),
                "p99": micros(acquire.at(0.99)),
                "max": micros(acquire.at(1.0)),
            },
            "release_us": { "p50": micros(release.at(0.5)), "p99": micros(release.at(0.99)) },
            "ping_all_us": self.ping.at(0.5).map(|ping| json!({ "p50": micros(Some(ping)) })),
            "failures": self.failures,
        })
    }
}

/// Many measured times. They are sorted when the measurement is over.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    /// The percentile of this share.
    fn at(&self, share: f64) -> Option<Duration> {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied()
    }
}

/// The failure without grants. A lock that is held or lost all the time counts as no quorum.
fn unavailable(error: Error) -> Failure {
    match Kind::from(&error) {
        Kind::Held | Kind::Lost => Failure::new(Kind::NoQuorum, error),
        kind => Failure::new(kind, error),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    within(text, 60, "must be between 100ms and 1m")
}

fn ttl(text: &str) -> Result<Duration, String> {
    within(text, 600, "must be between 100ms and 10m")
}

fn within(text: &str, most: u64, refusal: &str) -> Result<Duration, String> {
    let given = duration::parse(text)?;
    let limits = Duration::from_millis(100)..=Duration::from_secs(most);
    if limits.contains(&given) { Ok(given) } else { Err(refusal.to_owned()) }
}

/// Time without a grant after which the measurement fails.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(100);
const WARM_UP: u64 = 3;

const NOTES: &str = "\
One client acquires and releases a lock over all nodes, by the library, in turns with a PING to
all of them. A PING writes nothing, so with an append-only file most of the difference is the file.
The client has one request under way to each node; on a fast network that can keep a node's
processor busy.

The key begins with dlock-bench:<random>, so a run touches no lock of other clients.
The user needs these rights:
  resetkeys ~dlock-bench:* -@all +dlock.acquire +dlock.release +dlock.node +ping
A run leaves nothing behind, also after Ctrl-C. Of a Redis Cluster it measures the primary of that
key.

Exit codes: 0 measured; 69 no majority of the nodes; 64 wrong usage; 128+n if signal n ended it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let mut times = Times::default();
        assert_eq!(times.at(0.5), None);
        for count in 1..=1000_u64 {
            times.0.push(Duration::from_nanos(count));
            for (share, of_hundred) in [(0.5, 50), (0.99, 99), (1.0, 100)] {
                let rank = (count * of_hundred).div_ceil(100);
                assert_eq!(times.at(share), Some(Duration::from_nanos(rank)), "{share} of {count}");
            }
        }
    }
}
