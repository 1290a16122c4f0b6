//! The acquisition of a lock: attempts, the gate for contenders, and back-off.
//!
//! The first attempt asks all nodes at once. If two clients each win some of the nodes, neither has a majority.
//! So contenders release everything and queue at one node, the gate, and ask the other nodes at their turn
//! there. The choice of the gate matters for order and for progress, never for safety.

use super::back_off::BackOff;
use super::ballot::{Ballot, Outgoing};
use super::hold::Hold;
use super::outage::Outage;
use super::phase::{Gate, Gathering, Phase};
use super::rules::{Rules, Sound};
use super::vote::Said;
use super::waiting::Slices;
use super::{Answer, Ask, Claim, Failure, Obstacle, Plan, Send, Verdict};
use crate::limits::MAX_FENCE_AHEAD;
use crate::words::{Fence, Instant, Millis, Patience, Time};

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquisition<R = Sound> {
    pub(super) plan: Plan,
    pub(super) slices: Slices,
    pub(super) out: Outgoing,
    pub(super) ballot: Ballot<R>,
    pub(super) phase: Phase,
    /// Time of its withdrawal with grants and no majority. A first attempt ends by itself; the time continues
    /// when it takes its turn.
    withdraws_at: Option<Instant>,
    /// The end of the wait.
    pub(super) deadline: Option<Instant>,
    pub(super) outage: Outage,
    pub(super) back_off: BackOff,
    contended: bool,
}

impl Acquisition {
    /// Begins an acquisition; the first requests are ready.
    #[must_use]
    pub fn new(plan: Plan, time: Time) -> Acquisition {
        Acquisition::by(Sound, plan, time)
    }
}

impl<R: Rules> Acquisition<R> {
    /// Begins an acquisition under other rules.
    pub fn by(rules: R, plan: Plan, time: Time) -> Acquisition<R> {
        let deadline = match plan.wait {
            Patience::Within(limit) => Some(time.now.later(limit)),
            Patience::Try | Patience::Forever => None,
        };
        let mut acquisition = Acquisition {
            slices: plan.slices(),
            ballot: Ballot::new(rules, 0, plan.nodes, plan.ttl),
            out: Outgoing::default(),
            phase: Phase::Resting { until: time.now, gate: None, again: None },
            withdraws_at: None,
            deadline,
            outage: Outage::default(),
            back_off: BackOff::default(),
            contended: false,
            plan,
        };
        if acquisition.plan.start_at_gate && acquisition.plan.wait.waits() {
            acquisition.queue_at(acquisition.first_there(), time);
        } else {
            acquisition.ask_all(time);
        }
        acquisition
    }

    /// Returns the next request to send. The caller calls this after every event until there is none.
    pub fn poll(&mut self) -> Option<Send> {
        self.out.pop()
    }

