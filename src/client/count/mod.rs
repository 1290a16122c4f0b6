//! What the library counts of itself: by OpenTelemetry with the feature `otel`, and else nothing.
//!
//! [`otel`]: the instruments, and what each counts. [`nothing`]: the same, without any.

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

/// A time in a queue. It is counted when it ends, also if whoever waited gives up.
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
