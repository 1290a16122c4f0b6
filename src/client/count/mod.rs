//! The library's metrics: OpenTelemetry's with the feature `otel`, and none without.
//!
//! [`otel`]: the instruments, and the events that each counts. [`nothing`]: the same functions, without
//! effect.

#[cfg(not(feature = "otel"))]
mod nothing;
#[cfg(feature = "otel")]
mod otel;

use dlock_core::words::Instant;

#[cfg(not(feature = "otel"))]
pub(crate) use nothing::Counts;
#[cfg(feature = "otel")]
pub(crate) use otel::Counts;

use crate::clock;

/// A time in a queue. Dropping it records the wait, also after the caller gave up.
pub(crate) struct Waits<'a> {
    counts: &'a Counts,
    since: Instant,
}

impl Counts {
    pub(crate) fn waits(&self) -> Waits<'_> {
        Waits { counts: self, since: clock::now() }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.counts.waited(self.since);
    }
}
