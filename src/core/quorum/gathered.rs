//! The grants of the next in line so far.

use super::Ask;
use super::ballot::{Ballot, Outgoing};
use super::rules::Rules;
use super::vote::Vote;
use crate::words::Instant;

impl<R: Rules> Ballot<R> {
    /// True if grants to blocked requests are young enough, with this many µs left of the claim.
    pub fn is_young(&self, left: u64) -> bool {
        let mut waited =
            self.votes.iter().filter_map(|vote| vote.held().filter(|held| held.waited));
        self.rules.is_young(left, self.lengths.first) || waited.next().is_none()
    }

    /// Renews grants that are old, or get old while the next in line waits for other nodes.
    pub fn refresh(&mut self, out: &mut Outgoing, now: Instant) {
        for node in 0..self.votes.len() {
            let due = |vote: &Vote| self.refresh_at(vote).is_some_and(|due| now >= due);
            if self.votes.get(node).is_some_and(due) {
                self.ask(out, node, Ask::again(self.votes.len()), now);
            }
        }
    }

    /// True if some nodes grant without a majority, or their fences are too far apart.
    pub fn has_minority(&self) -> bool {
        let granting = || self.votes.iter().filter(|vote| vote.held().is_some());
        let counting = granting().filter(|vote| !vote.lease.behind).count();
        counting < self.majority() && granting().next().is_some()
    }

    /// Time of the next renewal of a grant.
    pub fn refresh_due(&self) -> Option<Instant> {
        self.votes.iter().filter_map(|vote| self.refresh_at(vote)).min()
    }

    fn refresh_at(&self, vote: &Vote) -> Option<Instant> {
        let idle = vote.open.is_none() && !vote.said.is_failure();
        let held = vote.held().filter(|_| idle)?;
        let half = Instant(held.end.0.saturating_sub(held.ttl.0 * 500));
        let quarter = Instant(held.sent.0.saturating_add(held.ttl.0 * 250));
        Some(half.max(quarter))
    }

    /// Drops grants that have ended during the wait for other nodes.
    pub fn drop_ended(&mut self, now: Instant) {
        for vote in &mut self.votes {
            if vote.held().is_some_and(|held| held.end <= now) {
                vote.lease.held = None;
            }
        }
    }

    /// True if a node answers, does not grant, and has no request under way.
    pub fn is_idle(&self, node: usize) -> bool {
        self.votes.get(node).is_some_and(Vote::is_idle)
    }

    /// True if this node grants, as far as is known.
    pub fn has(&self, node: usize) -> bool {
        self.votes.get(node).is_some_and(|vote| vote.held().is_some())
    }

    /// True if a node has failed, or has a completion record that may count, and no new request is under way.
    pub fn has_failed(&self, node: usize) -> bool {
        self.votes.get(node).is_some_and(|vote| vote.said.is_failure() || vote.said.is_done())
    }
}
