//! The first attempt of an acquisition, and each one after a rest: all nodes are asked at once.

use super::{Acquisition, Phase};
use crate::quorum::Ask;
use crate::quorum::ballot::vote::{Said, Vote};
use crate::quorum::rules::Rules;
use crate::words::{Instant, Time};

/// The gate's answer to an attempt. The gate is the first node that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// The gate grants, or there is none.
    Open,
    /// Another client holds the lock there, or waits for it.
    Closed,
    /// The gate has not answered, and there is still time.
    Silent,
}

impl<R: Rules> Acquisition<R> {
    pub(in crate::quorum) fn ask_all(&mut self, time: Time) {
        let fence = Some(self.proposal(time));
        for node in 0..self.plan.nodes {
            let ask = Ask::Acquire { fence, wait: None };
            self.ballot.ask(&mut self.out, node, ask, time.now);
        }
        // The claim of a waiting client waits this long for the gate, so that it cannot overtake the queue
        // there.
        self.phase = Phase::Asking { grace: Some(time.now.plus(self.grace())) };
    }

    /// Judges the nodes' answers so far.
    pub(in crate::quorum) fn judge(&mut self, grace: Option<Instant>, time: Time) {
        if self.heeds_records(time) {
            return;
        }
        let gate = match self.gate_said().map(|(_, said)| said) {
            Some(Said::No) => Gate::Closed,
            Some(Said::Nothing) if grace.is_some() => Gate::Silent,
            _ => Gate::Open,
        };
        if !self.ballot.rules.minds_gate(self.plan.wait.waits()) {
            return self.judge_without(gate, time);
        }
        match gate {
            Gate::Silent => return,
            // The lock is held; but the acquisition still finds out if a majority says so.
            Gate::Closed => {
                if self.ballot.has_voted() || !self.ballot.may_decide() {
                    self.fail(time);
                }
                return;
            }
            Gate::Open => self.ballot.settle(&mut self.out, time.now),
        }
        match self.ballot.claim() {
            Some(claim) if claim.until > time.now => self.win(claim),
            // The attempt waits where it was denied at once: before the gate tells the next in line of its turn.
            None if self.ballot.denier().is_some() && self.takes_turn(time) => {}
            None if self.ballot.may_decide() || self.takes_turn(time) => {}
            _ => self.fail(time),
        }
    }

    /// The same for a client that does not wait: any free majority is enough. Without one, the gate's answer
    /// gives the reason.
    fn judge_without(&mut self, gate: Gate, time: Time) {
        self.ballot.settle(&mut self.out, time.now);
        // A client waits for nodes that were silent before once, and only until a majority has voted. Two clients with a
        // minority each would block each other for a node time-out.
        let open = self.ballot.nodes_that(Vote::is_open);
        let is_silent = |node: &usize| self.plan.suspects.get(*node) == Some(&true);
        let is_worth_it = self.rests == 0 && !self.ballot.has_voted();
        let is_awaited = is_worth_it || !open.iter().all(is_silent);
        let waits = gate == Gate::Silent || (is_awaited && self.ballot.may_decide());
        match self.ballot.claim() {
            Some(claim) if claim.until > time.now => self.win(claim),
            None if waits => {}
            _ => self.fail(time),
        }
    }

    /// The gate's answer, if there is a gate.
    pub(in crate::quorum) fn gate_said(&self) -> Option<(usize, Said)> {
        let mut nodes = self.ballot.said().zip(&self.plan.suspects).enumerate();
        nodes.find_map(|(node, (said, suspect))| {
            let is_in_doubt = *suspect && said == Said::Nothing;
            let is_gate = !is_in_doubt && !said.is_failure() && !said.is_done();
            is_gate.then_some((node, said))
        })
    }
}
