//! The waiters of this node: the queues, and the places of waiters that are away.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::places::Places;
use super::rechecks::Rechecks;
use crate::lock::queue::{Presence, Queue, Waiter};
use crate::node::shares::Shares;
use crate::words::{Deadline, Instant, Key, KeyBuf, Millis, Time, WaiterId};

/// All waiters.
#[derive(Debug, Default)]
pub struct Waiting {
    /// The queues, by database and key. Empty ones are removed.
    pub(super) queues: BTreeMap<u32, Queues>,
    /// The position of each waiter, present or away.
    pub(super) stands: BTreeMap<WaiterId, InQueue>,
    /// The number of waiting requests of each user.
    pub(super) shares: Shares,
    /// The ends of waits.
    pub(super) ends: BTreeSet<(Deadline, WaiterId)>,
    /// The places of waiters that are away.
    pub(super) places: Places,
    /// Locks that must be checked again for their waiters.
    pub(super) rechecks: Rechecks,
    /// True if some lock's first waiter also waits for the state file. On a full disk, a list of these locks
    /// would grow with every contended key.
    pub(super) for_file: bool,
    pub(super) next_id: u64,
}

/// The queues of a database, by key.
pub(super) type Queues = BTreeMap<Box<[u8]>, Queue>;

/// A waiter's queue and token. There may be very many, so the key is shared with the queue, and the token with
/// the waiter.
#[derive(Clone, Debug)]
pub(super) struct InQueue {
    key: Arc<KeyBuf>,
    pub token: Arc<[u8]>,
}

impl InQueue {
    pub fn key(&self) -> Key<'_> {
        self.key.as_key()
    }
}

