//! The gate: the node at which contenders queue.

use super::acquisition::Acquisition;
use super::phase::{Gate, Gathering, Phase, Watch};
use super::rules::Rules;
use super::vote::Said;
use super::{Answer, Ask, Failure, Obstacle, Wait};
use crate::words::{Fence, Millis, Time};

impl<R: Rules> Acquisition<R> {
    /// What the gate has to say to a first attempt. It is the first node that has not failed.
    pub(super) fn gate(&self, in_grace: bool) -> Gate {
        match self.gate_said().map(|(_, said)| said) {
            Some(Said::No) => Gate::Closed,
            Some(Said::Nothing) if in_grace => Gate::Silent,
            _ => Gate::Open,
        }
    }

    pub(super) fn gate_said(&self) -> Option<(usize, Said)> {
        let in_doubt = self.ballot.said().zip(&self.plan.suspects).enumerate();
        let known = in_doubt
            .filter(|(_, (said, suspect))| !(**suspect && *said == Said::Nothing))
            .map(|(node, (said, _))| (node, said));
        { known }.find(|(_, said)| !said.is_failure())
    }

    /// Waits for its turn at a node.
    pub(super) fn queue_at(&mut self, gate: usize, time: Time) {
        self.begin_attempt();
        self.ballot.ask_first_for(self.slices.lease);
        if self.plan.binds {
            self.ballot.bind();
        }
        self.phase = Phase::Queueing { gate, failed: false, watch: self.watch(time) };
        self.ask_gate(gate, true, Some(self.proposal(time)), time);
    }

    fn watch(&self, time: Time) -> Watch {
        let pause = Millis(self.plan.timeout.0.max(FIRST_PING));
        let asks = self.plan.nodes > 1 || self.waits_for_quarantine;
        let next = asks.then(|| time.now.plus(pause));
        Watch { next, pause, ping: None }
    }

    /// Asks whether the gate is there, and not in quarantine: less and less often.
    pub(super) fn tick_queueing(&mut self, time: Time) {
        let Phase::Queueing { gate, watch, .. } = &mut self.phase else { return };
        if watch.next.is_some_and(|next| time.now >= next) {
            watch.pause = Millis((watch.pause.0 * 2).min(LAST_PING));
            watch.next = Some(time.now.plus(watch.pause));
            // One at a time: the silence about the last must not be taken for an old one's.
            if watch.ping.is_none() {
                let id = self.out.push(*gate, self.ballot.attempt(), Ask::Ping, self.plan.ttl);
                watch.ping = Some(id);
            }
        }
    }

    /// A slice at the gate; or, if it may not be there any more, a question.
    pub(super) fn ask_gate(&mut self, gate: usize, blocks: bool, fence: Option<Fence>, time: Time) {
        let chance = self.plan.random();
        let slice = self.slices.jittered(chance);
        let wait = Wait {
            blocks: blocks.then(|| self.within_deadline(slice, time)),
            keep: Some(self.slices.keep),
            turn: self.plan.nodes > 1,
        };
        let ask = Ask::Acquire { fence, wait: Some(wait) };
        self.ballot.ask(&mut self.out, gate, ask, time.now);
    }

