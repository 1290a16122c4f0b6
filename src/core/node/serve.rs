//! Hand-over: who gets a lock that has become free, and waiters that leave before.

use alloc::vec::Vec;

use super::sweep::AT_ONCE;
use super::{Node, Place};
use crate::command::Refusal;
use crate::fence::Slot;
use crate::host::{Answer, Answers, Host};
use crate::lock::{Found, Grant};
use crate::queue::{Queue, Waiter};
use crate::words::{ClientId, Deadline, Key, KeyBuf, Lease, Millis, Time, WaiterId};

impl Node {
    /// Grants the lock to its first waiters, as many as it admits. The grants are made here and
    /// now; the answers only report them, so nobody can slip in between.
    ///
    /// Of very many readers a part is served at once, and the others in the next turns.
    pub(super) fn serve<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) {
        if self.quarantine.is_some() {
            return;
        }
        let mut served = 0;
        while let Some(first) = self.queue(key).and_then(Queue::first) {
            if served == AT_ONCE {
                return self.serve_later(key.to_owned());
            }
            served += 1;
            let mode = first.mode;
            let found = host.find(key);
            if let Found::Foreign { left, .. } = found {
                self.watch_foreign(key, left, time);
                return;
            }
            if matches!(found, Found::WrongType) {
                self.dismiss(host, key, Answer::Removed);
                return;
            }
            if !found.admits(mode) {
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

    /// The first waiter may be grantable, and is looked at in the next turn.
    pub(super) fn serve_later(&mut self, key: KeyBuf) {
        if self.serving.insert(key.clone()) {
            self.to_serve.push_back(key);
        }
    }

    /// One that had to be looked at later.
    pub(super) fn pop_to_serve(&mut self) -> Option<KeyBuf> {
        let key = self.to_serve.pop_front()?;
        self.serving.remove(&key);
        Some(key)
    }

    /// Grants to the first waiter. False: not now.
    fn serve_first<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) -> bool {
        let Some(first) = self.queue(key).and_then(Queue::first) else { return true };
        let (proposal, ttl) = (first.proposal, first.ttl);
        let fence = self.next_fence(host, Slot::of(key.name), proposal, ttl, time);
        if fence == Err(Refusal::NotDurable) {
            return false;
        }
        let Some(waiter) = self.pop(key) else { return true };
        let Ok(fence) = fence else {
            host.answer(waiter.id, Answer::Exhausted);
            return true;
        };
        let grant = Grant {
            token: &waiter.token,
            fence,
            lease: Lease::begin(time.now, waiter.ttl),
            client: waiter.client,
            ephemeral: waiter.ephemeral,
            meta: &waiter.meta,
        };
        let waited = Some(time.now.since(waiter.since));
        self.grant(host, key, waiter.mode, grant, waited);
        self.granted.insert(waiter.id, Place::of(key, &waiter.token, waiter.client));
        host.answer(waiter.id, Answer::Granted(fence));
        true
    }

    /// A waiter has got its answer: its grant is its own business from now on.
    pub fn delivered(&mut self, id: WaiterId) {
        self.granted.remove(&id);
    }

    /// A waiter is gone, whatever it was doing. A queued one leaves; a grant it was never told
    /// of is taken back, as soon as that can be written.
    pub fn gone(&mut self, id: WaiterId) {
        if let Some(place) = self.granted.remove(&id) {
            // A follower takes nothing back: the lease runs out where it is led from now on.
            if !self.following {
                self.to_end.insert(place);
            }
        } else if let Some(place) = self.waiting.get(&id).cloned() {
            self.leave_later(&place);
        }
    }

    /// Everybody who waits at the key gets the same answer, and nothing else.
    pub(super) fn dismiss<A: Answers>(&mut self, host: &mut A, key: Key<'_>, answer: Answer) {
        while let Some(waiter) = self.pop(key) {
            host.answer(waiter.id, answer);
        }
    }

    /// The waiter with this token leaves. If it was the first, the next may be grantable, and
    /// the caller sees to it.
    pub(super) fn leave(&mut self, key: Key<'_>, token: &[u8]) -> Option<Waiter> {
        let waiter = self.change_queue(key, |queue| queue.leave(token))?;
        self.unlist(&waiter);
        Some(waiter)
    }

    /// A waiter leaves where nothing may be granted: if it was the first, the next is looked at
    /// later.
    pub(super) fn leave_later(&mut self, place: &Place) -> Option<Waiter> {
        let key = place.key.as_key();
        let first = self.queue(key).and_then(Queue::first).map(|first| first.id);
        let waiter = self.leave(key, &place.token)?;
        if first == Some(waiter.id) {
            self.serve_later(place.key.clone());
        }
        Some(waiter)
    }

    /// A foreign lock with waiters: its string has to be looked at again when it expires.
    pub(super) fn watch_foreign(&mut self, key: Key<'_>, left: Option<Millis>, time: Time) {
        let look = self.is_deaf.then(|| self.watched.pause());
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
    pub(super) fn unlist(&mut self, waiter: &Waiter) {
        self.waiting.remove(&waiter.id);
        if let Some(end) = waiter.until {
            self.waits.remove(&(end, waiter.id));
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

    /// The token is granted the lock, or asks again: what was to end is an earlier grant, or was
    /// not meant to end after all.
    pub(super) fn spare(&mut self, key: Key<'_>, token: &[u8]) {
        if self.to_end.is_empty() {
            return;
        }
        let of = |client| Place::of(key, token, ClientId(client));
        let places = self.to_end.range(of(0)..=of(u64::MAX));
        let places: Vec<Place> = places.cloned().collect();
        for place in places {
            self.to_end.remove(&place);
        }
    }

    fn pop(&mut self, key: Key<'_>) -> Option<Waiter> {
        let waiter = self.change_queue(key, Queue::pop)?;
        self.unlist(&waiter);
        Some(waiter)
    }

    /// Changes a queue, and forgets it once it is empty.
    fn change_queue<T>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut Queue) -> Option<T>,
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
        result
    }
}
