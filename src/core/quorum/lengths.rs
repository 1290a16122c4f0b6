//! The length of the lease: asked for, made longer by an extension, and given up where nodes refuse it.

use alloc::vec::Vec;

use super::Obstacle;
use super::ballot::{Ballot, Outgoing};
use super::rules::Rules;
use super::vote::{Held, Said, Vote};
use crate::words::{Instant, Millis};

/// The lengths of the lease that a ballot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lengths {
    /// The length in requests, once the claim stands.
    pub(super) wanted: Millis,
    /// The length in requests until the claim stands.
    pub(super) first: Millis,
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
    /// The length wanted before.
    former: Millis,
}

impl Lengths {
    pub(super) fn new(ttl: Millis) -> Lengths {
        Lengths { wanted: ttl, first: ttl, extension: None, extended: None }
    }
}

impl<R: Rules> Ballot<R> {
    /// The length of the lease.
    pub fn ttl(&self) -> Millis {
        self.lengths.wanted
    }

    /// True if a majority supports the claim by leases of this length, requested at this moment or later.
    pub fn is_renewed(&self, ttl: Millis, since: Instant) -> bool {
        let Some(fence) = self.fence else { return false };
        let renewed = |held: &Held| held.ttl >= ttl && held.sent >= since;
        self.supporters(fence).filter(renewed).count() >= self.majority()
    }

    /// Asks a node again for a lease that is shorter or older than the caller wants.
    pub fn confirm(&mut self, out: &mut Outgoing, node: usize, now: Instant) {
        let Some(vote) = self.votes.get(node) else { return };
        let is_old = |held: Held| held.sent < self.wanted_since();
        if vote.is_short(self.ttl()) || vote.held().is_some_and(is_old) {
            self.renew_at(out, node, now);
        }
    }

    /// Begins an extension: sets the length wanted, if it is longer.
    pub fn extend(&mut self, ttl: Millis, since: Instant) {
        let lengths = &mut self.lengths;
        let former = lengths.wanted;
        lengths.extension = Some(Extension { ttl, since, former });
        lengths.wanted = ttl.max(former);
    }

    /// The caller waits for a lease requested at this moment or later.
    pub fn wanted_since(&self) -> Instant {
        self.lengths.extension.map_or(Instant(0), |extension| extension.since)
    }

    /// The outcome of the extension, once: granted by a majority, or the longest lease that one accepts.
    pub fn extended(&mut self) -> Option<Result<(), Millis>> {
        self.lengths.extended.take()
    }

    /// Ends the extension once a majority has granted it.
    pub fn note_extended(&mut self) {
        let granted = |asked: &Extension| self.is_renewed(asked.ttl, asked.since);
        if self.lengths.extension.as_ref().is_some_and(granted) {
            (self.lengths.extension, self.lengths.extended) = (None, Some(Ok(())));
        }
    }

    /// Gives up a lease that is too long for some nodes, if no majority of the other nodes grants it, and with it
    /// the extension. The new length is the longest that a majority accepts, and no longer than before the
    /// extension. If fewer than a majority have a vote, all of these must accept it: they keep the lock until
    /// more nodes are back. True if it has given one up.
    pub fn give_in(&mut self) -> bool {
        let limit = |vote: &Vote| {
            let grants = self.rules.has_vote(vote.may_grant()).then_some(Millis(u64::MAX));
            vote.limit.or(grants)
        };
        let limits: Vec<Millis> = self.votes.iter().filter_map(limit).collect();
        let votes = self.majority().min(limits.len());
        let Some(limit) = self.rules.limit(&limits, votes) else { return false };
        let lengths = &mut self.lengths;
        if limit >= lengths.wanted {
            return false;
        }
        lengths.wanted = lengths.extension.map_or(limit, |asked| limit.min(asked.former));
        if lengths.extension.take_if(|asked| limit < asked.ttl).is_some() {
            lengths.extended = Some(Err(limit));
        }
        true
    }

    /// The longest lease that a majority accepts, as far as is known before there is a claim. A node that
    /// refuses for another reason accepts none.
    pub fn limit(&self) -> Millis {
        let limit = |vote: &Vote| match vote.said {
            Said::Failed | Said::Refused(Obstacle::Never) => vote.limit.unwrap_or_default(),
            _ => vote.limit.unwrap_or(Millis(u64::MAX)),
        };
        let limits: Vec<Millis> = self.votes.iter().map(limit).collect();
        self.rules.limit(&limits, self.majority()).unwrap_or_default()
    }
}
