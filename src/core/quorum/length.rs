//! The length of the lease: the length wanted, or the one that a majority grants.

use super::ballot::{Ballot, Outbox};
use super::rules::Rules;
use super::vote::{Held, Said, Vote};
use super::{Obstacle, Send};
use crate::words::{Instant, Millis};

impl<R: Rules> Ballot<R> {
    /// True if a majority of the nodes support the claim by a lease of this length, asked for at
    /// this moment or later.
    pub fn is_renewed(&self, ttl: Millis, since: Instant) -> bool {
        let Some(fence) = self.fence else { return false };
        let renewed = |held: &Held| held.ttl >= ttl && held.sent >= since;
        self.supporters(fence).filter(renewed).count() >= self.majority()
    }

    /// Sets the length wanted; only requests from this moment on count.
    pub fn want(&mut self, ttl: Millis, now: Instant) {
        if ttl > self.ttl {
            // A node may grant now what it refused before.
            self.votes.iter_mut().for_each(|vote| vote.most = None);
        }
        (self.ttl, self.wanted_at) = (ttl, now);
    }

    /// The length of the lease.
    pub fn ttl(&self) -> Millis {
        self.ttl
    }

    /// Handles a refusal for good. If the length was the reason, asks the node for the length that it
    /// grants; and where no majority is left for the longer one, asks all nodes for the usual one.
    pub fn make_do(&mut self, out: &mut Outbox, refused: Send, now: Instant) {
        let never = |vote: &Vote| vote.said == Said::Refused(Obstacle::Never);
        let refuses = |vote: &&Vote| vote.length(self.ttl) < self.ttl || never(vote);
        let refusing = self.votes.iter().filter(refuses).count();
        if self.ttl > self.usual && self.rules.is_too_long(refusing, self.votes.len()) {
            self.ttl = self.usual;
            self.renew(out, now);
        } else if self.votes.get(refused.node).is_some_and(|v| v.length(self.ttl) < refused.ttl) {
            self.renew_at(out, refused.node, now);
        }
    }

    /// Makes the length the usual one once a majority grants it.
    pub fn learn_length(&mut self) {
        if self.is_renewed(self.ttl, Instant(0)) {
            self.usual = self.ttl;
        }
    }
}
