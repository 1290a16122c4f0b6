//! The gate: the node at which contenders queue, and what follows when it is somebody's turn.

use alloc::vec::Vec;

use super::acquisition::{Acquisition, Phase, later};
use super::rules::Rules;
use super::vote::Said;
use super::{Answer, Ask, Claim, Failure, Wait, Why};
use crate::words::{Fence, Instant, Millis, Time};

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

/// Whether the gate is asked if it is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// When next.
    pub(super) next: Option<Instant>,
    /// And for how long not after that.
    pause: Millis,
    /// The question, until it is answered.
    ping: Option<u32>,
}

/// The next in line: it asks all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gathering {
    pub(super) gate: usize,
    /// Fixed for all nodes and slices.
    proposal: Fence,
    /// Since when it has nodes that it leaves to nobody.
    pub(super) since: Option<Instant>,
    /// When nodes that have failed are asked again.
    retry_at: Instant,
    /// Those that have failed, and were asked again at once: the connection may have been all that failed.
    retried: u128,
    /// Since when too many have failed, and none has answered since.
    missing: Option<Instant>,
    /// When nodes before the gate are asked whether they are there.
    pub(super) ping_at: Option<Instant>,
    /// What was asked so: from here on.
    pub(super) pings: Option<u32>,
    /// How often it gave back what it had behind a node that it lacked.
    pub(super) returns: u32,
}

impl<R: Rules> Acquisition<R> {
    /// What the gate has to say to a first attempt. It is the first node that has not failed.
    pub(super) fn gate(&self, in_grace: bool) -> Gate {
        match self.gate_said().map(|(_, said)| said) {
            Some(Said::No) => Gate::Closed,
            Some(Said::Nothing) if in_grace => Gate::Silent,
            _ => Gate::Open,
        }
    }

    fn gate_said(&self) -> Option<(usize, Said)> {
        let in_doubt = self.ballot.said().zip(&self.plan.suspects).enumerate();
        let known = in_doubt
            .filter(|(_, (said, suspect))| !(**suspect && *said == Said::Nothing))
            .map(|(node, (said, _))| (node, said));
        { known }.find(|(_, said)| !said.is_failure())
    }

    /// A first attempt that has the gate, and lacks others: it is its turn, and whoever took a
    /// vote elsewhere gives way. Whether that is so.
    pub(super) fn takes_turn(&mut self, time: Time) -> bool {
        let first = matches!(self.phase, Phase::Asking { .. }) && self.plan.wait.is_some();
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
        let next = asks.then(|| later(time.now, pause));
        Watch { next, pause, ping: None }
    }