impl Waiting {
    /// The number of waiting requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        usize::try_from(self.shares.taken()).unwrap_or(usize::MAX)
    }

    /// The number of places of tokens that are away.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The number of requests with KEEP that left no place, for lack of room.
    #[must_use]
    pub fn places_refused(&self) -> u64 {
        self.places.refused
    }

    /// The queue at the key.
    #[must_use]
    pub fn queue(&self, key: Key<'_>) -> Option<&Queue> {
        // Most servers have no waiter most of the time.
        if self.queues.is_empty() {
            return None;
        }
        self.queues.get(&key.db).and_then(|names| names.get(key.name))
    }

    /// The waiter at the key with this token.
    pub(super) fn waiter(&self, key: Key<'_>, token: &[u8]) -> Option<&Waiter> {
        self.queue(key)?.get(token)
    }

    /// All keys with a queue.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let keys =
            self.queues.iter().flat_map(|(db, names)| names.keys().map(move |name| (*db, name)));
        keys.map(|(db, name)| Key { db, name })
    }

    /// Time left of a waiter's wait, or of its place. `None`: no end.
    #[must_use]
    pub fn left(&self, waiter: &Waiter, now: Instant) -> Option<Millis> {
        match waiter.presence {
            Presence::Waiting { until } => until.map(|end| end.left(now)),
            Presence::Away { ends } => Some(ends.left(self.places.clock.at(now))),
        }
    }

    /// Time of the next thing to do.
    pub(super) fn next_wake(&self) -> Option<Deadline> {
        let gives_up = self.ends.first().map(|(end, _)| *end);
        super::earlier(super::earlier(gives_up, self.places.next_end()), self.rechecks.first())
    }

    /// A handle for a new request.
    pub(super) fn new_id(&mut self) -> WaiterId {
        self.next_id += 1;
        WaiterId(self.next_id - 1)
    }

    /// Puts a request into the queue at its key: at the end, or at its token's place. Returns the request
    /// that was there. `new`: the queue, if there is none yet.
    pub(super) fn join(
        &mut self,
        key: Key<'_>,
        waiter: Waiter,
        new: Option<Queue>,
    ) -> Option<Waiter> {
        let id = waiter.id;
        self.shares.add(waiter.owner, 1);
        self.ends.extend(waiter.gives_up().map(|end| (end, id)));
        let names = self.queues.entry(key.db).or_default();
        if let Some(new) = new {
            names.insert(key.name.into(), new);
        }
        let queue = names.get_mut(key.name)?;
        self.stands.insert(id, InQueue { key: queue.key(), token: waiter.token.clone() });
        let old = queue.join(waiter)?;
        self.unlist(key, &old);
        Some(old)
    }

    /// The position of a waiter, if the key still has its queue. Otherwise it was dismissed.
    pub(super) fn standing(&self, id: WaiterId) -> Option<&InQueue> {
        let queue_is = |at: &&InQueue| {
            self.queue(at.key()).is_some_and(|queue| Arc::ptr_eq(&queue.key(), &at.key))
        };
        self.stands.get(&id).filter(queue_is)
    }

    /// Removes the first waiter, to serve it.
    pub(super) fn pop(&mut self, key: Key<'_>) -> Option<Waiter> {
        let waiter = self.change_queue(key, Queue::pop)??;
        self.unlist(key, &waiter);
        Some(waiter)
    }

    /// Removes the waiter with this token.
    pub(super) fn remove(&mut self, key: Key<'_>, token: &[u8]) -> Option<Waiter> {
        let waiter = self.change_queue(key, |queue| queue.leave(token))??;
        self.unlist(key, &waiter);
        Some(waiter)
    }

    /// Removes a waiter that has left its queue from the indexes.
    pub(super) fn unlist(&mut self, key: Key<'_>, waiter: &Waiter) {
        self.stands.remove(&waiter.id);
        if let Some(end) = waiter.place_ends() {
            return self.places.give_back(key, waiter, end);
        }
        self.shares.give_back(waiter.owner, 1);
        if let Some(end) = waiter.gives_up() {
            self.ends.remove(&(end, waiter.id));
        }
    }

    /// Changes a queue, and drops it once it is empty.
    pub(super) fn change_queue<T>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut Queue) -> T,
    ) -> Option<T> {
        let names = self.queues.get_mut(&key.db)?;
        let queue = names.get_mut(key.name)?;
        let result = change(queue);
        if queue.is_empty() {
            self.take_queue(key);
        }
        Some(result)
    }

    /// Detaches the queue from its key. Its waiters stay in the indexes.
    pub(super) fn take_queue(&mut self, key: Key<'_>) -> Option<Queue> {
        let names = self.queues.get_mut(&key.db)?;
        let queue = names.remove(key.name)?;
        if names.is_empty() {
            self.queues.remove(&key.db);
        }
        self.rechecks.remove(key);
        Some(queue)
    }

    /// Keeps the place of a request that ends, if it has KEEP and there is room. `runs`: requests get through
    /// now.
    pub(super) fn keep_place(
        &mut self,
        key: Key<'_>,
        token: &[u8],
        runs: bool,
        now: Instant,
    ) -> bool {
        let queue = self.queues.get(&key.db).and_then(|names| names.get(key.name));
        let Some(waiter) = queue.and_then(|queue| queue.get(token)) else { return false };
        let Some(end) = self.places.take(key, waiter, runs, now) else { return false };
        let (id, owner, gives_up) = (waiter.id, waiter.owner, waiter.gives_up());
        self.shares.give_back(owner, 1);
        self.change_queue(key, |queue| queue.send_away(token, end));
        if let Some(until) = gives_up {
            self.ends.remove(&(until, id));
        }
        true
    }

    /// Plans that the lock's waiters are served in the next iterations of the event loop, if it has any.
    pub(super) fn serve_later(&mut self, key: Key<'_>) {
        if let Some(key) = self.queue(key).map(Queue::key) {
            self.rechecks.add_next(key);
        }
    }

    /// Plans that all locks' waiters are served in the next iterations.
    pub(super) fn serve_all_later(&mut self) {
        let keys = self.queues.values().flat_map(BTreeMap::values).map(Queue::key);
        keys.for_each(|key| self.rechecks.add_next(key));
    }

    /// Plans a check of the lock after a while, if it has waiters.
    pub(super) fn watch(&mut self, key: Key<'_>, after: Millis, time: Time) {
        self.watch_at(key, Deadline::after(time.now, after));
    }

    /// Plans a check of the lock at `end`, if it has waiters.
    pub(super) fn watch_at(&mut self, key: Key<'_>, end: Deadline) {
        if let Some(key) = self.queue(key).map(Queue::key) {
            self.rechecks.add(end, key);
        }
    }

    /// Plans a check of a foreign lock with waiters: when its string expires, and before. If the server does
    /// not report changes of keys (`is_deaf`), checks find them all. Otherwise checks find the few that are not
    /// reported: SUNIONSTORE and its like replace the string with other data.
    pub(super) fn watch_foreign(
        &mut self,
        key: Key<'_>,
        left: Option<Millis>,
        is_deaf: bool,
        time: Time,
    ) {
        // For places alone dlock does not poll it: a client that returns asks itself.
        let waited_for = self.queue(key).is_some_and(Queue::has_present);
        let pauses = if is_deaf { 1 } else { PAUSES };
        let look = waited_for.then(|| Millis(self.rechecks.pause().0 * pauses));
        if let Some(next) = left.into_iter().chain(look).min() {
            self.watch(key, next, time);
        }
    }

    /// The keys with waiters that `meant` selects.
    pub(super) fn keys_of(&self, meant: impl Fn(Key<'_>) -> bool) -> Vec<KeyBuf> {
        self.keys().filter(|key| meant(*key)).map(Key::to_owned).collect()
    }
}

/// The number of pauses between two checks of a foreign lock if the server reports changes: they take a second,
/// or half a minute with very many locks.
const PAUSES: u64 = 500;
