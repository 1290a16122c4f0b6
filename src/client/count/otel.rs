//! OpenTelemetry instruments, named by its semantic conventions. A key is never an attribute: each value
//! would make a series.

use std::time::Duration;

use dlock_core::words::Instant;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};

use crate::clock;
use crate::report::NodeState;

/// The instruments of a client.
pub(crate) struct Counts {
    acquisitions: Histogram<f64>,
    waits: Histogram<f64>,
    holds: Histogram<f64>,
    losses: Counter<u64>,
    failed_renewals: Counter<u64>,
}

impl Counts {
    /// Makes the instruments with the present global meter provider.
    pub(crate) fn new() -> Counts {
        let meter = global::meter(env!("CARGO_PKG_NAME"));
        Counts {
            acquisitions: seconds(
                &meter,
                "dlock.client.acquisition.duration",
                "Time from asking for a lock to its guard, or to the error.",
            ),
            waits: seconds(&meter, "dlock.client.wait.duration", "Time in a queue for a lock."),
            holds: seconds(
                &meter,
                "dlock.client.hold.duration",
                "Time from a guard's acquisition to its release or loss.",
            ),
            losses: meter
                .u64_counter("dlock.client.losses")
                .with_unit("{loss}")
                .with_description("Guards that were lost before they were released.")
                .build(),
            failed_renewals: meter
                .u64_counter("dlock.client.failed_renewals")
                .with_unit("{request}")
                .with_description("Requests to keep a lock that a node did not answer, or refused.")
                .build(),
        }
    }

    /// Records the end of an acquisition; `failure` is its error's code.
    pub(crate) fn acquired(&self, since: Instant, failure: Option<&'static str>) {
        let failure = failure.map(|why| KeyValue::new(ERROR, why));
        self.acquisitions.record(passed(since), failure.as_slice());
    }

    pub(crate) fn waited(&self, since: Instant) {
        self.waits.record(passed(since), &[]);
    }

    pub(crate) fn lost(&self, why: &'static str) {
        self.losses.add(1, &[KeyValue::new(ERROR, why)]);
    }

    pub(crate) fn held(&self, since: Instant) {
        self.holds.record(passed(since), &[]);
    }

    /// Counts a renewal that a node refused or did not answer.
    pub(crate) fn not_renewed(&self, node: &str, state: &NodeState) {
        let why = state.code().unwrap_or(state.name()).to_owned();
        let node = KeyValue::new("server.address", node.to_owned());
        self.failed_renewals.add(1, &[node, KeyValue::new(ERROR, why)]);
    }
}

fn seconds(meter: &Meter, name: &'static str, what: &'static str) -> Histogram<f64> {
    let histogram = meter.f64_histogram(name).with_unit("s").with_description(what);
    histogram.with_boundaries(BOUNDARIES.to_vec()).build()
}

fn passed(since: Instant) -> f64 {
    Duration::from_micros(clock::now().since(since)).as_secs_f64()
}

const ERROR: &str = "error.type";
/// The boundaries that the conventions give for databases, and longer ones: work under a lock may take an
/// hour.
const BOUNDARIES: [f64; 13] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0];
