//! The acquisition of a lock: attempts, the queue of contenders, and back-off.
//!
//! The first attempt asks all nodes at once. If two clients each win some of the nodes, neither has a majority.
//! So contenders release everything and queue at one node, the gate, and ask the other nodes at their turn
//! there. The choice of the gate matters for order and for progress, never for safety. Each phase has a file:
//! `first_attempt`, `gate` and `gathering`.

mod done;
mod first_attempt;
mod gate;
mod gathering;
pub mod waiting;

use self::gate::Watch;
use self::gathering::Gathering;
use self::waiting::Slices;
use super::ballot::vote::Said;
use super::ballot::{Ballot, Outgoing};
use super::hold::Hold;
use super::rules::{Rules, Sound};
use super::{Answer, Ask, Claim, Failure, Plan, Send, Verdict};
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
    deadline: Option<Instant>,
    /// Time since when no majority grants or denies.
    pub(super) missing_since: Option<Instant>,
    /// The number of rests, which get longer each time.
    rests: u32,
    contended: bool,
}

/// A phase of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// All nodes have been asked.
    Asking {
        /// End of the wait for the gate's answer; `None` once that is over.
        grace: Option<Instant>,
    },
    /// Waits for its turn at a node.
    Queueing {
        gate: usize,
        /// True if the gate could not be reached at the last request.
        failed: bool,
        watch: Watch,
    },
    /// The next in line at the gate, which has asked all nodes.
    Gathering(Gathering),
    /// Backs off.
    Resting { until: Instant, then: Then },
    /// The acquisition has ended.
    Over(Verdict),
}

