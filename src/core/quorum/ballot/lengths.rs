//! The length of the lease, and its extension. A node that refuses a length is asked for the longest one that it
//! accepts, until the next renewal.

use super::vote::{Held, Vote};
use super::{Ballot, Outgoing};
use crate::quorum::rules::Rules;
use crate::words::{Instant, Millis};

/// The lengths of the lease that a ballot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Lengths {
    /// The length of the lease.
    lease: Millis,
    /// The length in requests until the claim stands.
    pub(in crate::quorum) first: Millis,
    /// The extension that the caller waits for.
    extension: Option<Extension>,
    /// The outcome of the extension, until the caller takes it.
    extended: Option<Result<(), Millis>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Extension {
    ttl: Millis,
    /// Only requests from this moment on count.
    since: Instant,
}

impl Lengths {
    pub(in crate::quorum) fn new(ttl: Millis) -> Lengths {
        Lengths { lease: ttl, first: ttl, extension: None, extended: None }
    }

    /// The length in requests, once the claim stands.
    pub(in crate::quorum) fn wanted(&self) -> Millis {
        self.extension.map_or(self.lease, |extension| extension.ttl.max(self.lease))
    }

    /// Only leases requested at this moment or later are new enough for the caller.
    fn since(&self) -> Instant {
        self.extension.map_or(Instant(0), |extension| extension.since)
    }
}

impl<R: Rules> Ballot<R> {
    /// The length of the lease.
    pub fn ttl(&self) -> Millis {
        self.lengths.lease
    }

    /// The length to ask a node for, once the claim stands. A node that refuses an extension is asked for no more than the
    /// lease in use: the extension may fail, and nodes shorten no lease.
    pub(in crate::quorum) fn length_at(&self, vote: &Vote) -> Millis {
        let wanted = self.lengths.wanted();
        let limit = vote.limit.filter(|limit| *limit < wanted);
        limit.map_or(wanted, |limit| limit.min(self.lengths.lease))
    }

    /// True if the node's lease is as long as it accepts, and as new as the caller wants, or if there is none.
    pub(in crate::quorum) fn is_full(&self, vote: &Vote) -> bool {
        let full =
            |held: Held| held.ttl >= self.length_at(vote) && held.sent >= self.lengths.since();
        vote.held().is_none_or(full)
    }

    /// True if fewer than a majority support the claim by full leases.
    pub fn is_short(&self) -> bool {
        let Some(fence) = self.fence else { return true };
        let supports = |vote: &Vote| vote.held().is_some_and(|held| self.supports(held, fence));
        !self.do_most(|vote| supports(vote) && self.is_full(vote))
    }

    /// Asks a node again for a lease that is not full.
    pub fn confirm(&mut self, out: &mut Outgoing, node: usize, now: Instant) {
        if self.votes.get(node).is_some_and(|vote| !self.is_full(vote)) {
            self.renew_at(out, node, now);
        }
    }

    /// Asks a node that has refused this length for the longest one that it accepts.
    pub fn ask_for_less(&mut self, out: &mut Outgoing, node: usize, ttl: Millis, now: Instant) {
        if self.votes.get(node).is_some_and(|vote| vote.refuses(ttl)) {
            self.renew_at(out, node, now);
        }
    }

    /// Begins an extension: from now on the nodes are asked for this length, if it is longer.
    pub fn extend(&mut self, ttl: Millis, since: Instant) {
        self.lengths.extension = Some(Extension { ttl, since });
    }

    /// The outcome of the extension, once: granted by a majority, or the longest lease that all nodes accept.
    pub fn extended(&mut self) -> Option<Result<(), Millis>> {
        self.lengths.extended.take()
    }

    /// Ends the extension once a majority has granted it, or some nodes refuse it and the others that may grant
    /// it are too few. True if it has ended.
    pub fn note_extended(&mut self) -> bool {
        let (Some(Extension { ttl, since }), Some(fence)) = (self.lengths.extension, self.fence)
        else {
            return false;
        };
        let granted = |held: &Held| held.ttl >= ttl && held.sent >= since;
        let accepts = |vote: &Vote| vote.limit.map_or(vote.may_grant(), |limit| limit >= ttl);
        let outcome = if self.supporters(fence).filter(granted).count() >= self.majority() {
            self.lengths.lease = self.lengths.wanted();
            Ok(())
        } else if self.do_most(accepts) {
            return false;
        } else {
            let Some(limit) = self.limit().filter(|limit| *limit < ttl) else { return false };
            Err(limit)
        };
        (self.lengths.extension, self.lengths.extended) = (None, Some(outcome));
        true
    }

    /// The longest lease that all nodes accept, as far as some have refused a longer one.
    pub fn limit(&self) -> Option<Millis> {
        self.votes.iter().filter_map(|vote| vote.limit).min()
    }
}
