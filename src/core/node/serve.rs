//! Hand-over: who gets a lock that has become free, and waiters that leave before.

use super::acquire::speaks;
use super::places::Left;
use super::put_off::Undo;
use super::sweep::AT_ONCE;
use super::{Node, Place};
use crate::command::Refusal;
use crate::fence::Slot;
use crate::host::{Answers, Ending, Host, WaitOutcome};
use crate::lock::{Found, Grant};
use crate::queue::{Queue, Waiter};
use crate::seen::slow::What;
use crate::words::{ClientId, Deadline, Fence, Instant, Key, Lease, Millis, Time, WaiterId};

impl Node {
    /// Grants the lock to its first waiters, as many as it admits. The grants are made here and
    /// now; the answers only report them, so nobody can slip in between.
    ///
    /// Of very many readers a part is served at once, and the others in the next turns.
    pub(super) fn serve<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) {
        if self.following || self.kept_back(key, time.now).is_some() {
            return;
        }
        let mut served = 0;
        while let Some(first) = self.queue(key).and_then(Queue::first) {
            if served == AT_ONCE {
                return self.put_off.serve(key.to_owned());
            }
            served += 1;
            match first.place_ends().map(|end| self.places.left(end, time.now)) {
                Some(Left::Nothing) => {
                    self.pop(key);
                    continue;
                }
                // Whether it is served or ends is known at the next turn of the server.
                Some(Left::Unread) => return self.watch(key, Millis(1), time),
                Some(Left::Some(_)) | None => {}
            }
            let found = host.find(key);
            if let Found::Foreign { left, .. } = found {
                self.watch_foreign(key, left, time);
                return self.tell_turns(host, key, Fence(0), time);
            }
            if matches!(found, Found::WrongType) {
                self.dismiss(host, key, WaitOutcome::Removed);
                return;
            }
            let queue = self.queue(key);
            if !Queue::is_next(queue, &first.token, first.mode, &found) {
                let top = found.top();
                // Who is told now asks elsewhere, where the holder may not have asked yet.
                if !found.is_held_by_absent() {
                    self.tell_turns(host, key, top, time);
                }
                return;
            }
            self.counter.raise(Slot::of(key.name), found.top());
            if !self.serve_first(host, key, time) {
                // Until the state file can be written.
                self.unvouched.insert(key.to_owned());
                return;
            }
        }
    }

    /// Answers waiters whose turn is next, if they asked with TURN. Each of them is away from then on;
    /// where its place cannot be kept, it waits on instead.
    fn tell_turns<A: Answers>(&mut self, host: &mut A, key: Key<'_>, top: Fence, time: Time) {
        while let Some(next) = self.queue(key).and_then(Queue::next_turn) {
            let (id, token) = (next.id, next.token.clone());
            if self.keep_place(key, &token, time.now) {
                let used = self.counter.used(Slot::of(key.name));
                host.answer(id, WaitOutcome::Turn(used.max(top)));
            } else {
                self.change_queue(key, |queue| queue.forget_turn(&token));
            }
        }
    }

    /// Grants to the first waiter. False: not now. One that is away has a lease for as long as its
    /// place would be kept, and its next request makes an ordinary one of it.
    fn serve_first<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) -> bool {
        let Some(first) = self.queue(key).and_then(Queue::first) else { return true };
        let left = first.place_ends().map(|end| end.left(self.places.pace.at(time.now)));
        let ends = [Some(first.ttl), left, first.keep.filter(|_| left.is_some())];
        let ttl = ends.into_iter().flatten().min().unwrap_or(first.ttl);
        let (proposal, owner) = (first.proposal, first.owner);
        let fence = self.next_fence(host, key, (proposal, ttl), Some(owner), time);
        if fence == Err(Refusal::NotDurable) {
            return false;
        }
        self.charge(key, time.now);
        let holder = self.waited_for(key);
        let Some(waiter) = self.pop(key) else { return true };
        let present = waiter.is_present();
        let fence = match fence {
            Ok(fence) => fence,
            Err(refusal) => {
                if present {
                    host.answer(waiter.id, no(&refusal));
                }
                return true;
            }
        };
        let is_back = present && !waiter.wants_turn;
        let (client, ephemeral) = speaks(waiter.client, waiter.ephemeral, is_back);
        let lease = Lease::begin(time.now, ttl);
        let (token, meta) = (&*waiter.token, &*waiter.meta);
        let grant = Grant { token, fence, lease, client, ephemeral, meta };
        let waited = Some(time.now.since(waiter.since));
        self.grant(host, key, waiter.mode, grant, waited);
        self.note_wait(What::Wait, key, &waiter, holder, time.now);
        if present {
            let place = Place::of(key, token, client);
            self.granted.insert(waiter.id, (place, waiter.keep));
            host.answer(waiter.id, WaitOutcome::Granted(fence));
        }
        true
    }

    /// A waiter has got its answer: its grant is its own business from now on.
    pub fn delivered(&mut self, id: WaiterId) {
        self.granted.remove(&id);
    }

    /// A blocked client is gone. A queued request leaves, or its place is kept. A grant of which the
    /// client was not told ends, or becomes as short as its place would be kept, as soon as that can be
    /// written.
    pub fn gone(&mut self, id: WaiterId, now: Instant) {
        if let Some((place, keep)) = self.granted.remove(&id) {
            // A follower takes nothing back: the lease runs out where it is led from now on.
            if !self.following {
                let undo = keep.map_or(Undo::End(Ending::Undelivered), Undo::Cut);
                self.put_off.undo(place, undo);
            }
        } else {
            self.depart(id, now);
        }
    }

    /// All waiters at the key leave with the same answer. Places of tokens that are away end without
    /// an answer.
    pub(super) fn dismiss<A: Answers>(&mut self, host: &mut A, key: Key<'_>, answer: WaitOutcome) {
        while let Some(waiter) = self.pop(key) {
            if waiter.is_present() {
                host.answer(waiter.id, answer);
            }
        }
    }

    /// The waiter with this token leaves without the lock. If it was the first, the next may be
    /// grantable, and the caller sees to it.
    pub(super) fn leave(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> Option<Waiter> {
        let holder = self.waited_for(key);
        let waiter = self.take_out(key, token, now)?;
        self.note_wait(What::WaitInVain, key, &waiter, holder, now);
        Some(waiter)
    }

    /// The waiter with this token is in the queue no more.
    pub(super) fn take_out(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> Option<Waiter> {
        self.charge(key, now);
        let waiter = self.change_queue(key, |queue| queue.leave(token))??;
        self.unlist(key, &waiter);
        Some(waiter)
    }

    /// The waiter with this token leaves, while nothing may be granted: if it was the first, the next
    /// is looked at later.
    pub(super) fn leave_later(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        now: Instant,
    ) -> Option<Waiter> {
        let first = self.queue(key).and_then(Queue::first).map(|first| first.id);
        let waiter = self.leave(key, token, now)?;
        if first == Some(waiter.id) || self.queue(key).is_some_and(Queue::has_turns) {
            self.put_off.serve(key.to_owned());
        }
        Some(waiter)
    }

    /// A foreign lock with waiters: its string has to be looked at again when it expires.
    pub(super) fn watch_foreign(&mut self, key: Key<'_>, left: Option<Millis>, time: Time) {
        // For places alone it is not polled: a client that comes back looks for itself.
        let waited_for = self.queue(key).is_some_and(Queue::has_present);
        let look = (self.is_deaf && waited_for).then(|| self.watched.pause());
        if let Some(next) = left.into_iter().chain(look).min() {
            self.watch(key, next, time);
        }
    }

    /// Looks at the lock again after a while, if anybody waits for it.
    pub(super) fn watch(&mut self, key: Key<'_>, after: Millis, time: Time) {
        if self.queue(key).is_some() {
            self.watched.add(Deadline::after(time.now, after), key.to_owned());
        }
    }

    /// The waiter is in no queue any more.
    pub(super) fn unlist(&mut self, key: Key<'_>, waiter: &Waiter) {
        self.waiting.remove(&waiter.id);
        match waiter.until {
            Some(end) if waiter.is_away => self.places.give_back(key, waiter, end),
            Some(end) => drop(self.waits.remove(&(end, waiter.id))),
            None => {}
        }
    }

    pub(super) fn unmark_ephemeral(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        client: ClientId,
        ephemeral: bool,
    ) {
        if !ephemeral || client == ClientId::UNKNOWN {
            return;
        }
        if let Some(places) = self.ephemeral.get_mut(&client) {
            places.remove(&Place::of(key, token, client));
            if places.is_empty() {
                self.ephemeral.remove(&client);
            }
        }
    }

    /// The holder asks again: its old connection no longer speaks for the grant.
    pub(super) fn forget_ephemeral<H: Host>(&mut self, host: &mut H, key: Key<'_>, token: &[u8]) {
        if self.ephemeral.is_empty() {
            return;
        }
        let old = host.find(key).grant(token).map(|grant| (grant.client, grant.ephemeral));
        if let Some((client, ephemeral)) = old {
            self.unmark_ephemeral(key, token, client, ephemeral);
        }
    }

    fn pop(&mut self, key: Key<'_>) -> Option<Waiter> {
        let waiter = self.change_queue(key, Queue::pop)??;
        self.unlist(key, &waiter);
        Some(waiter)
    }

    /// Changes a queue, and forgets it once it is empty.
    pub(super) fn change_queue<T>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut Queue) -> T,
    ) -> Option<T> {
        let names = self.queues.get_mut(&key.db)?;
        let queue = names.get_mut(key.name)?;
        let result = change(queue);
        if queue.is_empty() {
            self.watched.remove(key);
            names.remove(key.name);
            if names.is_empty() {
                self.queues.remove(&key.db);
            }
        }
        Some(result)
    }
}

/// What a waiter is told whose turn has come in vain.
fn no(refusal: &Refusal<'_>) -> WaitOutcome {
    match *refusal {
        Refusal::TooManyLong { usual } => WaitOutcome::TooManyLong { usual },
        _ => WaitOutcome::Exhausted,
    }
}
