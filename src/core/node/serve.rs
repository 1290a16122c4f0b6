//! Hand-over to the next waiters, and waiters that leave before.

use super::Node;
use super::acquire::speaks;
use crate::lock::queue::{Queue, Waiter};
use crate::lock::{Found, Grant};
use crate::node::host::{Answers, Host, WaitOutcome};
use crate::reason::Reason;
use crate::words::{ClientId, Fence, Instant, Key, Lease, Millis, Time, WaiterId};

impl Node {
    /// Grants the lock to its first waiters, as many as it admits. The grants are made here and now; answers
    /// only report them, so no other request can come in between.
    ///
    /// Of very many readers a part is served at once, and the rest in the next iterations of the event loop.
    /// Until then no command serves this queue: otherwise thousands of new readers that release one after the
    /// other would each let in as many again, in one iteration.
    pub(super) fn serve<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) {
        if self.waiting.queue(key).is_some_and(|queue| !queue.enters) {
            self.serve_some(host, key, time, SERVED_AT_ONCE);
        }
    }

    /// Serves the first waiters, at most `most`. Returns the number that have left the queue.
    pub(super) fn serve_some<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        time: Time,
        most: usize,
    ) -> usize {
        let mut served = 0;
        while served < most {
            if !self.serve_next(host, key, time) {
                return served;
            }
            served += 1;
        }
        self.waiting.change_queue(key, |queue| queue.enters = true);
        self.waiting.serve_later(key);
        served
    }

    /// Serves the first waiter. False: there is none, or its turn has not come.
    fn serve_next<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) -> bool {
        if self.is_following() || self.durable.quarantine_left(time.now).is_some() {
            return false;
        }
        let Some(first) = self.waiting.queue(key).and_then(Queue::first) else { return false };
        if let Some(end) = first.place_ends() {
            let clock = &self.waiting.places.clock;
            if clock.is_over(end) {
                self.waiting.pop(key);
                return true;
            }
            // Its client's request may be unread. The next iteration of the event loop decides if it is served.
            if end.is_over(clock.at(time.now)) {
                self.waiting.watch(key, Millis(1), time);
                return false;
            }
        }
        let found = host.find(key);
        if let Found::Foreign { left, .. } = found {
            self.waiting.watch_foreign(key, left, self.is_deaf, time);
            self.tell_turns(host, key, Fence(0), time);
            return false;
        }
        if let Found::Done { done, left } = found {
            let reason = Reason::Done { left, fence: done.fence };
            self.dismiss(host, key, WaitOutcome::Refused(reason), time.now);
            return false;
        }
        if matches!(found, Found::WrongType) {
            self.dismiss(host, key, WaitOutcome::Removed, time.now);
            return false;
        }
        let (queue, shut) = (self.waiting.queue(key), self.shut_until(key, time.now));
        if shut.is_some() || !Queue::is_next(queue, &first.token, first.asks.mode, &found) {
            let top = found.top();
            if let Some(end) = shut {
                self.waiting.watch_at(key, end);
            }
            // After its answer a waiter asks other nodes, where the holder may not have asked yet.
            if !found.is_held_by_absent() {
                self.tell_turns(host, key, top, time);
            }
            return false;
        }
        self.durable.counter.learn(key.name, found.top(), false);
        let served = self.serve_first(host, key, time);
        if !served {
            self.waiting.for_file = true;
        }
        served
    }

    /// Answers waiters with TURN that are next. Each is away from then on, or continues to wait if its place
    /// cannot be kept.
    fn tell_turns<A: Answers>(&mut self, host: &mut A, key: Key<'_>, top: Fence, time: Time) {
        while let Some(next) = self.waiting.queue(key).and_then(Queue::next_turn) {
            let (id, token) = (next.id, next.token.clone());
            if self.keep_place(key, &token, time.now) {
                let used = self.durable.counter.used(key.name);
                host.answer(id, WaitOutcome::Turn(used.max(top)));
            } else {
                self.waiting.change_queue(key, |queue| queue.forget_turn(&token));
            }
        }
    }

    /// Grants to the first waiter, which may be away. False: not now.
    fn serve_first<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) -> bool {
        let Some(first) = self.waiting.queue(key).and_then(Queue::first) else { return true };
        let (proposal, ttl, owner) = (first.asks.proposal, first.asks.ttl, first.owner);
        // `dlock.max-ttl` may be lower than when the request came.
        let fence = self.check_ttl(ttl);
        let fence =
            fence.and_then(|()| self.next_fence(host, key, (proposal, ttl), Some(owner), time));
        if fence == Err(Reason::NotDurable) {
            return false;
        }
        self.charge(key, time.now);
        let Some(waiter) = self.waiting.pop(key) else { return true };
        let present = waiter.is_present();
        let fence = match fence {
            Ok(fence) => fence,
            Err(reason) => {
                if present {
                    host.answer(waiter.id, WaitOutcome::Refused(reason));
                }
                return true;
            }
        };
        let asks = &waiter.asks;
        let is_back = present && !asks.wants_turn;
        let (client, ephemeral) = speaks(asks.client, asks.ephemeral, is_back);
        let lease = Lease::begin(time.now, ttl);
        let (token, meta) = (&*waiter.token, &*asks.meta);
        let grant = Grant { token, fence, lease, client, ephemeral, meta };
        let waited = Some(time.now.since(waiter.since));
        self.grant(host, key, asks.mode, grant, waited);
        if present {
            host.answer(waiter.id, WaitOutcome::Granted(fence));
        }
        true
    }

    /// Handles a blocked client that waits no longer: it has [closed](Self::closed), or an operator has unblocked it. A
    /// queued request leaves, or its place is kept. A grant stays: the connection may ask again at any moment.
    pub fn gone(&mut self, id: WaiterId, now: Instant) {
        if self.waiting.standing(id).is_some() {
            self.depart(id, now);
        } else {
            // The waiter was dismissed, and needs no answer.
            self.waiting.stands.remove(&id);
        }
    }

    /// Dismisses all waiters at the key with the same answer, the first few at once, and the rest in the next
    /// iterations. Places of tokens that are away end without an answer.
    pub(super) fn dismiss<A: Answers>(
        &mut self,
        host: &mut A,
        key: Key<'_>,
        answer: WaitOutcome,
        now: Instant,
    ) {
        self.charge(key, now);
        let Some(mut queue) = self.waiting.take_queue(key) else { return };
        self.tell_some(host, (&mut queue, answer), TOLD_AT_ONCE);
        if !queue.is_empty() {
            self.dismissed.push_back((queue, answer));
        }
    }

    /// Answers dismissed waiters, at most `most`. Returns the rest of the budget.
    pub(super) fn tell_dismissed<A: Answers>(&mut self, host: &mut A, most: usize) -> usize {
        let mut left = most;
        while left > 0
            && let Some((mut queue, answer)) = self.dismissed.pop_front()
        {
            left = self.tell_some(host, (&mut queue, answer), left);
            if !queue.is_empty() {
                self.dismissed.push_front((queue, answer));
            }
        }
        left
    }

    fn tell_some<A: Answers>(
        &mut self,
        host: &mut A,
        (queue, answer): (&mut Queue, WaitOutcome),
        most: usize,
    ) -> usize {
        let key = queue.key();
        let mut left = most;
        while left > 0
            && let Some(waiter) = queue.pop()
        {
            left -= 1;
            // A client that is gone gets no answer.
            let waits = waiter.is_present() && self.waiting.stands.contains_key(&waiter.id);
            self.waiting.unlist(key.as_key(), &waiter);
            if waits {
                host.answer(waiter.id, answer);
            }
        }
        left
    }

    /// Removes the waiter with this token from the queue.
    pub(super) fn take_out(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> Option<Waiter> {
        self.charge(key, now);
        self.waiting.remove(key, token)
    }

    /// Removes the waiter with this token while no grant is possible: if it was the first, the next is served
    /// later.
    pub(super) fn leave_later(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        now: Instant,
    ) -> Option<Waiter> {
        let first = self.waiting.queue(key).and_then(Queue::first).map(|first| first.id);
        let waiter = self.take_out(key, token, now)?;
        if first == Some(waiter.id) || self.waiting.queue(key).is_some_and(Queue::has_turns) {
            self.waiting.serve_later(key);
        }
        Some(waiter)
    }

    pub(super) fn unmark_ephemeral(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        client: ClientId,
        ephemeral: bool,
    ) {
        if ephemeral && client != ClientId::UNKNOWN {
            self.ephemeral.remove(key, token, client);
        }
    }
}

/// The largest number of waiters that one command serves, and that it answers at once when the lock was
/// removed. A grant and its reply take the server about ten microseconds.
const SERVED_AT_ONCE: usize = 64;
const TOLD_AT_ONCE: usize = 16;
