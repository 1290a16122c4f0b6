//! The next in line: it asks all nodes, waits at each, and keeps their grants until they are a majority, or
//! withdraws them for lack of one.

use super::{Acquisition, Phase};
use crate::quorum::ballot::vote::{Said, Vote};
use crate::quorum::ballot::{Ballot, Outgoing};
use crate::quorum::rules::Rules;
use crate::quorum::{Ask, Claim, Wait};
use crate::words::{Fence, Instant, Millis, Time};

/// The next in line, which asks all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Gathering {
    /// The proposal to all nodes, in all slices.
    proposal: Fence,
    /// Time of the next requests to failed nodes.
    retry_at: Instant,
    /// Time since when too many nodes have failed, without an answer of a majority.
    pub(in crate::quorum) missing: Option<Instant>,
}

impl<R: Rules> Acquisition<R> {
    /// Makes a first attempt the next in line, if it has the gate but not all other nodes. True if it has
    /// become that.
    pub(in crate::quorum) fn takes_turn(&mut self, time: Time) -> bool {
        let may = self.plan.wait.waits() && !self.is_late(time) && self.ballot.can_answer();
        let Some((_, Said::Yes)) = self.gate_said().filter(|_| may) else { return false };
        let proposal = self.ballot.highest().unwrap_or_else(|| self.proposal(time));
        self.ballot.lengths.first = self.slices.lease;
        self.begin_to_gather(proposal, time);
        self.step_gathering(time);
        true
    }

    /// Takes the turn: asks all nodes. The gate is the last: from then on it may answer the next client, and
    /// that client's requests must arrive after these.
    pub(in crate::quorum) fn gather(&mut self, gate: usize, proposal: Fence, time: Time) {
        self.begin_to_gather(proposal, time);
        for node in (0..self.plan.nodes).filter(|node| *node != gate) {
            self.wait_at(node, time);
        }
        if self.ballot.highest().is_none() {
            self.wait_at(gate, time);
        } else if self.plan.nodes > 1 {
            self.ballot.ask(&mut self.out, gate, Ask::again(self.plan.nodes), time.now);
        }
        self.step(time);
    }

    fn begin_to_gather(&mut self, proposal: Fence, time: Time) {
        let retry_at = time.now.plus(self.plan.timeout);
        self.phase = Phase::Gathering(Gathering { proposal, retry_at, missing: None });
    }

    /// Sends a request that waits for a young slice at a node.
    pub(in crate::quorum) fn wait_at(&mut self, node: usize, time: Time) {
        let Phase::Gathering(Gathering { proposal, .. }) = self.phase else { return };
        let fence = self.ballot.rules.proposes(proposal, self.proposal(time));
        let blocks = Some(self.within_deadline(self.slices.young, time));
        let wait = Some(Wait { blocks, keep: Some(self.slices.keep), turn: false });
        self.ballot.ask(&mut self.out, node, Ask::Acquire { fence: Some(fence), wait }, time.now);
    }

    fn wait_where(&mut self, does: impl Fn(&Vote) -> bool, time: Time) {
        for node in self.ballot.nodes_that(does) {
            self.wait_at(node, time);
        }
    }

    /// Judges the grants so far.
    pub(in crate::quorum) fn step_gathering(&mut self, time: Time) {
        self.ballot.drop_ended(time.now);
        // Nodes with a completion record may be too few.
        if self.ballot.has_voted() {
            self.missing_since = None;
        }
        if self.heeds_records(time) {
            return;
        }
        let is_late = self.is_late(time);
        if !is_late {
            // The next slice; or the grant was lost meanwhile, and the client waits for it again.
            self.wait_where(Vote::is_idle, time);
        }
        self.ballot.settle(&mut self.out, time.now);
        let left = |claim: &Claim| claim.until.since(time.now);
        let good = |claim: &Claim| left(claim) > 0 && self.ballot.is_young(left(claim));
        if let Some(claim) = self.ballot.claim().filter(good) {
            return self.win(claim);
        }
        self.ballot.refresh(&mut self.out, time.now);
        if (is_late && self.ballot.has_answered_last()) || self.is_cut_off(time) {
            self.fail(time)
        }
    }

    /// True if too many nodes have not answered for a while, or fences are too far apart.
    fn is_cut_off(&mut self, time: Time) -> bool {
        let Phase::Gathering(gathering) = &mut self.phase else { return false };
        if self.ballot.has_answered() {
            gathering.missing = None;
        }
        if self.ballot.can_answer() {
            return !self.ballot.may_decide();
        }
        let since = *gathering.missing.get_or_insert(time.now);
        time.now >= since.plus(Millis(self.plan.timeout.0.saturating_mul(2)))
    }

    /// Time of the next action of the next in line.
    pub(in crate::quorum) fn gathering_due(&self, gathering: &Gathering) -> Instant {
        self.ballot.refresh_due().into_iter().fold(gathering.retry_at, Instant::min)
    }

    /// Does all due work of the next in line.
    pub(in crate::quorum) fn tick_gathering(&mut self, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if time.now >= gathering.retry_at {
            gathering.retry_at = time.now.plus(self.plan.timeout);
            // A completion record may count no longer.
            self.wait_where(|vote| vote.said.is_failure() || vote.said.is_done(), time);
        }
        self.step(time);
    }
}

/// The grants so far.
impl<R: Rules> Ballot<R> {
    /// True if grants to blocked requests are young enough, with this many µs left of the claim.
    pub fn is_young(&self, left: u64) -> bool {
        let mut waited =
            self.votes.iter().filter_map(|vote| vote.held().filter(|held| held.waited));
        self.rules.is_young(left, self.lengths.first) || waited.next().is_none()
    }

    /// Renews grants that are old, or get old while the next in line waits for other nodes.
    pub fn refresh(&mut self, out: &mut Outgoing, now: Instant) {
        for node in self.nodes_that(|vote| self.refresh_at(vote).is_some_and(|due| now >= due)) {
            self.ask(out, node, Ask::again(self.votes.len()), now);
        }
    }

    /// True if some nodes grant without a majority, or their fences are too far apart.
    pub fn has_minority(&self) -> bool {
        let counts = |vote: &Vote| vote.held().is_some() && !vote.lease.behind;
        !self.do_most(counts) && self.highest().is_some()
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
}
