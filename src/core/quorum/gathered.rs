//! The grants that the next in line has so far, and keeps until they are a majority.

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

    /// Renews grants that are old, or get old while it waits for the others.
    pub fn refresh(&mut self, out: &mut Outgoing, now: Instant) {
        for node in 0..self.votes.len() {
            let due = |vote: &Vote| self.refresh_at(vote).is_some_and(|due| now >= due);
            if self.votes.get(node).is_some_and(due) {
                self.ask(out, node, Ask::again(self.votes.len()), now);
            }
        }
    }

    /// The first node that grants.
    pub fn first(&self) -> Option<usize> {
        self.votes.iter().position(|vote| vote.held().is_some())
    }

    /// True if its grants are better left to another client: it lacks a node before all of them. A
    /// majority whose fences are too far apart is none.
    pub fn gives_way(&self) -> bool {
        let first = self.first();
        let lacks = self.lacking().next();
        let counts = |vote: &&Vote| vote.held().is_some() && !vote.lease.behind;
        let few = self.votes.iter().filter(counts).count() < self.majority();
        few && first.zip(lacks).is_some_and(|(first, lacks)| self.rules.gives_way(first, lacks))
    }

    /// True if it has grants and does not give way.
    pub fn is_entitled(&self) -> bool {
        self.votes.iter().any(|vote| vote.held().is_some()) && !self.gives_way()
    }

    /// Time of the next renewal of a grant.
    pub fn refresh_due(&self) -> Option<Instant> {
        self.votes.iter().filter_map(|vote| self.refresh_at(vote)).min()
    }

    fn refresh_at(&self, vote: &Vote) -> Option<Instant> {
        let idle = vote.open.is_none() && !vote.said.is_failure();
        let held = vote.held().filter(|_| idle && !self.gives_way())?;
        let half = Instant(held.end.0.saturating_sub(held.ttl.0 * 500));
        let quarter = Instant(held.sent.0.saturating_add(held.ttl.0 * 250));
        Some(half.max(quarter))
    }

    /// Drops grants that have ended while it waited for the others.
    pub fn drop_ended(&mut self, now: Instant) {
        for vote in &mut self.votes {
            if vote.held().is_some_and(|held| held.end <= now) {
                vote.lease.held = None;
            }
        }
    }

    /// True if a node answers, does not grant, and has no request under way. While its own lease may
    /// still run there, it does not ask: that would renew the lease that it leaves to another client.
    pub fn is_idle(&self, node: usize, now: Instant) -> bool {
        self.votes
            .get(node)
            .is_some_and(|vote| vote.is_idle() && vote.lease.ends_by.is_none_or(|end| now >= end))
    }

    /// Time at which its own lease is certainly over at the first node where it has let it end.
    pub fn idle_due(&self) -> Option<Instant> {
        self.votes.iter().filter(|vote| vote.is_idle()).filter_map(|vote| vote.lease.ends_by).min()
    }

    /// True if a node grants, as far as is known.
    pub fn has(&self, node: usize) -> bool {
        self.votes.get(node).is_some_and(|vote| vote.held().is_some())
    }

    /// True if a node has failed, or has a mark that may count, and has no new request.
    pub fn has_failed(&self, node: usize) -> bool {
        self.votes.get(node).is_some_and(|vote| vote.said.is_failure() || vote.said.is_done())
    }

    /// The nodes that answer, or may yet, and do not grant; without those that are asked again because
    /// they did not answer: nobody gives way to a node that is gone.
    pub fn lacking(&self) -> impl Iterator<Item = usize> {
        let votes = self.votes.iter().enumerate();
        let lacks = |vote: &Vote| vote.held().is_none() && !vote.missing && !vote.said.is_done();
        let lacking = votes.filter(move |(_, vote)| lacks(vote));
        lacking.map(|(node, _)| node)
    }
}
