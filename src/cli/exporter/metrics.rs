//! `/metrics`: the figures of the nodes.
//!
//! Every series has a label with its node. Only the series of hot keys name keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dlock_core::node::observed::Lengths;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::doctor::limits;
use crate::http;
use crate::say::bytes;
use crate::watch::Look;
use crate::watch::look::{HotKey, NodeLook};

/// The metrics of one look.
pub fn text(look: Arc<Look>) -> String {
    http::encoded(LookMetrics(look))
}

struct LookMetrics(Arc<Look>);

impl fmt::Debug for LookMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookMetrics")
    }
}

impl Collector for LookMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage { look: &self.0, encoder: &mut encoder };
        page.gauge("dlock_up", "Whether the node answers the exporter", None, |_| Some(1.0))?;
        page.about_nodes()?;
        for (name, help, line) in COUNTERS {
            page.counter(name, help, line)?;
        }
        page.refused()?;
        for (name, help, unit, scale, line) in GAUGES {
            let of = |look: &NodeLook| Some(look.number(line)? as f64 * scale);
            page.gauge(name, help, unit.as_ref(), of)?;
        }
        page.histogram("dlock_wait", "Waits that ended with the lock", |n| &n.waits)?;
        page.histogram("dlock_hold", "Times for which locks were held", |n| &n.holds)?;
        for (name, help, unit, of) in HOT {
            page.hot(name, help, unit.as_ref(), of)?;
        }
        Ok(())
    }
}

struct MetricsPage<'p, 'e> {
    look: &'p Look,
    encoder: &'p mut DescriptorEncoder<'e>,
}

type Label<'l> = (&'l str, &'l str);

