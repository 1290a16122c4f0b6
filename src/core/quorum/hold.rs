//! A held lock: renewed, repaired, and lost the moment its validity ends.

use super::ballot::{Ballot, Outgoing};
use super::rules::{Rules, Sound};
use super::{Answer, Ask, Claim, Obstacle, Send, Wait};
use crate::words::{Fence, Instant, Millis};

/// A held lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold<R = Sound> {
    ballot: Ballot<R>,
    out: Outgoing,
    state: State,
    /// Time of the next renewal; `None`: never.
    renew_at: Option<Instant>,
    /// True if the lease is renewed again and again, and not only until it has its length.
    renews: bool,
    /// The time of validity at its last change, in µs.
    valid: u64,
    /// The pause before a short lease is renewed, in µs.
    soon: u64,
    /// The end of the hold, renewed or not.
    limit: Option<Instant>,
    /// Set when the lock is handed on: the time to wait at nodes where another token still holds it.
    hands_on: Option<Millis>,
    /// Set when the lock is finished with DONE: the end of the completion record.
    finishes: Option<Instant>,
    /// The first request of the hold itself; earlier ones are the acquisition's.
    first: u32,
}

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The lock is held until the claim's end.
    Held(Claim),
    /// The lock is lost permanently.
    Lost(LossReason),
}

/// The reason why a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The validity ended before a majority had renewed the lease.
    NotRenewed,
    /// Nodes say that the lease is gone, and no majority is left, or may have been missing at some moment.
    Ended,
    /// The lock was held as long as its limit allows.
    Limit,
    /// The holder released it.
    Released,
    /// The holder finished it with DONE, at a majority of the nodes.
    Done,
    /// The holder wanted DONE, and too many nodes refuse for a majority.
    NotDone,
}

impl<R: Rules> Hold<R> {
    pub(super) fn new(mut ballot: Ballot<R>, out: Outgoing, now: Instant) -> Hold<R> {
        ballot.stand();
        let state = ballot.claim().map_or(State::Lost(LossReason::NotRenewed), State::Held);
        let mut hold = Hold {
            first: out.next_id(),
            ballot,
            out,
            state,
            renew_at: Some(now),
            renews: true,
            valid: 0,
            soon: SOON,
            limit: None,
            hands_on: None,
            finishes: None,
        };
        hold.plan_first_renewal(now);
        hold
    }

    /// Takes over a lock that another process acquired with this fence, and sends no more requests for. The
    /// answers are to one EXTEND that names the fence, sent at `sent`. The hold is lost unless a majority has
    /// extended the lease: until then the fence is a hint.
    #[must_use]
    pub fn taken_over(
        rules: R,
        (fence, ttl): (Fence, Millis),
        (sent, now): (Instant, Instant),
        answers: &[Answer],
    ) -> Hold<R> {
        let (mut ballot, mut out) =
            (Ballot::new(rules, 0, answers.len(), ttl), Outgoing::default());
        ballot.fence = Some(fence);
        for (node, answer) in answers.iter().enumerate() {
            let id = out.next_id();
            // The votes count it as a granted ACQUIRE with the fence: a RELEASE will be due.
            ballot.ask(&mut out, node, Ask::Acquire { fence: Some(fence), wait: None }, sent);
            let answer = match answer {
                Answer::Extended => Answer::Granted(fence),
                other => *other,
            };
            ballot.answer(node, id, answer, now);
        }
        while out.pop().is_some() {}
        Hold::new(ballot, out, now)
    }

    /// Returns the next request to send. The caller calls this after every event until there is none.
    pub fn poll(&mut self) -> Option<Send> {
        self.out.pop()
    }

