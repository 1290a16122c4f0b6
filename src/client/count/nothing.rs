//! Metrics without the feature `otel`: none.

use dlock_core::words::Instant;

use crate::report::NodeState;

/// Stands in for the type of the same name in `otel`.
pub(crate) struct Counts;

impl Counts {
    pub(crate) fn new() -> Counts {
        Counts
    }

    pub(crate) fn acquired(&self, _since: Instant, _failure: Option<&'static str>) {}

    pub(crate) fn waited(&self, _since: Instant) {}

    pub(crate) fn lost(&self, _why: &'static str) {}

    pub(crate) fn held(&self, _since: Instant) {}

    pub(crate) fn not_renewed(&self, _node: &str, _state: &NodeState) {}
}
