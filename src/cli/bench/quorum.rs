//! The part `quorum`: one client, all nodes, a lock that nobody else wants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_client::operator::Node;
use dlock_client::{Client, Error};
use futures_util::future::join_all;

use super::cycle::MeasuredLock;
use super::figures::{Times, ratio};
use super::time_box::TimeBox;

/// Times of all nodes together.
pub struct Quorum {
    pub nodes: usize,
    pub acquire: Times,
    pub release: Times,
    /// A PING to all that answer, until the last has answered. Empty, if this user may not.
    pub ping_all: Times,
    /// Failed rounds; they are in no percentile.
    pub failures: u64,
    pub last_failure: Option<String>,
}

impl Quorum {
    /// The ratio of an acquisition to a PING of all nodes.
    pub fn to_ping(&self) -> Option<f64> {
        ratio(self.acquire.p50(), self.ping_all.p50())
    }
}

/// Measures until the time is over, or until nothing is granted any more.
pub async fn measure(
    client: &Client,
    measured_lock: MeasuredLock,
    time_box: TimeBox,
) -> Result<Quorum, Error> {
    let client = client.clone();
    // Away from the thread that listens to signals and draws.
    let task = tokio::spawn(async move { rounds(&client, &measured_lock, &time_box).await });
    match task.await {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

async fn rounds(
    client: &Client,
    measured_lock: &MeasuredLock,
    time_box: &TimeBox,
) -> Result<Quorum, Error> {
    let mut pinged: Vec<&Arc<Node>> = client.nodes().collect();
    let mut found = Quorum {
        nodes: client.size(),
        acquire: Times::new(),
        release: Times::new(),
        ping_all: Times::new(),
        failures: 0,
        last_failure: None,
    };
    let mut granted = Instant::now();
    for round in 0_u64.. {
        let outcome = tokio::select! {
            outcome = cycle(client, measured_lock) => outcome,
            // The library gives back what it has taken.
            () = time_box.stopped() => break,
        };
        match outcome {
            Ok((acquire, release)) => {
                granted = Instant::now();
                let ping = ping_all(&mut pinged).await;
                // The first ones find everything cold.
                if round >= WARM_UP {
                    found.acquire.add(acquire);
                    found.release.add(release);
                    ping.into_iter().for_each(|ping| found.ping_all.add(ping));
                }
                time_box.count();
            }
            Err(error) => {
                found.failures += 1;
                found.last_failure = Some(error.to_string());
                let never = matches!(
                    error,
                    Error::Refused { .. } | Error::TooLong { .. } | Error::Usage(_)
                );
                if never || granted.elapsed() > PATIENCE {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        if time_box.is_over() && !found.acquire.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Measures the acquisition of the lock, and its release.
async fn cycle(
    client: &Client,
    measured_lock: &MeasuredLock,
) -> Result<(Duration, Duration), Error> {
    let begun = Instant::now();
    let guard = client.lock(&measured_lock.key).ttl(measured_lock.ttl).try_acquire().await?;
    let taken = Instant::now();
    guard.release().await?;
    Ok((taken - begun, taken.elapsed()))
}

/// Asks all at once, and waits for the last. A node that does not answer is not asked again: that
/// would measure its silence.
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

/// After this time without a grant there is no use in going on.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// After a failure.
pub const PAUSE: Duration = Duration::from_millis(100);
const WARM_UP: u64 = 3;
