//! The queue of contenders at one node, the gate.

use super::{Acquisition, Phase, Then};
use crate::quorum::rules::Rules;
use crate::quorum::{Answer, Ask, Failure, Obstacle, Wait};
use crate::words::{Fence, Instant, Millis, Time};

/// The pings of the gate, where there are other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Watch {
    /// Time of the next ping; `None`: no pings.
    pub(in crate::quorum) next: Option<Instant>,
    /// Delay before the ping after that.
    pause: Millis,
    /// The id of a ping without an answer.
    ping: Option<u32>,
}

impl<R: Rules> Acquisition<R> {
    pub(in crate::quorum) fn queue_at(&mut self, gate: usize, time: Time) {
        self.ballot.lengths.first = self.slices.lease;
        self.phase = Phase::Queueing { gate, failed: false, watch: self.watch(time) };
        self.ask_gate(gate, true, Some(self.proposal(time)), time);
    }

    /// Asks an unreachable gate again, with the same token.
    pub(in crate::quorum) fn return_to(&mut self, gate: usize, time: Time) {
        self.phase = Phase::Queueing { gate, failed: true, watch: self.watch(time) };
        self.ask_gate(gate, false, None, time);
    }

    /// Sends a request that waits for a slice at the gate; or one that does not wait, if the gate may be gone.
    fn ask_gate(&mut self, gate: usize, blocks: bool, fence: Option<Fence>, time: Time) {
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

    /// Takes the gate's answer to a queued request.
    pub(in crate::quorum) fn hear_gate(
        &mut self,
        gate: usize,
        asked: Ask,
        answer: Answer,
        time: Time,
    ) {
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
            // The other nodes tell if a majority has the completion record.
            Answer::Done(_) => {
                if !self.heeds_records(time) {
                    self.ask_anew(time);
                }
            }
            // One node is a majority.
            Answer::Denied if self.is_late(time) && self.plan.nodes == 1 => {
                self.lose(Failure::Held);
            }
            // The other nodes tell if a majority answers.
            Answer::Denied if self.is_late(time) => self.ask_anew(time),
            Answer::Denied => {
                if self.plan.nodes == 1 {
                    self.missing_since = None;
                }
                if let Phase::Queueing { failed, .. } = &mut self.phase {
                    *failed = false;
                }
                let Ask::Acquire { fence, .. } = asked else { return };
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
            // Perhaps only the connection failed. The place is kept.
            Answer::Unreachable if again => {
                // Without a proposal, one of several nodes would use its own clock, which may be ahead.
                let fence = (!alone).then(|| self.proposal(time));
                self.ask_gate(gate, false, fence, time);
            }
            // The other nodes may be a majority, and serve clients that queue at one of them.
            Answer::Silent | Answer::Refused(Obstacle::Quarantine(_)) if !alone => {
                self.missing_since.get_or_insert(time.now);
                self.ask_anew(time);
            }
            // There is no other node, and this one keeps the place for a while.
            _ if alone && (answer.is_failure() || answer == Answer::Refused(Obstacle::Busy)) => {
                self.missing_since.get_or_insert(time.now);
                if self.is_late(time) {
                    return self.lose(Failure::NoQuorum);
                }
                self.rest(Then::Return(gate), time);
            }
            _ if self.ballot.is_refused() => self.lose(self.refusal()),
            _ => {
                self.withdraw();
                self.rest(Then::AskAll, time);
            }
        }
    }

    // --- pings -----------------------------------------------------------------------------------

    fn watch(&self, time: Time) -> Watch {
        let pause = Millis(self.plan.timeout.0.max(FIRST_PING));
        let next = (self.plan.nodes > 1).then(|| time.now.plus(pause));
        Watch { next, pause, ping: None }
    }

    /// Pings the gate, less and less often, to learn if it answers and is not in quarantine.
    pub(in crate::quorum) fn tick_queueing(&mut self, time: Time) {
        let Phase::Queueing { gate, watch, .. } = &mut self.phase else { return };
        if watch.next.is_some_and(|next| time.now >= next) {
            watch.pause = Millis((watch.pause.0 * 2).min(LAST_PING));
            watch.next = Some(time.now.plus(watch.pause));
            // One ping at a time: silence about an old ping must not count for the newest.
            if watch.ping.is_none() {
                let id = self.out.push(*gate, self.ballot.attempt(), Ask::Ping, self.plan.ttl);
                watch.ping = Some(id);
            }
        }
    }

    /// Takes an answer that may belong to a ping.
    pub(in crate::quorum) fn hear_ping(&mut self, id: u32, answer: Answer, time: Time) {
        let Phase::Queueing { watch, .. } = &mut self.phase else { return };
        let is_ping = watch.ping.take_if(|ping| *ping == id).is_some();
        if is_ping && answer.is_failure() {
            self.ask_anew(time);
        }
    }
}

/// The time before the first ping of the gate, and the longest time between two, in milliseconds.
const FIRST_PING: u64 = 500;
const LAST_PING: u64 = 16_000;
