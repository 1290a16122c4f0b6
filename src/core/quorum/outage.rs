//! An outage, as one acquisition sees it: no majority answers, or grants make no claim.

use crate::words::Instant;

/// The present outage, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outage {
    since: Option<Instant>,
    /// True while the acquisition queues at a node that grants nothing yet.
    quarantine: bool,
}

impl Outage {
    /// The time of its beginning.
    pub(super) fn since(self) -> Option<Instant> {
        self.since
    }

    /// True while the acquisition waits at a node for the end of its quarantine.
    pub(super) fn is_quarantine(self) -> bool {
        self.quarantine
    }

    /// Notes that an attempt has failed.
    pub(super) fn goes_on(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Notes that the acquisition waits at a node for the end of its quarantine.
    pub(super) fn waits_for_quarantine(&mut self, now: Instant) {
        self.goes_on(now);
        self.quarantine = true;
    }

    /// Notes that a majority grants and denies again: neither is done in quarantine.
    pub(super) fn end(&mut self) {
        *self = Outage::default();
    }
}
