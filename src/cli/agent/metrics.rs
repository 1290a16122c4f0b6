//! The agent's figures for Prometheus (`--metrics`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::agent::Agent;
use super::commands;
use super::figures::RESULTS;
use crate::exporter::Shown;
use crate::exporter::metrics::encoded;

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
        for (command, counts) in commands::ALL.iter().zip(self.0.figures.requests.iter()) {
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