/// The states of a node; in capitals the server's error for writes.
const STATES: [&str; 8] =
    ["yes", "quarantine", "not-durable", "replica", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN"];

impl MetricsPage<'_, '_> {
    /// A node's texts, as labels of series with the value 1 or 0.
    fn about_nodes(&mut self) -> fmt::Result {
        self.each(
            "dlock_node",
            "Version and id of the node",
            None,
            MetricType::Info,
            |node, look, metric| {
                let about = [("version", look.text("version")), ("node_id", look.text("node_id"))];
                metric.encode_family(&[("node", node)])?.encode_info(&about)
            },
        )?;
        let help = "The state of the node: does it grant locks, or why not";
        self.each("dlock_granting", help, None, MetricType::Gauge, |node, look, metric| {
            for state in STATES {
                let labels: [Label<'_>; 2] = [("node", node), ("state", state)];
                let is = i64::from(look.text("granting") == state);
                metric.encode_family(&labels)?.encode_gauge(&is)?;
            }
            Ok(())
        })?;
        let durable = |look: &NodeLook| Some(f64::from(u8::from(look.text("durable") == "yes")));
        let help = "Whether the state file could be written the last time";
        self.gauge("dlock_durable", help, None, durable)
    }

    fn counter(&mut self, name: &str, help: &str, line: &str) -> fmt::Result {
        self.each(name, help, None, MetricType::Counter, |node, look, metric| {
            let Some(count) = look.number(line) else { return Ok(()) };
            let labels = [("node", node)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&count, None)
        })
    }

    /// Refusals by a limit, by the codes of the errors.
    fn refused(&mut self) -> fmt::Result {
        let help = "Requests refused by a limit, by the code of the error";
        self.each("dlock_refused", help, None, MetricType::Counter, |node, look, metric| {
            for code in limits::codes() {
                let labels = [("node", node), ("code", code)];
                let count = look.refused(code);
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
            }
            Ok(())
        })
    }

    /// A gauge of each node. Only `dlock_up` includes nodes that do not answer.
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        of: impl Fn(&NodeLook) -> Option<f64>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for seen in &self.look.nodes {
            let value = match &seen.look {
                Ok(look) => of(look),
                Err(_) if name == "dlock_up" => Some(0.0),
                Err(_) => None,
            };
            if let Some(value) = value {
                let labels: [Label<'_>; 1] = [("node", &seen.name)];
                metric.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        of: impl Fn(&NodeLook) -> &Lengths,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        self.each(name, help, Some(&Unit::Seconds), kind, |node, look, metric| {
            let lengths = of(look);
            let mut before = 0;
            let mut buckets: Vec<(f64, u64)> = Vec::new();
            for (micros, up_to) in lengths.cumulative() {
                buckets.push((micros as f64 / 1e6, up_to - before));
                before = up_to;
            }
            buckets.push((f64::INFINITY, lengths.count().saturating_sub(before)));
            let (sum, count) = (lengths.sum() as f64 / 1e6, lengths.count());
            let labels = [("node", node)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    }

    fn hot(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        of: fn(&HotKey) -> Option<f64>,
    ) -> fmt::Result {
        self.each(name, help, unit, MetricType::Gauge, |node, look, metric| {
            let keys = look.hot.as_deref().unwrap_or_default();
            for (at, key) in keys.iter().enumerate() {
                // Two long names may have the same beginning: the first is the more contended.
                let Some(value) = of(key) else { continue };
                if keys[..at].iter().any(|other| other.is_same_as(key)) {
                    continue;
                }
                let (shown, db) = (bytes::shown(&key.name), key.db.to_string());
                let labels: [Label<'_>; 3] = [("node", node), ("db", &db), ("key", &shown)];
                metric.encode_family(&labels)?.encode_gauge(&value)?;
            }
            Ok(())
        })
    }

    /// A metric of each node that answers.
    fn each(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        mut write: impl FnMut(&str, &NodeLook, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, unit, kind)?;
        for seen in &self.look.nodes {
            if let Ok(look) = &seen.look {
                write(&seen.name, look, &mut metric)?;
            }
        }
        Ok(())
    }
}

/// Name, help, and line in INFO.
const COUNTERS: [(&str, &str, &str); 10] = [
    ("dlock_grants", "Locks granted", "grants"),
    ("dlock_handovers", "Locks granted to a waiter", "handovers"),
    ("dlock_denials", "Locks refused to a request that did not wait", "denials"),
    ("dlock_releases", "Locks released", "releases"),
    ("dlock_dones", "Locks left done", "dones"),
    ("dlock_expiries", "Leases that ran out", "expiries"),
    ("dlock_extensions", "Leases extended", "extensions"),
    ("dlock_breaks", "Leases ended by an operator", "breaks"),
    ("dlock_ephemeral_ends", "Leases ended with their connection", "ephemeral_ends"),
    ("dlock_places_refused", "Requests with KEEP that found no room", "places_refused"),
];

/// Name, help, unit, factor of the line in INFO, and that line.
const GAUGES: [(&str, &str, Option<Unit>, f64, &str); 11] = [
    ("dlock_leases", "Leases that are held", None, 1.0, "leases"),
    ("dlock_done_locks", "Locks that are done", None, 1.0, "done_keys"),
    ("dlock_waiters", "Requests that wait", None, 1.0, "waiters"),
    ("dlock_places", "Places kept for tokens that are away", None, 1.0, "places"),
    ("dlock_quarantine", "Time until grants resume", S, MS, "quarantine_ms"),
    ("dlock_lease_bound", "Limit of lease lengths", S, MS, "lease_bound_ms"),
    ("dlock_keys_ahead", "Keys with fences ahead of the clock", None, 1.0, "keys_ahead"),
    ("dlock_fence_ahead", "Lead of fences over the clock", S, MS, "fence_ahead_ms"),
    ("dlock_boots", "Starts of the node", None, 1.0, "boot"),
    ("dlock_memory", "Memory of locks", B, 1.0, "memory"),
    ("dlock_memory_limit", "Limit of the memory of locks; 0: none", B, 1.0, "memory_most"),
];

const S: Option<Unit> = Some(Unit::Seconds);
const B: Option<Unit> = Some(Unit::Bytes);
const MS: f64 = 0.001;

/// Name, help, unit, and value of a hot key.
type OfHotKey = (&'static str, &'static str, Option<Unit>, fn(&HotKey) -> Option<f64>);

const HOT: [OfHotKey; 5] = [
    ("dlock_hot_waited", "Waiting in the last minutes, by all requests together", S, |key| {
        Some(seconds(key.waited))
    }),
    (
        "dlock_hot_longest_wait",
        "The longest wait of the last minutes that ended with a grant or goes on",
        S,
        |key| Some(seconds(key.longest)),
    ),
    ("dlock_hot_waiting", "Requests that wait now", None, |key| Some(key.waiting as f64)),
    ("dlock_hot_denials", "Refusals in the last minutes", None, |key| Some(key.denials as f64)),
    ("dlock_hot_held", "Time for which its oldest holder has held it", S, |key| {
        Some(seconds(key.lock.as_ref()?.holders.first()?.held))
    }),
];

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
