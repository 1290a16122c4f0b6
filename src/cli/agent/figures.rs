//! The agent's figures: for INFO, and for Prometheus (`--metrics`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_client::LossReason;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};

/// The figures, counted by events.
#[derive(Debug, Default)]
pub struct Figures {
    pub connections: Arc<AtomicU64>,
    pub accepted: AtomicU64,
    pub locks: Arc<AtomicU64>,
    pub held: Arc<AtomicU64>,
    pub waiting: Arc<AtomicU64>,
    pub outages: Arc<AtomicU64>,
    /// The reasons of losses.
    losses: Mutex<BTreeMap<&'static str, u64>>,
}

/// One unit of a gauge, counted until it is dropped.
pub struct Counted(Arc<AtomicU64>);

/// A figure: name, meaning, kind and value.
pub type Figure = (&'static str, &'static str, MetricType, u64);

impl Figures {
    pub fn new() -> Figures {
        let reasons = [
            LossReason::NotRenewed { nodes: Vec::new() },
            LossReason::Ended { nodes: Vec::new() },
            LossReason::Expired,
            LossReason::Paused,
            LossReason::NotDone { nodes: Vec::new() },
        ];
        // Each begins with 0: Prometheus sees an increase only of a counter that is there before.
        let losses = Mutex::new(reasons.map(|why| (why.name(), 0)).into());
        Figures { losses, ..Figures::default() }
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