    /// The gate has answered one who queues there.
    pub(super) fn hear_gate(&mut self, gate: usize, asked: Ask, answer: Answer, time: Time) {
        let fence = match asked {
            Ask::Acquire { fence, .. } => fence,
            _ => None,
        };
        match answer {
            Answer::Granted(_) => {
                let proposal = self.ballot.highest().unwrap_or_else(|| self.proposal(time));
                self.gather(gate, proposal, time);
            }
            Answer::Turn(top) => {
                self.plan.seen = self.plan.seen.max(top);
                let proposal = self.proposal(time);
                self.gather(gate, proposal, time);
            }
            Answer::TooFar if fence.is_some() => {
                self.ask_gate(gate, asked.blocks(), None, time);
            }
            // There is no other: its queue serves in order as soon as it grants again.
            Answer::Refused(Obstacle::Quarantine)
                if self.plan.nodes == 1 && !asked.blocks() && !self.is_late(time) =>
            {
                self.missing_since.get_or_insert(time.now);
                self.waits_for_quarantine = true;
                self.phase = Phase::Queueing { gate, failed: false, watch: self.watch(time) };
                self.ask_gate(gate, true, fence, time);
            }
            Answer::Denied if self.is_late(time) => self.lose_queue(),
            Answer::Denied => {
                self.missing_since = self.missing_since.filter(|_| self.waits_for_quarantine);
                if let Phase::Queueing { failed, .. } = &mut self.phase {
                    *failed = false;
                }
                self.ask_gate(gate, true, fence, time);
            }
            _ => self.gate_fails(gate, answer, time),
        }
    }

    fn gate_fails(&mut self, gate: usize, answer: Answer, time: Time) {
        let Phase::Queueing { failed, .. } = &mut self.phase else { return };
        let lost = matches!(answer, Answer::Unreachable | Answer::Silent);
        let again = lost && !core::mem::replace(failed, true);
        let alone = self.plan.nodes == 1;
        match answer {
            // It may have been the connection only. Its place is kept.
            Answer::Unreachable if again => {
                // Without a proposal one of several nodes would count from its clock, which may be ahead.
                let fence = (!alone).then(|| self.proposal(time));
                self.ask_gate(gate, false, fence, time);
            }
            // The others may be a majority, and serve those who queue at one of them.
            Answer::Silent | Answer::Refused(Obstacle::Quarantine) if !alone => {
                self.ballot.withdraw(&mut self.out);
                self.ask_all(time);
            }
            // There is no other one, and it keeps the place for a while.
            Answer::Silent | Answer::Unreachable | Answer::Refused(Obstacle::Quarantine)
                if alone =>
            {
                self.missing_since.get_or_insert(time.now);
                if self.is_late(time) {
                    return self.lose(Failure::NoQuorum);
                }
                self.rest(None, time);
                if let Phase::Resting { again, .. } = &mut self.phase {
                    *again = Some(gate);
                }
            }
            _ if self.ballot.is_refused() => self.lose(Failure::Refused),
            _ => {
                self.ballot.withdraw(&mut self.out);
                self.rest(None, time);
            }
        }
    }

    /// Asks the gate again that could not be reached, with the same token.
    pub(super) fn return_to(&mut self, gate: usize, time: Time) {
        self.phase = Phase::Queueing { gate, failed: true, watch: self.watch(time) };
        self.ask_gate(gate, false, None, time);
    }

    /// The answer to a ping, perhaps.
    pub(super) fn hear_ping(&mut self, node: usize, id: u32, answer: Answer, time: Time) {
        if let Phase::Queueing { watch, .. } = &mut self.phase
            && watch.ping.take_if(|ping| *ping == id).is_some()
        {
            return self.hear_watch(answer, time);
        }
        let Phase::Gathering(Gathering { pings, .. }) = self.phase else { return };
        if pings.is_some_and(|first| id >= first) && answer == Answer::Done {
            self.gives_way_to(node, time);
        }
    }

    fn hear_watch(&mut self, answer: Answer, time: Time) {
        let quarantine = answer == Answer::Refused(Obstacle::Quarantine);
        if self.waits_for_quarantine && !quarantine {
            self.serves_again();
        }
        let is_gone = quarantine || matches!(answer, Answer::Silent | Answer::Unreachable);
        if is_gone && self.plan.nodes > 1 {
            self.ballot.withdraw(&mut self.out);
            self.ask_all(time);
        }
    }
}

/// After so many milliseconds the gate is asked first whether it is there, and how often at least.
const FIRST_PING: u64 = 500;
const LAST_PING: u64 = 16_000;
