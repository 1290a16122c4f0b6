//! The next in line: it asks all nodes, waits at each, and keeps their grants until they are a majority, or
//! withdraws them for lack of one.

use alloc::vec::Vec;

use super::acquisition::Acquisition;
use super::phase::{Gathering, Phase};
use super::rules::Rules;
use super::vote::Said;
use super::{Answer, Ask, Claim, Wait};
use crate::words::{Fence, Instant, Millis, Time};

impl<R: Rules> Acquisition<R> {
    /// Makes a first attempt the next in line, if it has the gate but not all other nodes. True if it has
    /// become that.
    pub(super) fn takes_turn(&mut self, time: Time) -> bool {
        let asks = matches!(self.phase, Phase::Asking { .. });
        let first = asks && self.plan.wait.waits() && !self.is_late(time);
        let Some((gate, Said::Yes)) = self.gate_said().filter(|_| first) else { return false };
        let proposal = self.ballot.highest().unwrap_or_else(|| self.proposal(time));
        self.ballot.ask_first_for(self.slices.lease);
        self.begin_to_gather(gate, proposal, time);
        let denied: Vec<bool> = self.ballot.said().map(|said| said == Said::No).collect();
        for node in (0..self.plan.nodes).filter(|node| denied.get(*node) == Some(&true)) {
            self.wait_at(node, time);
        }
        self.ballot.can_answer()
    }

    /// Takes the turn: asks all nodes. The gate is the last: from then on it may answer the next client, and
    /// that client's requests must arrive after these.
    pub(super) fn gather(&mut self, gate: usize, proposal: Fence, time: Time) {
        self.begin_to_gather(gate, proposal, time);
        for node in (0..self.plan.nodes).filter(|node| *node != gate) {
            self.wait_at(node, time);
        }
        if !self.ballot.has(gate) {
            self.wait_at(gate, time);
        } else if self.plan.nodes > 1 {
            self.ballot.ask(&mut self.out, gate, Ask::again(self.plan.nodes), time.now);
        }
        self.step(time);
    }

    fn begin_to_gather(&mut self, gate: usize, proposal: Fence, time: Time) {
        let retry_at = time.now.plus(self.plan.timeout);
        self.phase =
            Phase::Gathering(Gathering { gate, proposal, retry_at, retried: 0, missing: None });
    }

    /// Sends a request that waits for a young slice at a node.
    pub(super) fn wait_at(&mut self, node: usize, time: Time) {
        let Phase::Gathering(Gathering { proposal, .. }) = self.phase else { return };
        let fence = self.ballot.rules.proposes(proposal, self.proposal(time));
        let blocks = Some(self.within_deadline(self.slices.young, time));
        let wait = Some(Wait { blocks, keep: Some(self.slices.keep), turn: false });
        self.ballot.ask(&mut self.out, node, Ask::Acquire { fence: Some(fence), wait }, time.now);
    }

    /// Takes the answer of a node to the next in line.
    pub(super) fn hear_node(&mut self, node: usize, asked: Ask, answer: Answer, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if self.ballot.has_answered() {
            gathering.missing = None;
        }
        let bit = 1u128.checked_shl(u32::try_from(node).unwrap_or(u32::MAX)).unwrap_or(0);
        match answer {
            Answer::TooFar => {
                if let Ask::Acquire { fence: Some(_), wait } = asked {
                    let ask = Ask::Acquire { fence: None, wait };
                    self.ballot.ask(&mut self.out, node, ask, time.now);
                }
            }
            Answer::Denied | Answer::Granted(_) | Answer::Extended => gathering.retried &= !bit,
            Answer::Unreachable if gathering.retried & bit == 0 => {
                gathering.retried |= bit;
                self.wait_at(node, time);
            }
            _ => {}
        }
        self.step(time);
    }

    /// Judges the grants so far.
    pub(super) fn step_gathering(&mut self, time: Time) {
        self.ballot.drop_ended(time.now);
        // Nodes with a completion record may be too few.
        if self.ballot.has_voted() {
            self.outage.end();
        }
        if self.heeds_records(time) {
            return;
        }
        let is_late = self.is_late(time);
        for node in (0..self.plan.nodes).filter(|_| !is_late) {
            // The next slice; or the grant was lost meanwhile, and the client waits for it again.
            if self.ballot.is_idle(node) {
                self.wait_at(node, time);
            }
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
        if self.ballot.can_answer() {
            // A node that denies may be about to have the completion record, too.
            let may_be_done =
                self.ballot.said().any(Said::is_done) && self.ballot.denier().is_some();
            return !self.ballot.has_hope() && !may_be_done;
        }
        let since = *gathering.missing.get_or_insert(time.now);
        time.now >= since.plus(Millis(self.plan.timeout.0.saturating_mul(2)))
    }

    /// Time of the next action of the next in line.
    pub(super) fn gathering_due(&self, gathering: &Gathering) -> Instant {
        self.ballot.refresh_due().into_iter().fold(gathering.retry_at, Instant::min)
    }

    /// Does all due work of the next in line.
    pub(super) fn tick_gathering(&mut self, time: Time) {
        let Phase::Gathering(gathering) = &self.phase else { return };
        let retry = time.now >= gathering.retry_at;
        if retry {
            if let Phase::Gathering(gathering) = &mut self.phase {
                gathering.retry_at = time.now.plus(self.plan.timeout);
                gathering.retried = 0;
            }
            for node in 0..self.plan.nodes {
                if self.ballot.has_failed(node) {
                    self.wait_at(node, time);
                }
            }
        }
        self.step(time);
    }
}
