//! The lengths of a lease: the length wanted, or the one that a majority grants.

use crate::words::{Instant, Millis};

/// The lengths that a ballot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lengths {
    /// The length in requests, once the claim stands.
    pub(super) wanted: Millis,
    /// A caller waits for a lease that was asked for at this moment or later.
    pub(super) wanted_at: Instant,
    /// The length in requests until the claim stands.
    pub(super) first: Millis,
    /// The length that a majority is known to grant.
    usual: Millis,
}

impl Lengths {
    pub(super) fn new(ttl: Millis) -> Lengths {
        Lengths { wanted: ttl, wanted_at: Instant(0), first: ttl, usual: ttl }
    }

    /// Begins with shorter leases: a majority grants this length once the claim stands.
    pub(super) fn begin_with(&mut self, first: Millis) {
        (self.first, self.usual) = (first, first);
    }

    /// True if the length wanted is longer than the one that a majority is known to grant.
    pub(super) fn is_unusual(self) -> bool {
        self.wanted > self.usual
    }

    /// Goes back to the length that a majority is known to grant.
    pub(super) fn make_do(&mut self) {
        self.wanted = self.usual;
    }

    /// Notes that a majority grants the length wanted.
    pub(super) fn learn(&mut self) {
        self.usual = self.wanted;
    }
}
