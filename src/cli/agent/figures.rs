//! The agent's figures: for INFO, and for Prometheus (`--metrics`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};

use super::refusal::NO_QUORUM;
use super::reply::Reply;

/// The figures, counted by events.
#[derive(Debug, Default)]
pub struct Figures {
    pub connections: Arc<AtomicU64>,
    pub accepted: AtomicU64,
    pub locks: Arc<AtomicU64>,
    pub held: Arc<AtomicU64>,
    pub waiting: Arc<AtomicU64>,
    pub outages: Arc<AtomicU64>,
    /// The names of the commands, and the results of each.
    requests: Vec<(&'static str, [AtomicU64; RESULTS.len()])>,
    /// The reasons of losses.
    losses: Mutex<BTreeMap<&'static str, u64>>,
}

/// One unit of a gauge, counted until it is dropped.
pub struct Counted(Arc<AtomicU64>);

/// A figure: name, meaning, kind and value.
pub type Figure = (&'static str, &'static str, MetricType, u64);

impl Figures {
    /// The figures of an agent with these commands.
    pub fn of(commands: impl Iterator<Item = &'static str>) -> Figures {
        let requests = commands.map(|name| (name, Default::default())).collect();
        let losses = Mutex::new(LOSSES.map(|why| (why, 0)).into());
        Figures { requests, losses, ..Figures::default() }
    }

    /// Counts a request for the command at this place of the table, by its last reply.
    pub fn count(&self, command: usize, reply: Option<&Reply>) {
        let result = reply.map_or(0, result);
        let counts = self.requests.get(command).and_then(|(_, counts)| counts.get(result));
        counts.into_iter().for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
    }

    /// Counts a lock that was lost.
    pub fn count_loss(&self, why: &'static str) {
        *self.losses().entry(why).or_default() += 1;
    }

    fn losses(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures that have no labels.
    pub fn all(&self) -> [Figure; 7] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let lost = self.losses().values().sum();
        [
            ("connections", "Connections that are open", Gauge, of(&self.connections)),
            ("connections_accepted", "Connections so far", Counter, of(&self.accepted)),
            (
                "locks",
                "Locks that are held or wanted, or were just left done",
                Gauge,
                of(&self.locks),
            ),
            ("locks_held", "Locks that are held", Gauge, of(&self.held)),
            ("waiting", "Requests that wait for a lock", Gauge, of(&self.waiting)),
            (
                "outages",
                "Locks that are wanted while no majority answers",
                Gauge,
                of(&self.outages),
            ),
            ("lost", "Locks lost so far", Counter, lost),
        ]
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

/// The reasons of losses: each begins with 0, for an increase is seen only of a counter that is there before.
const LOSSES: [&str; 5] = ["not_renewed", "ended", "expired", "paused", "not_done"];

// --- for Prometheus ---------------------------------------------------------------------------------------

/// The figures as metrics.
#[derive(Debug)]
pub struct Metrics(pub Arc<Figures>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, kind, value) in self.0.all() {
            // Its reasons follow.
            if name == "lost" {
                continue;
            }
            let name = format!("dlock_agent_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
            match kind {
                Counter => metric.encode_counter::<NoLabelSet, u64, f64>(&value, None)?,
                _ => metric.encode_gauge(&value)?,
            }
        }
        let help = "Requests so far, by their command and the kind of their reply";
        let mut metric = encoder.encode_descriptor("dlock_agent_requests", help, None, Counter)?;
        for (command, counts) in &self.0.requests {
            for (result, count) in RESULTS.iter().zip(counts) {
                let labels = [("command", *command), ("result", *result)];
                let count = count.load(Ordering::Relaxed);
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
            }
        }
        let help = "Locks lost so far, by the reason";
        let mut metric = encoder.encode_descriptor("dlock_agent_lost", help, None, Counter)?;
        for (why, count) in &*self.0.losses() {
            let labels = [("why", *why)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, u64, f64>(count, None)?;
        }
        Ok(())
    }
}