    /// Asks whether the gate is there, and not in quarantine: less and less often.
    pub(super) fn tick_queueing(&mut self, time: Time) {
        let Phase::Queueing { gate, watch, .. } = &mut self.phase else { return };
        if watch.next.is_some_and(|next| time.now >= next) {
            watch.pause = Millis((watch.pause.0 * 2).min(LAST_PING));
            watch.next = Some(later(time.now, watch.pause));
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
            Answer::Unreachable if again => self.ask_gate(gate, false, None, time),
            // The others may be a majority, and serve those who queue at one of them.
            Answer::Silent | Answer::Refused(Why::Quarantine) if !alone => {
                self.ballot.withdraw(&mut self.out);
                self.ask_all(time);
            }
            // There is no other one, and it keeps the place for a while.
            Answer::Silent | Answer::Unreachable | Answer::Refused(Why::Quarantine) if alone => {
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

    /// It is this one's turn: asks all nodes. The gate is the last: from then on it may tell the next one,
    /// whose requests are to arrive after these.
    fn gather(&mut self, gate: usize, proposal: Fence, time: Time) {
        self.serves_again();
        self.begin_to_gather(gate, proposal, time);
        for node in (0..self.plan.nodes).filter(|node| *node != gate) {
            self.wait_at(node, time);
        }
        if !self.ballot.has(gate) {
            self.wait_at(gate, time);
        } else if self.plan.nodes > 1 {
            let ask = Ask::Acquire { fence: None, wait: None };
            self.ballot.ask(&mut self.out, gate, ask, time.now);
        }
        self.step(time);
    }

    fn begin_to_gather(&mut self, gate: usize, proposal: Fence, time: Time) {
        let retry_at = later(time.now, self.plan.timeout);
        self.phase = Phase::Gathering(Gathering {
            gate,
            proposal,
            since: None,
            retry_at,
            retried: 0,
            missing: None,
            ping_at: None,
            pings: None,
            returns: 0,
        });
    }

    /// A young slice at a node.
    fn wait_at(&mut self, node: usize, time: Time) {
        let Phase::Gathering(Gathering { proposal, .. }) = self.phase else { return };
        let fence = self.rules.proposes(proposal, self.proposal(time));
        let blocks = Some(self.within_deadline(self.slices.young, time));
        let wait = Some(Wait { blocks, keep: Some(self.slices.keep), turn: false });
        self.ballot.ask(&mut self.out, node, Ask::Acquire { fence: Some(fence), wait }, time.now);
    }

    /// A node has answered one who gathers.
    pub(super) fn hear_node(&mut self, node: usize, asked: Ask, answer: Answer, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if !matches!(answer, Answer::Silent | Answer::Unreachable) {
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
            // The next slice; or it was lost meanwhile, and is waited for again.
            Answer::Denied => {
                gathering.retried &= !bit;
                if self.is_late(time) {
                    return self.lose(Failure::Held);
                }
            }
            Answer::Granted(_) | Answer::Extended => gathering.retried &= !bit,
            Answer::Unreachable if gathering.retried & bit == 0 => {
                gathering.retried |= bit;
                self.wait_at(node, time);
            }
            _ => {}
        }
        self.step(time);
    }

    /// Looks at what the nodes have granted so far.
    pub(super) fn step_gathering(&mut self, time: Time) {
        self.ballot.drop_ended(time.now);
        for node in 0..self.plan.nodes {
            if self.ballot.is_idle(node, time.now) {
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
        if self.is_cut_off(time) {
            return self.fail(time);
        }
        self.look_for_ties(time);
    }

    /// Whether too many do not answer, for a while; or fences are too far apart.
    fn is_cut_off(&mut self, time: Time) -> bool {
        let Phase::Gathering(gathering) = &mut self.phase else { return false };
        if self.ballot.can_answer() {
            return !self.ballot.has_hope();
        }
        let since = *gathering.missing.get_or_insert(time.now);
        time.now >= later(since, Millis(self.plan.timeout.0.saturating_mul(2)))
    }

    /// When something is due for one who gathers.
    pub(super) fn gathering_due(&self, gathering: &Gathering) -> Instant {
        let ballot = &self.ballot;
        let ended = [ballot.refresh_due(), ballot.idle_due()].into_iter().flatten().min();
        let due = [ended, gathering.ping_at, self.last_resort(gathering)];
        due.into_iter().flatten().fold(gathering.retry_at, Instant::min)
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
        let quarantine = answer == Answer::Refused(Why::Quarantine);
        if self.waits_for_quarantine && !quarantine {
            self.serves_again();
        }
        let is_gone = quarantine || matches!(answer, Answer::Silent | Answer::Unreachable);
        if is_gone && self.plan.nodes > 1 {
            self.ballot.withdraw(&mut self.out);
            self.ask_all(time);
        }
    }

    /// Time has passed for one who gathers.
    pub(super) fn tick_gathering(&mut self, time: Time) {
        let Phase::Gathering(gathering) = &self.phase else { return };
        let retry = time.now >= gathering.retry_at;
        let ping = gathering.ping_at.is_some_and(|at| time.now >= at);
        if self.last_resort(gathering).is_some_and(|at| time.now >= at) {
            let first = self.ballot.lacking().next();
            self.resorts += 1;
            self.ballot.withdraw(&mut self.out);
            return self.rest(first, time);
        }
        if ping {
            self.ping_before(time);
        }
        if retry {
            if let Phase::Gathering(gathering) = &mut self.phase {
                gathering.retry_at = later(time.now, self.plan.timeout);
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

/// After so many milliseconds the gate is asked first whether it is there, and how often at least.
const FIRST_PING: u64 = 500;
const LAST_PING: u64 = 16_000;
