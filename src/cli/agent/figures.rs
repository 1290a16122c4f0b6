//! The agent's figures: for INFO, and for Prometheus (`--metrics`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::Agent;
use super::commands::{self, Answer};
use super::refusal::NO_QUORUM;
use super::reply::Reply;
use crate::exporter::Shown;
use crate::exporter::metrics::encoded;

/// The figures that are counted as things happen.
#[derive(Default)]
pub struct Figures {
    /// Locks that are held.
    pub held: Arc<AtomicU64>,
    /// Requests that wait.
    pub waiting: Arc<AtomicU64>,
    /// Acquisitions for which no majority answers.
    pub outages: Arc<AtomicU64>,
    /// Connections so far.
    pub accepted: AtomicU64,
    /// For each command, by its place in the table: its results.
    requests: [[AtomicU64; RESULTS.len()]; commands::ALL.len()],
    /// The reasons of losses.
    losses: Mutex<BTreeMap<&'static str, u64>>,
}

/// One that is counted until it is dropped.
pub struct Counted(Arc<AtomicU64>);

/// A figure: name, meaning, kind and value.
pub type Figure = (&'static str, &'static str, MetricType, u64);

impl Figures {
    /// Counts a request for the command at this place of the table.
    pub fn count(&self, command: usize, answer: &Answer) {
        let result = answer.replies.last().map_or(0, result);
        if let Some(count) = self.requests.get(command).and_then(|results| results.get(result)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a lock that was lost.
    pub fn count_loss(&self, why: &'static str) {
        *self.losses().entry(why).or_default() += 1;
    }

    fn losses(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    pub fn new(count: &Arc<AtomicU64>) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Agent {
    /// The figures that have no labels.
    pub fn figures(&self) -> [Figure; 7] {
        use MetricType::{Counter, Gauge};
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Figures { held, waiting, outages, accepted, .. } = &self.figures;
        let lost = self.figures.losses().values().sum();
        [
            ("connections", "Connections that are open", Gauge, self.room.len()),
            ("connections_accepted", "Connections so far", Counter, of(accepted)),
            ("locks", "Locks that are held or wanted", Gauge, self.table.len() as u64),
            ("locks_held", "Locks that are held", Gauge, of(held)),
            ("waiting", "Requests that wait for a lock", Gauge, of(waiting)),
            ("outages", "Locks that are wanted while no majority answers", Gauge, of(outages)),
            ("lost", "Locks lost so far", Counter, lost),
        ]
    }
}

/// The place of a reply's result in the list of them.
fn result(reply: &Reply) -> usize {
    let name = match reply {
        Reply::Null | Reply::Int(0) => "no",
        Reply::Error(text) if text.starts_with("DONE ") => "done",
        Reply::Error(text) if text.starts_with(NO_QUORUM) => "no_quorum",
        Reply::Error(_) => "error",
        _ => "yes",
    };
    RESULTS.iter().position(|result| *result == name).unwrap_or_default()
}

/// The results of requests. `no` is null or 0.
const RESULTS: [&str; 5] = ["yes", "no", "done", "no_quorum", "error"];

// --- for Prometheus ---------------------------------------------------------------------------------------

/// The figures as a site.
pub struct Metrics(pub Arc<Agent>);

impl Shown for Metrics {
    async fn metrics(&self) -> String {
        encoded(Seen(Arc::clone(&self.0)))
    }

    async fn state(&self) -> Option<String> {
        None
    }
}

struct Seen(Arc<Agent>);

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seen")
    }
}

impl Collector for Seen {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, kind, value) in self.0.figures() {
            // Its reasons follow.
            if name == "lost" {
                continue;
            }
            let name = format!("dlock_agent_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
            match kind {
                MetricType::Counter => {
                    metric.encode_counter::<NoLabelSet, u64, f64>(&value, None)?
                }
                _ => metric.encode_gauge(&value)?,
            }
        }
        let counter = MetricType::Counter;
        let help = "Requests so far, by their command and the kind of their reply";
        let mut metric = encoder.encode_descriptor("dlock_agent_requests", help, None, counter)?;
        for (command, counts) in commands::ALL.iter().zip(&self.0.figures.requests) {
            for (result, count) in RESULTS.iter().zip(counts) {
                let labels = [("command", command.name), ("result", *result)];
                let count = count.load(Ordering::Relaxed);
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
            }
        }
        let help = "Locks lost so far, by the reason";
        let mut metric = encoder.encode_descriptor("dlock_agent_lost", help, None, counter)?;
        for (why, count) in &*self.0.figures.losses() {
            let labels = [("why", *why)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, u64, f64>(count, None)?;
        }
        Ok(())
    }
}
