//! The gate: the node at which contenders queue, and what follows when it is somebody's turn.

use alloc::vec::Vec;

use super::acquisition::{Acquisition, Phase, later};
use super::rules::Rules;
use super::vote::Said;
use super::{Answer, Ask, Failure, Why};
use crate::words::{Instant, Millis, Time};

/// What the gate has to say to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// It grants, or there is none.
    Open,
    /// Somebody holds the lock there, or waits for it.
    Closed,
    /// It has not answered, and there is still time.
    Silent,
}

impl<R: Rules> Acquisition<R> {
    /// What the gate has to say to a first attempt. It is the first node that has not failed.
    pub(super) fn gate(&self, in_grace: bool) -> Gate {
        match self.gate_said() {
            Some(Said::No) => Gate::Closed,
            Some(Said::Nothing) if in_grace => Gate::Silent,
            _ => Gate::Open,
        }
    }

    fn gate_said(&self) -> Option<Said> {
        let in_doubt = self.ballot.said().zip(&self.plan.suspects);
        let said = in_doubt.filter(|(said, suspect)| !(**suspect && *said == Said::Nothing));
        said.map(|(said, _)| said).find(|said| !said.is_failure())
    }

    /// A first attempt that has the gate, and lacks others: it is its turn, and whoever took a
    /// vote elsewhere gives way. Whether that is so.
    pub(super) fn takes_turn(&mut self, time: Time) -> bool {
        let first = matches!(self.phase, Phase::Asking { .. }) && self.plan.wait.is_some();
        if !first || self.gate_said() != Some(Said::Yes) {
            return false;
        }
        let proposal = self.ballot.highest().unwrap_or_else(|| self.proposal(time));
        let waiting: Vec<bool> = self.ballot.said().map(|said| said == Said::No).collect();
        for (node, _) in waiting.iter().enumerate().filter(|(_, denied)| **denied) {
            let ask = Ask::Acquire { fence: Some(proposal), wait: Some(self.plan.timeout) };
            self.ballot.ask(&mut self.out, node, ask, time.now);
        }
        self.phase = Phase::Gathering { proposal, waiting };
        self.ballot.has_hope()
    }

    /// Waits for its turn at a node.
    pub(super) fn queue_at(&mut self, gate: usize, time: Time) {
        let left = self.deadline.map_or(Millis(0), |end| whole_millis(end, time.now));
        self.begin_attempt();
        let ask = Ask::Acquire { fence: Some(self.proposal(time)), wait: Some(left) };
        let id = self.ballot.ask(&mut self.out, gate, ask, time.now);
        let ping_at = later(time.now, ping_every(self.plan.timeout));
        self.phase = Phase::Queueing { gate, id, ping: None, ping_at };
    }

    /// The gate has answered the request that waits, or a ping. Whether it granted.
    pub(super) fn hear_gate(
        &mut self,
        gate: usize,
        waiting: bool,
        answer: Answer,
        time: Time,
    ) -> bool {
        // A ping that is answered with anything else: it is over.
        if !waiting && self.waits_for_quarantine && answer != Answer::Refused(Why::Quarantine) {
            self.serves_again();
        }
        match answer {
            Answer::Granted(_) => return waiting,
            Answer::TooFar => {
                let left = self.deadline.map_or(Millis(0), |end| whole_millis(end, time.now));
                let ask = Ask::Acquire { fence: None, wait: Some(left) };
                let again = self.ballot.ask(&mut self.out, gate, ask, time.now);
                if let Phase::Queueing { id, .. } = &mut self.phase {
                    *id = again;
                }
            }
            Answer::Denied if waiting => self.lose_queue(),
            // It is one node: without it the others may be a majority. Not at once, as it may answer
            // whoever does not wait, and be the gate again.
            Answer::Refused(_) | Answer::Unreachable if waiting => {
                self.ballot.withdraw(&mut self.out);
                self.rest(None, time);
            }
            // The others may be a majority, and serve those who queue at one of them. Where they
            // cannot be, its queue is as good as any.
            Answer::Refused(Why::Quarantine) if self.ballot.majority() < self.plan.nodes => {
                self.ballot.withdraw(&mut self.out);
                self.ask_all(time);
            }
            // One that does not answer a ping is as good as gone.
            Answer::Silent | Answer::Unreachable => {
                self.ballot.withdraw(&mut self.out);
                self.ask_all(time);
            }
            _ => {}
        }
        false
    }

    /// The time is over, or the queue gone, before it was its turn.
    pub(super) fn lose_queue(&mut self) {
        self.lose(if self.waits_for_quarantine { Failure::NoQuorum } else { Failure::Held });
    }

    /// It is this one's turn: confirms the gate's grant, and asks the others.
    pub(super) fn gather(&mut self, gate: usize, time: Time) {
        let proposal = self.ballot.highest().unwrap_or_else(|| self.proposal(time));
        for node in 0..self.plan.nodes {
            let fence = (node != gate).then_some(proposal);
            self.ballot.ask(&mut self.out, node, Ask::Acquire { fence, wait: None }, time.now);
        }
        let waiting = (0..self.plan.nodes).map(|node| node == gate).collect();
        self.phase = Phase::Gathering { proposal, waiting };
    }

    /// Some answers are followed by another request to the same node.
    pub(super) fn ask_once_more(&mut self, node: usize, asked: Ask, answer: Answer, time: Time) {
        let Ask::Acquire { fence, wait } = asked else { return };
        let again = match (answer, &mut self.phase) {
            (Answer::TooFar, _) if fence.is_some() => Ask::Acquire { fence: None, wait },
            (Answer::Granted(_), _) if wait.is_some() => Ask::Acquire { fence: None, wait: None },
            // Whoever had the lock before gives it back at all nodes, but not at once.
            (Answer::Denied, Phase::Gathering { proposal, waiting }) => {
                let Some(waits) = waiting.get_mut(node).filter(|waits| !**waits) else { return };
                *waits = true;
                Ask::Acquire { fence: Some(*proposal), wait: Some(self.plan.timeout) }
            }
            _ => return,
        };
        self.ballot.ask(&mut self.out, node, again, time.now);
    }
}

/// What is left until then, at least a millisecond: zero would be without limit.
fn whole_millis(end: Instant, now: Instant) -> Millis {
    Millis(end.since(now).div_ceil(1000).max(1))
}

/// How often a gate is asked whether it is there.
pub(super) fn ping_every(timeout: Millis) -> Millis {
    Millis(timeout.0.max(500))
}