/// The next step after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// Asks all nodes.
    AskAll,
    /// Queues at this node.
    Queue(usize),
    /// Asks this gate again, with the same token.
    Return(usize),
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
        let at_gate = plan.start_at_gate && plan.wait.waits();
        let then = if at_gate { Then::Queue(plan.first_there()) } else { Then::AskAll };
        let first = rules.next_attempt(0);
        let mut acquisition = Acquisition {
            slices: plan.slices(),
            ballot: Ballot::new(rules, first, plan.nodes, plan.ttl),
            out: Outgoing::default(),
            phase: Phase::Resting { until: time.now, then },
            withdraws_at: None,
            deadline,
            missing_since: None,
            rests: 0,
            contended: false,
            plan,
        };
        acquisition.tick(time);
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

    /// Time since when no majority grants or denies, or grants make no claim because fences are too far apart.
    #[must_use]
    pub fn missing_since(&self) -> Option<Instant> {
        self.missing_since
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
            &mut Phase::Resting { until, then } if time.now >= until => match then {
                Then::AskAll => self.ask_all(time),
                Then::Queue(gate) => self.queue_at(gate, time),
                Then::Return(gate) => self.return_to(gate, time),
            },
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
            (_, Ask::Acquire { fence: Some(_), wait }, Answer::TooFar) => {
                let ask = Ask::Acquire { fence: None, wait };
                self.ballot.ask(&mut self.out, node, ask, time.now);
                self.step(time);
            }
            (&Phase::Queueing { gate, .. }, ask, _) => self.hear_gate(gate, ask, answer, time),
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
        self.lose(Failure::Held);
    }

    /// Turns a won acquisition into a hold, which takes the answers that are still to come.
    pub fn into_hold(self, time: Time) -> Hold<R> {
        Hold::new(self.ballot, self.out, time.now)
    }

    /// Judges the nodes' answers so far.
    pub(super) fn step(&mut self, time: Time) {
        match self.phase {
            Phase::Asking { grace } => self.judge(grace, time),
            Phase::Gathering(_) => self.step_gathering(time),
            _ => {}
        }
        self.plan_withdrawal(time);
    }

    pub(super) fn win(&mut self, claim: Claim) {
        self.phase = Phase::Over(Verdict::Won(claim));
    }

    pub(super) fn lose(&mut self, failure: Failure) {
        self.ballot.withdraw(&mut self.out);
        self.phase = Phase::Over(Verdict::Lost(failure));
    }

    /// Ends a failed attempt: releases everything, and decides on the next step.
    pub(super) fn fail(&mut self, time: Time) {
        let waits = self.plan.wait.waits() && !self.is_late(time);
        if self.ballot.is_refused() {
            return self.lose(self.refusal());
        }
        // Nodes with a completion record count neither for a holder nor for this client. If a silent node could
        // make the record a majority's, there is no quorum.
        if self.ballot.has_voted()
            && let Some(denier) = self.ballot.denier()
        {
            self.missing_since = None;
            self.contended = true;
            if waits {
                self.withdraw();
                return self.queue_at(denier, time);
            }
            // Clients that do not wait, with a node or two each: none would have the lock.
            if self.deadline.is_none() && self.ballot.has_minority() && self.rests < SPLITS {
                self.withdraw();
                return self.rest_for(self.grace().0.saturating_mul(1_000), Then::AskAll, time);
            }
            return self.lose(Failure::Held);
        }
        self.missing_since.get_or_insert(time.now);
        // A waiting client waits through an outage. If a majority granted without a claim, another try helps. A
        // completion record is no grant: another try would wait for the silent nodes again.
        let has_split = self.ballot.do_most(|vote| matches!(vote.said, Said::Yes | Said::No));
        if waits || (has_split && self.rests < SPLITS) {
            self.withdraw();
            self.rest(Then::AskAll, time);
        } else {
            self.lose(Failure::NoQuorum);
        }
    }

    /// The failure if too many nodes refuse permanently.
    pub(super) fn refusal(&self) -> Failure {
        self.ballot.limit().map_or(Failure::Refused, Failure::TooLong)
    }

    /// Releases everything. The next attempt has a token of its own.
    pub(super) fn withdraw(&mut self) {
        self.ballot.withdraw(&mut self.out);
        self.withdraws_at = None;
        let next = self.ballot.rules.next_attempt(self.ballot.attempt());
        self.ballot = Ballot::new(self.ballot.rules.clone(), next, self.plan.nodes, self.plan.ttl);
    }

    /// Releases everything, and asks all nodes once more.
    pub(super) fn ask_anew(&mut self, time: Time) {
        self.withdraw();
        self.ask_all(time);
    }

    /// Plans to withdraw when it has grants and no majority: another client has the missing nodes, and may wait
    /// for these.
    fn plan_withdrawal(&mut self, time: Time) {
        if !self.ballot.has_minority() || !self.ballot.rules.withdraws() {
            self.withdraws_at = None;
        } else if self.withdraws_at.is_none() {
            let longest = self.time_out().0.saturating_mul(1_000);
            self.withdraws_at = Some(self.at_random(longest, time));
        }
    }

    /// Withdraws, rests, and queues anew, with another token, at the first responsive node, as other clients
    /// do.
    fn give_up_turn(&mut self, time: Time) {
        let Phase::Gathering(gathering) = &self.phase else { return };
        if gathering.missing.is_some() || self.missing_since.is_some() {
            return self.fail(time);
        }
        self.withdraw();
        self.rest(Then::Queue(self.plan.first_there()), time);
    }

    /// Backs off, longer each time, by a random length.
    pub(super) fn rest(&mut self, then: Then, time: Time) {
        let longest = if self.missing_since.is_some() { LONGEST_OUTAGE } else { LONGEST_REST };
        let next = FIRST_REST << self.rests.saturating_add(1).min(8);
        self.rest_for(next.min(longest), then, time);
    }

    fn rest_for(&mut self, longest: u64, then: Then, time: Time) {
        self.rests = self.rests.saturating_add(1);
        let end = self.at_random(longest, time);
        let until = self.deadline.map_or(end, |last| end.min(last));
        self.phase = Phase::Resting { until, then };
    }

    fn at_random(&mut self, most: u64, time: Time) -> Instant {
        let length = self.ballot.rules.at_random(most, self.plan.random());
        Instant(time.now.0.saturating_add(length))
    }

    /// Time for which a claim waits for its gate, and grants for a majority: the time-out, or less if the
    /// leases are shorter. Otherwise the claim would end before the gate counts as silent. And two clients
    /// would let their grants end at the same moment, and swap them.
    fn time_out(&self) -> Millis {
        self.plan.timeout.min(self.slices.lease)
    }

    pub(super) fn grace(&self) -> Millis {
        Millis(self.time_out().0.div_ceil(4))
    }

    /// Time of one more attempt at all nodes, if they have not ended the wait by then: the attempt
    /// distinguishes a held lock from an outage.
    fn asks_last_at(&self) -> Option<Instant> {
        self.deadline.map(|end| end.plus(self.grace()))
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

    /// A fence above all known ones of this key, and not so far ahead that nodes refuse it.
    pub(super) fn proposal(&self, time: Time) -> Fence {
        let next = self.plan.seen.0 + 1;
        let wild = next > time.unix.saturating_add(MAX_FENCE_AHEAD);
        Fence(if wild { time.unix } else { next.max(time.unix) }.max(1))
    }

    fn note(&mut self, node: usize, answer: Answer) {
        if let Answer::Granted(fence) = answer {
            self.plan.seen = self.plan.seen.max(fence);
        }
        if let Some(suspect) = self.plan.suspects.get_mut(node) {
            *suspect = answer.is_failure();
        }
    }
}

/// The number of further attempts for a client that does not wait, after grants without a claim.
const SPLITS: u32 = 3;
/// The first back-off and the longest, in µs.
const FIRST_REST: u64 = 5_000;
const LONGEST_REST: u64 = 250_000;
/// The longest back-off while no majority answers: there may be many such clients.
const LONGEST_OUTAGE: u64 = 1_000_000;
