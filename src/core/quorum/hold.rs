//! A lock that is held: renewed, repaired, and lost the moment its validity ends.

use super::ballot::{Ballot, Outbox};
use super::rules::{Rules, Sound};
use super::{Answer, Claim, Obstacle, Send, Wait};
use crate::words::{Fence, Instant, Millis};

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold<R = Sound> {
    rules: R,
    ballot: Ballot<R>,
    out: Outbox,
    state: State,
    /// When the lease is to be renewed; `None`: never.
    renew_at: Option<Instant>,
    /// Whether it is renewed again and again, and not just until it has its length.
    renews: bool,
    /// For how long it was valid when that last changed, in µs.
    valid: u64,
    /// When it ends, renewed or not.
    limit: Option<Instant>,
    /// It is to be handed on: for so long it waits at nodes that somebody else has not given back yet.
    hands_on: Option<Millis>,
}

/// Whether it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It is, before the claim's end.
    Held(Claim),
    /// It is not, and will not be again.
    Lost(LossReason),
}

/// Why a lock is held no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// Its time ran out, and no majority had renewed it.
    NotRenewed,
    /// Nodes say that the lease is gone, and no majority is left, or may not have been at some moment.
    Ended,
    /// It was held for as long as it may be.
    Limit,
    /// It was given back.
    Released,
}

impl<R: Rules> Hold<R> {
    pub(super) fn new(rules: R, mut ballot: Ballot<R>, out: Outbox, now: Instant) -> Hold<R> {
        ballot.stand();
        let state = ballot.claim().map_or(State::Lost(LossReason::NotRenewed), State::Held);
        let mut hold = Hold {
            rules,
            ballot,
            out,
            state,
            renew_at: Some(now),
            renews: true,
            valid: 0,
            limit: None,
            hands_on: None,
        };
        hold.plan_first_renewal(now);
        hold
    }

    /// The next request to send. To be called after every event until there is none.
    pub fn poll(&mut self) -> Option<Send> {
        self.out.pop()
    }