    /// The state at the last event. A claim ends by itself: compare its end with the time.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The fence, constant while the lock is held.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.ballot.fence()
    }

    /// The attempt that holds the lock with its token.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.ballot.attempt()
    }

    /// The length of the lease.
    #[must_use]
    pub fn ttl(&self) -> Millis {
        self.ballot.ttl()
    }

    /// Time of the next [`tick`](Self::tick).
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let State::Held(claim) = self.state else { return None };
        [Some(claim.until), self.renew_at, self.limit].into_iter().flatten().min()
    }

    /// Does all due work.
    pub fn tick(&mut self, now: Instant) {
        self.look(now);
        if self.is_held() && self.renew_at.is_some_and(|at| now >= at) {
            match self.finishes {
                Some(_) => self.ask_to_finish(now),
                None => {
                    self.soon = self.soon.saturating_mul(2);
                    self.renew(now);
                }
            }
        }
    }

    /// Takes a node's answer, or its silence at the time-out.
    pub fn answer(&mut self, node: usize, id: u32, answer: Answer, now: Instant) {
        // A claim that ended before this answer stays ended.
        self.look(now);
        let Some(asked) = self.ballot.answer(node, id, answer, now) else { return };
        if !self.is_held() {
            return;
        }
        self.look(now);
        if !self.is_held() || self.finishes.is_some() {
            return self.plan_finish(now);
        }
        self.ballot.settle(&mut self.out, now);
        match answer {
            // The lease is gone at this node, and a majority still has it: asks for it again.
            Answer::Gone => self.ballot.renew_at(&mut self.out, node, now),
            Answer::TooLong(_) | Answer::Refused(Obstacle::NotDurable)
                if self.renews || self.is_short() =>
            {
                self.ballot.ask_for_less(&mut self.out, node, asked.ttl, now);
            }
            // The grant may be of a shorter lease.
            Answer::Granted(_) | Answer::Extended => {
                self.ballot.confirm(&mut self.out, node, now);
                self.ballot.ask_doubtful(&mut self.out, now);
            }
            Answer::Done(record) => self.ballot.pass_over_earlier(&mut self.out, node, record, now),
            Answer::Denied if self.hands_on.is_some() && !asked.ask.blocks() => {
                self.complete(node, now);
            }
            // The node forgot the lease, and then granted it to another client. That client releases its grant
            // after a while. At the gate the clients that waited before have their turn first.
            Answer::Denied if self.is_own(id) && self.hands_on.is_none() => {
                self.ballot.wait_behind(&mut self.out, node, now);
            }
            _ => {}
        }
    }

    /// True if the hold has sent this request; earlier ones are the acquisition's.
    fn is_own(&self, id: u32) -> bool {
        id >= self.first
    }

    /// Notes when the request with this id was sent; its answer comes next.
    pub fn sent(&mut self, node: usize, id: u32, at: Instant) {
        self.ballot.sent(node, id, at);
    }

    /// Renews now, with a lease of `ttl` if that is longer. One extension at a time: the caller calls this again
    /// when [`extended`](Self::extended) has returned the outcome.
    pub fn extend(&mut self, ttl: Millis, now: Instant) {
        self.soon = SOON;
        self.look(now);
        if self.is_held() && self.finishes.is_none() {
            self.ballot.extend(ttl, now);
            self.renew_at.get_or_insert(now);
            self.renew(now);
        }
    }

    /// The outcome of the extension, once: granted by a majority; or the longest lease that all nodes accept, and
    /// the lock is held as before.
    pub fn extended(&mut self) -> Option<Result<(), Millis>> {
        self.ballot.extended()
    }

    /// Prepares to hand the lock on: it must be at all nodes, though its former client releases later at some.
    /// The requests wait there for `wait`.
    pub fn hand_on(&mut self, wait: Millis, now: Instant) {
        self.hands_on = Some(wait);
        self.look(now);
        if self.is_held() {
            for node in 0..self.ballot.nodes() {
                self.ballot.confirm(&mut self.out, node, now);
                self.complete(node, now);
            }
        }
    }

    fn complete(&mut self, node: usize, now: Instant) {
        if let Some(wait) = self.hands_on {
            let wait = Wait { blocks: Some(wait), keep: None, turn: false };
            self.ballot.wait_where_denied(&mut self.out, node, wait, now);
        }
    }

    /// True if nothing is under way: each node has certainly granted the lease, or will not.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ballot.is_settled()
    }

    /// Stops renewing by itself, once a majority has granted the lease at its full length.
    pub fn stop_renewing(&mut self) {
        self.renews = false;
        if !self.is_short() {
            self.renew_at = None;
        }
    }

    /// True if the grants are shorter than the lease, or older than a caller wants.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.ballot.is_short()
    }

    /// Ends the hold at `limit`, renewed or not.
    pub fn limit(&mut self, limit: Instant) {
        self.limit = Some(limit);
        if let State::Held(claim) = self.state {
            self.state = State::Held(self.within_limit(claim));
        }
    }

    /// Notes that another server has taken the node's place.
    pub fn cut_off(&mut self, node: usize, now: Instant) {
        self.ballot.cut_off(node, now);
        self.look(now);
        if self.is_held() && self.finishes.is_none() {
            self.ballot.renew_at(&mut self.out, node, now);
        }
    }

    /// Notes that the connection to a node is back: asks at once if the node still grants.
    pub fn is_back(&mut self, node: usize, now: Instant) {
        self.look(now);
        if self.finishes.is_some() {
            self.ask_to_finish(now);
        } else if self.is_held() && self.renew_at.is_some() {
            self.ballot.renew_at(&mut self.out, node, now);
        }
    }

    /// Releases the lock at all nodes, held or lost.
    pub fn release(&mut self) {
        self.ballot.withdraw(&mut self.out);
        if self.is_held() {
            self.state = State::Lost(LossReason::Released);
        }
    }

    /// Finishes the lock with DONE for this long. The nodes are asked again and again until a majority
    /// confirms: then the lock is [`LossReason::Done`]. It is no longer renewed, so this ends with its lease.
    pub fn finish(&mut self, length: Millis, now: Instant) {
        self.look(now);
        self.finishes = Some(now.plus(length));
        self.ask_to_finish(now);
    }

    fn ask_to_finish(&mut self, now: Instant) {
        if let Some(end) = self.finishes.filter(|_| self.is_held()) {
            // Zero would be a plain RELEASE.
            let length = Millis(end.since(now).div_ceil(1000).max(1));
            self.ballot.finish(&mut self.out, length, now);
            self.look(now);
            self.plan_finish(now);
        }
    }

    fn plan_finish(&mut self, now: Instant) {
        let State::Held(claim) = self.state else { return };
        let pause = (claim.until.since(now) / FINISHES).max(SOON);
        self.renew_at = Some(Instant(now.0.saturating_add(pause)));
    }

    fn is_held(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    fn within_limit(&self, claim: Claim) -> Claim {
        let until = self.limit.map_or(claim.until, |limit| limit.min(claim.until));
        Claim { until, ..claim }
    }

    fn renew(&mut self, now: Instant) {
        self.plan_renewal(now);
        self.ballot.renew(&mut self.out, now);
    }

    fn plan_first_renewal(&mut self, now: Instant) {
        self.valid = self.ballot.claim().map_or(0, |claim| claim.until.since(now));
        self.plan_renewal(now);
    }

    fn plan_renewal(&mut self, now: Instant) {
        let Some(claim) = self.ballot.claim() else { return };
        let mut pause = self.ballot.rules.pause(claim.until.since(now), self.valid);
        if self.is_short() {
            pause = pause.min(self.soon);
        } else if !self.renews {
            self.renew_at = None;
        }
        self.renew_at = self.renew_at.map(|_| Instant(now.0.saturating_add(pause)));
    }

    /// Updates the state: held only while a majority still supports the claim.
    fn look(&mut self, now: Instant) {
        let State::Held(before) = self.state else { return };
        self.state = match self.ballot.claim() {
            _ if self.limit.is_some_and(|limit| now >= limit) => State::Lost(LossReason::Limit),
            // The claim ends with the record that it asked for, and so does the time for which the lock is done.
            _ if now >= before.until && self.ballot.is_record_over(now) => {
                State::Lost(LossReason::Released)
            }
            // A claim that ended before an answer came stays ended.
            _ if now >= before.until => State::Lost(LossReason::NotRenewed),
            Some(_) if self.finishes.is_some() && self.ballot.is_finished() => {
                State::Lost(LossReason::Done)
            }
            Some(_) if self.finishes.is_some() && !self.ballot.can_finish() => {
                State::Lost(LossReason::NotDone)
            }
            None => State::Lost(LossReason::Ended),
            Some(claim) => State::Held(self.within_limit(claim)),
        };
        let State::Held(after) = self.state else { return };
        let due = self.renew_at;
        let has_ended = self.ballot.note_extended();
        if self.finishes.is_some() {
            return;
        }
        if has_ended || after.until != before.until {
            self.plan_first_renewal(now);
        }
        // The claim ends earlier than it did when the renewal was planned.
        if after.until < before.until {
            self.renew_at = self.renew_at.min(due);
        }
    }
}

/// A lease that is too short is renewed after this many µs, then after twice as many each time: by then short
/// work is done, and needs no renewal.
const SOON: u64 = 20_000;
/// The pause before the next requests with DONE is the claim's rest, divided by this.
const FINISHES: u64 = 12;