    /// The present state.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.phase {
            Phase::Over(verdict) => verdict,
            _ => Verdict::Pending,
        }
    }

    /// The present or last attempt: its token is the lock's if it wins.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.ballot.attempt()
    }

    /// The largest fence seen.
    #[must_use]
    pub fn seen(&self) -> Fence {
        self.plan.seen
    }

    /// True if another client competed for the lock.
    #[must_use]
    pub fn contended(&self) -> bool {
        self.contended
    }

    /// True while it waits for its turn in a queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        matches!(self.phase, Phase::Queueing { failed: false, .. } | Phase::Gathering(_))
    }

    /// Time since when no majority answers, or no grants make a claim because fences are too far apart.
    #[must_use]
    pub fn missing_since(&self) -> Option<Instant> {
        self.outage.since()
    }

    /// Nodes that do not answer, or are in quarantine.
    #[must_use]
    pub fn suspects(&self) -> &[bool] {
        &self.plan.suspects
    }

    /// Time of the next [`tick`](Self::tick).
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        match self.phase {
            Phase::Asking { grace } => grace,
            Phase::Queueing { ref watch, .. } => {
                self.asks_last_at().into_iter().chain(watch.next).min()
            }
            Phase::Gathering(ref gathering) => {
                let ends = self.asks_last_at().into_iter().chain(self.withdraws_at);
                Some(ends.fold(self.gathering_due(gathering), Instant::min))
            }
            Phase::Resting { until, .. } => Some(until),
            Phase::Over(_) => None,
        }
    }

    /// Does all due work.
    pub fn tick(&mut self, time: Time) {
        let is_over = self.asks_last_at().is_some_and(|at| time.now >= at);
        match &mut self.phase {
            &mut Phase::Resting { until, gate, again } if time.now >= until => {
                match (again, gate) {
                    (Some(gate), _) => self.return_to(gate, time),
                    (None, Some(gate)) => self.queue_at(gate, time),
                    (None, None) => self.ask_all(time),
                }
            }
            Phase::Queueing { .. } | Phase::Gathering(_) if is_over => self.ask_anew(time),
            Phase::Gathering(_) if self.withdraws_at.is_some_and(|at| time.now >= at) => {
                self.give_up_turn(time);
            }
            Phase::Gathering(_) => self.tick_gathering(time),
            Phase::Queueing { .. } => self.tick_queueing(time),
            Phase::Asking { grace } if grace.is_some_and(|end| time.now >= end) => {
                *grace = None;
                self.step(time);
            }
            _ => {}
        }
    }

    /// Notes when the request with this id was sent; its answer comes next. A request that is sent again, over
    /// another connection, has its own time.
    pub fn sent(&mut self, node: usize, id: u32, at: Instant) {
        self.ballot.sent(node, id, at);
    }

    /// Takes a node's answer, or its silence at the time-out.
    pub fn answer(&mut self, node: usize, id: u32, answer: Answer, time: Time) {
        self.note(node, answer);
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        let Some(asked) = self.ballot.answer(node, id, answer, time.now) else {
            return self.hear_ping(id, answer, time);
        };
        match (&self.phase, asked.ask, answer) {
            (&Phase::Queueing { gate, .. }, ask, _) => self.hear_gate(gate, ask, answer, time),
            (Phase::Gathering(_), ask, _) => self.hear_node(node, ask, answer, time),
            (_, Ask::Acquire { fence: Some(_), wait }, Answer::TooFar) => {
                let ask = Ask::Acquire { fence: None, wait };
                self.ballot.ask(&mut self.out, node, ask, time.now);
                self.step(time);
            }
            _ => self.step(time),
        }
    }

    /// Notes that another server has taken the node's place: the former server's grants do not count.
    pub fn cut_off(&mut self, node: usize, time: Time) {
        self.ballot.cut_off(node, time.now);
        self.step(time);
    }

    /// Gives up. The requests that release everything are ready.
    pub fn abandon(&mut self) {
        if self.verdict() == Verdict::Pending {
            self.lose(Failure::Held);
        } else {
            self.ballot.withdraw(&mut self.out);
        }
    }

    /// Turns a won acquisition into a hold, which takes the answers that are still to come.
    pub fn into_hold(self, time: Time) -> Hold<R> {
        Hold::new(self.ballot, self.out, time.now)
    }

    // --- the first attempt -----------------------------------------------------------------------

    pub(super) fn ask_all(&mut self, time: Time) {
        self.begin_attempt();
        let fence = Some(self.proposal(time));
        for node in 0..self.plan.nodes {
            let ask = Ask::Acquire { fence, wait: None };
            self.ballot.ask(&mut self.out, node, ask, time.now);
        }
        // The claim of a waiting client waits this long for the gate, so that it cannot overtake the queue
        // there.
        self.phase = Phase::Asking { grace: Some(time.now.plus(self.grace())) };
    }

    fn grace(&self) -> Millis {
        Millis(self.time_out().0.div_ceil(4))
    }

    /// Time of one more attempt at all nodes, if they have not ended the wait by then: the attempt
    /// distinguishes a held lock from an outage.
    fn asks_last_at(&self) -> Option<Instant> {
        self.deadline.map(|end| end.plus(self.grace()))
    }

    /// Time for which a claim waits for its gate, and grants for a majority: the time-out, or less if the
    /// leases are shorter. Otherwise the claim would end before the gate counts as silent. And two clients
    /// would let their grants end at the same moment, and swap them.
    pub(super) fn time_out(&self) -> Millis {
        self.plan.timeout.min(self.slices.lease)
    }

    /// Judges the nodes' answers so far.
    pub(super) fn step(&mut self, time: Time) {
        if matches!(self.phase, Phase::Asking { .. }) && self.heeds_records(time) {
            return;
        }
        self.judge(time);
        self.plan_withdrawal(time);
    }

    fn judge(&mut self, time: Time) {
        let gate = match self.phase {
            Phase::Asking { grace } => self.gate(grace.is_some()),
            Phase::Gathering(_) => return self.step_gathering(time),
            _ => return,
        };
        if !self.ballot.rules.minds_gate(self.plan.wait.waits()) {
            return self.step_without(gate, time);
        }
        match gate {
            Gate::Silent => return,
            // The lock is held; but the acquisition still finds out if a majority says so.
            Gate::Closed if self.ballot.can_vote() => {
                if self.ballot.has_voted() {
                    self.fail(time);
                }
                return;
            }
            _ => self.ballot.settle(&mut self.out, time.now),
        }
        match self.ballot.claim() {
            Some(claim) if claim.until > time.now && gate == Gate::Open => self.win(claim),
            // The attempt waits where it was denied at once: before the gate tells the next in line of its turn.
            None if gate == Gate::Open
                && self.ballot.denier().is_some()
                && self.takes_turn(time) => {}
            None if gate == Gate::Open && self.ballot.has_hope() => {}
            None if gate == Gate::Open && self.takes_turn(time) => {}
            _ => self.fail(time),
        }
    }

    /// The same for a client that does not wait: any free majority is enough. Without one, the gate's answer
    /// gives the reason.
    fn step_without(&mut self, gate: Gate, time: Time) {
        self.ballot.settle(&mut self.out, time.now);
        let may_be_held = self.ballot.denier().is_some() && self.ballot.can_vote();
        match self.ballot.claim() {
            Some(claim) if claim.until > time.now => self.win(claim),
            None if self.ballot.has_hope() || gate == Gate::Silent => {}
            None if may_be_held && !self.ballot.has_voted() => {}
            _ => self.fail(time),
        }
    }

    pub(super) fn win(&mut self, claim: Claim) {
        self.phase = Phase::Over(Verdict::Won(claim));
    }

    /// Releases everything, and asks all nodes once more.
    pub(super) fn ask_anew(&mut self, time: Time) {
        self.ballot.withdraw(&mut self.out);
        self.ask_all(time);
    }

    /// Ends a failed attempt: releases everything, and decides on the next step.
    pub(super) fn fail(&mut self, time: Time) {
        let waits = self.plan.wait.waits() && self.deadline.is_none_or(|end| time.now < end);
        if self.ballot.is_refused() {
            return self.lose(self.refusal());
        }
        // Nodes with a completion record count neither for a holder nor for this client. If a silent node could
        // make the record a majority's, there is no quorum.
        if self.ballot.has_voted()
            && let Some(denier) = self.ballot.denier()
        {
            self.outage.end();
            self.contended = true;
            if !waits {
                return self.lose(Failure::Held);
            }
            self.ballot.withdraw(&mut self.out);
            return self.queue_at(denier, time);
        }
        self.outage.goes_on(time.now);
        // A single node's queue serves in order as soon as the node grants again; but a lock that is done has
        // no queue.
        let quarantine = self.ballot.said().next() == Some(Said::Refused(Obstacle::Quarantine));
        if waits && self.plan.nodes == 1 && quarantine && !self.ballot.has_passed_over() {
            self.ballot.withdraw(&mut self.out);
            self.outage.waits_for_quarantine(time.now);
            return self.queue_at(0, time);
        }
        // A waiting client waits through an outage. If a majority granted without a claim, another try helps.
        if waits || (self.ballot.has_answered() && self.back_off.may_try_again()) {
            self.ballot.withdraw(&mut self.out);
            self.rest(None, time);
        } else {
            self.lose(Failure::NoQuorum);
        }
    }

    /// The failure if too many nodes refuse permanently.
    pub(super) fn refusal(&self) -> Failure {
        let limit = self.ballot.limit();
        let is_too_long = (Millis(1)..self.plan.ttl).contains(&limit);
        if is_too_long { Failure::TooLong(limit) } else { Failure::Refused }
    }

    pub(super) fn lose(&mut self, failure: Failure) {
        self.ballot.withdraw(&mut self.out);
        self.phase = Phase::Over(Verdict::Lost(failure));
    }

    /// Plans to withdraw when it has grants and no majority: another client has the missing nodes, and may wait
    /// for these.
    fn plan_withdrawal(&mut self, time: Time) {
        if !self.ballot.has_minority() || !self.ballot.rules.withdraws() {
            self.withdraws_at = None;
        } else if self.withdraws_at.is_none() {
            let longest = self.back_off.patience(self.time_out());
            let patience = self.ballot.rules.at_random(longest, self.plan.random());
            self.withdraws_at = Some(Instant(time.now.0.saturating_add(patience)));
        }
    }

    /// Withdraws, rests, and queues anew, with another token, at the first responsive node, as other clients
    /// do.
    fn give_up_turn(&mut self, time: Time) {
        self.back_off.gives_up_turn();
        let is_missing = matches!(self.phase, Phase::Gathering(Gathering { missing: Some(_), .. }));
        if is_missing || self.outage.since().is_some() {
            return self.fail(time);
        }
        let gate = self.first_there();
        self.ballot.withdraw(&mut self.out);
        self.rest(Some(gate), time);
    }

    /// The first node that is not suspect.
    fn first_there(&self) -> usize {
        self.plan.suspects.iter().position(|suspect| !suspect).unwrap_or(0)
    }

    /// Backs off, longer each time, by a random length.
    pub(super) fn rest(&mut self, gate: Option<usize>, time: Time) {
        let most = self.back_off.rest(self.outage.since().is_some());
        let chance = self.plan.random();
        let rest = self.ballot.rules.at_random(most, chance);
        let end = Instant(time.now.0.saturating_add(rest));
        let until = self.deadline.map_or(end, |last| end.min(last));
        self.phase = Phase::Resting { until, gate, again: None };
    }

    pub(super) fn begin_attempt(&mut self) {
        self.withdraws_at = None;
        let next = self.ballot.rules.next_attempt(self.ballot.attempt());
        self.ballot = Ballot::new(self.ballot.rules.clone(), next, self.plan.nodes, self.plan.ttl);
    }

    /// A fence above all known ones of this key, and not so far ahead that nodes refuse it.
    pub(super) fn proposal(&self, time: Time) -> Fence {
        let next = self.plan.seen.0 + 1;
        let wild = next > time.unix.saturating_add(MAX_FENCE_AHEAD);
        Fence(if wild { time.unix } else { next.max(time.unix) }.max(1))
    }

    /// True if the wait is over.
    pub(super) fn is_late(&self, time: Time) -> bool {
        self.deadline.is_some_and(|end| time.now >= end)
    }

    /// Limits a slice to the rest of the wait; at least a millisecond, because zero would mean no limit.
    pub(super) fn within_deadline(&self, slice: Millis, time: Time) -> Millis {
        let left = self.deadline.map(|end| Millis(end.since(time.now).div_ceil(1000).max(1)));
        left.map_or(slice, |left| left.min(slice))
    }

    fn note(&mut self, node: usize, answer: Answer) {
        if let Answer::Granted(fence) = answer {
            self.plan.seen = self.plan.seen.max(fence);
        }
        if let Some(suspect) = self.plan.suspects.get_mut(node) {
            let quarantine = Answer::Refused(Obstacle::Quarantine);
            *suspect =
                matches!(answer, Answer::Silent | Answer::Unreachable) || answer == quarantine;
        }
    }
}