    /// How it stood at the last event. A claim ends by itself: compare its end with the time.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The fence. The same as long as the lock is held.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.ballot.fence()
    }

    /// The attempt whose token holds.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.ballot.attempt()
    }

    /// The lease.
    #[must_use]
    pub fn ttl(&self) -> Millis {
        self.ballot.ttl()
    }

    /// When to [`tick`](Self::tick).
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let State::Held(claim) = self.state else { return None };
        [Some(claim.until), self.renew_at, self.limit].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        self.look(now);
        if self.is_held() && self.renew_at.is_some_and(|at| now >= at) {
            self.renew(now);
        }
    }

    /// A node has answered a request, or not in time.
    pub fn answer(&mut self, node: usize, id: u32, answer: Answer, now: Instant) {
        let Some(asked) = self.ballot.answer(node, id, answer, now) else { return };
        if !self.is_held() {
            return;
        }
        self.look(now);
        if !self.is_held() {
            return;
        }
        self.ballot.settle(&mut self.out, now);
        match answer {
            // The lease is gone there, and a majority still has it: takes it again.
            Answer::Gone => self.ballot.renew_at(&mut self.out, node, now),
            // It may have waited, or been asked for a shorter lease.
            Answer::Granted(_) | Answer::Extended => {
                self.ballot.confirm(&mut self.out, node, now);
                self.ballot.ask_doubtful(&mut self.out, now);
            }
            Answer::Denied => self.complete(now),
            // A longer lease than the node grants: it goes on with the one that it does.
            Answer::Refused(Obstacle::Never) => self.ballot.make_do(&mut self.out, asked, now),
            _ => {}
        }
    }

    /// A request was sent once more, because nobody had answered the first one. To be told before the answer.
    pub fn sent_again(&mut self, node: usize, id: u32) {
        self.ballot.sent_again(node, id);
    }

    /// Renews now, with a lease of `ttl` if that is longer. When it has worked,
    /// [`is_renewed`](Self::is_renewed); if so many nodes refuse it that no majority is left,
    /// [`ttl`](Self::ttl) is what it was.
    pub fn extend(&mut self, ttl: Millis, now: Instant) {
        self.ballot.want(ttl.max(self.ttl()), now);
        if self.is_held() {
            self.renew_at.get_or_insert(now);
            self.renew(now);
        }
    }

    /// Whether a majority has granted a lease of this length, asked for at this moment or later.
    #[must_use]
    pub fn is_renewed(&self, ttl: Millis, since: Instant) -> bool {
        self.ballot.is_renewed(ttl, since)
    }

    /// From now on somebody else minds it: it shall be at all nodes, though the one who had it before gives
    /// it back later at some. So long that is waited for.
    pub fn hand_on(&mut self, wait: Millis, now: Instant) {
        self.hands_on = Some(wait);
        if self.is_held() {
            self.ballot.lengthen(&mut self.out, now);
        }
        self.complete(now);
    }

    fn complete(&mut self, now: Instant) {
        if let Some(wait) = self.hands_on.filter(|_| self.is_held()) {
            let wait = Wait { blocks: Some(wait), keep: None, turn: false };
            self.ballot.wait_where_denied(&mut self.out, wait, now);
        }
    }

    /// Whether each node has it for certain by now, or will not: nothing is under way.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ballot.is_settled()
    }

    /// Renews no more by itself, once a majority has granted the lease at its full length.
    pub fn stop_renewing(&mut self) {
        self.renews = false;
        if !self.is_short() {
            self.renew_at = None;
        }
    }

    /// What was granted while it waited is shorter than the lease, or older than the one that is wanted, where
    /// no later renewal would mend that.
    fn is_short(&self) -> bool {
        let since = if self.renews { Instant(0) } else { self.ballot.wanted_at };
        !self.ballot.is_renewed(self.ttl(), since)
    }

    /// Ends the hold at `limit`, renewed or not.
    pub fn limit(&mut self, limit: Instant) {
        self.limit = Some(limit);
        if let State::Held(claim) = self.state {
            self.state = State::Held(self.within_limit(claim));
        }
    }

    /// The connection is gone with which the node's grant ends: it was EPHEMERAL.
    pub fn cut_off(&mut self, node: usize, now: Instant) {
        self.ballot.cut_off(node, now);
        self.look(now);
        if self.is_held() {
            self.ballot.renew_at(&mut self.out, node, now);
        }
    }

    /// The connection to a node is back: what it holds by now is worth knowing at once.
    pub fn is_back(&mut self, node: usize, now: Instant) {
        self.look(now);
        if self.is_held() && self.renew_at.is_some() {
            self.ballot.renew_at(&mut self.out, node, now);
        }
    }

    /// Gives the lock back at all nodes, whether it is held or lost.
    pub fn release(&mut self) {
        self.ballot.withdraw(&mut self.out);
        if self.is_held() {
            self.state = State::Lost(LossReason::Released);
        }
    }

    fn is_held(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    fn within_limit(&self, claim: Claim) -> Claim {
        let until = self.limit.map_or(claim.until, |limit| limit.min(claim.until));
        Claim { until, ..claim }
    }

    fn renew(&mut self, now: Instant) {
        self.ballot.renew(&mut self.out, now);
        self.plan_renewal(now);
    }

    fn plan_first_renewal(&mut self, now: Instant) {
        self.valid = self.ballot.claim().map_or(0, |claim| claim.until.since(now));
        self.plan_renewal(now);
    }

    fn plan_renewal(&mut self, now: Instant) {
        let Some(claim) = self.ballot.claim() else { return };
        let mut pause = self.rules.pause(claim.until.since(now), self.valid);
        if self.is_short() {
            pause = pause.min(SOON);
        } else if !self.renews {
            self.renew_at = None;
        }
        self.renew_at = self.renew_at.map(|_| Instant(now.0.saturating_add(pause)));
    }

    /// Whether a majority still vouches for it.
    fn look(&mut self, now: Instant) {
        let State::Held(before) = self.state else { return };
        self.state = match self.ballot.claim() {
            _ if self.limit.is_some_and(|limit| now >= limit) => State::Lost(LossReason::Limit),
            // What ended before an answer came has ended.
            _ if now >= before.until => State::Lost(LossReason::NotRenewed),
            None => State::Lost(LossReason::Ended),
            Some(claim) => State::Held(self.within_limit(claim)),
        };
        let State::Held(after) = self.state else { return };
        let due = self.renew_at;
        if after.until != before.until {
            self.ballot.learn_length();
            self.plan_first_renewal(now);
        }
        // It ends earlier than it did when the renewal was planned.
        if after.until < before.until {
            self.renew_at = self.renew_at.min(due);
        }
    }
}

/// A lease that is shorter than it should be is renewed after so many µs: short work is done by then,
/// and needs no renewal.
const SOON: u64 = 20_000;
