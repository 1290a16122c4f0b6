//! Locks with unknown keys.
//!
//! The server reports that a value was taken from its key, and that a key has got one, but seldom both of the
//! same value. The next iteration of the event loop checks the keys that got one, and the module keeps a taken
//! lock until then. If the server does not report key events, the module searches the keyspace.

use std::collections::BTreeSet;

use dlock_core::{Deadline, Instant, Key, KeyBuf};

use crate::ffi::block::{Block, Noted, PER_KEY};
use crate::ffi::context::{Ctx, now};
use crate::ffi::index::Index;
use crate::ffi::scan::Scan;

/// The locks, and the search for them.
#[derive(Default)]
pub struct MovedKeys {
    /// Keys that got a lock by RESTORE, RENAME, MOVE or SWAPDB.
    arrivals: Arrivals,
    /// True if a lock has been taken from its key, or read, and may arrive at another.
    moving: bool,
    /// The lock taken last from its key.
    last_taken: Option<TakenLock>,
    /// Locks that the server took away or read without a report of their new keys, each with a share in its
    /// block.
    taken: BTreeSet<Block>,
    /// The search for locks that still have a key, and the time of its next step.
    search: Option<(Scan, Instant)>,
    /// True if a replica, which removes nothing, has seen a dead lock at a key, or if there was no room for one
    /// more of these keys. The primary will remove the lock, unless it crashes before; a promoted node searches
    /// for it.
    owes_search: bool,
    /// The earliest beginning of the next search: the last one's end, and a rest.
    searched: Instant,
    /// True if the server does not report key events.
    is_deaf: bool,
}

/// The lock taken last from its key, perhaps by an eviction, with a share in its block.
pub struct TakenLock {
    pub key: KeyBuf,
    pub block: Block,
    /// The ephemeral and absent grants in it.
    pub noted: Vec<Noted>,
    /// The end of its last lease; `None`: the lock was over already.
    pub end: Option<Deadline>,
}

impl MovedKeys {
    /// Notes at the start if the server reports key events.
    pub fn install(&mut self, hears_of_keys: bool) {
        self.is_deaf = !hears_of_keys;
    }

    /// True if some locks are not in the index yet, and the event loop must check them.
    pub fn any(&self) -> bool {
        let taken = !self.taken.is_empty() || self.last_taken.is_some();
        taken || !self.arrivals.keys.is_empty()
    }

    /// Time of the next step of a search, if there is one. `leads`: the node is not a replica.
    pub fn next_search(&self, leads: bool) -> Option<Instant> {
        let next = self.search.as_ref().map(|(_, next)| *next);
        next.or_else(|| (leads && self.owes_search).then_some(self.searched))
    }

    /// Notes that a lock has been taken from its key, or read: it may arrive at another.
    pub fn depart(&mut self) {
        self.moving = true;
    }

    /// Notes that a value has arrived at the key. It can only be a lock if one has just been taken from
    /// another key, or read. With `elsewhere` the key has this name in another database.
    pub fn arrive(&mut self, key: Key<'_>, elsewhere: bool) {
        if std::mem::take(&mut self.moving) {
            self.look_at(key);
            self.owes_search |= elsewhere;
        }
    }

    /// Makes the next iteration check the key.
    pub fn look_at(&mut self, key: Key<'_>) {
        self.owes_search |= !self.arrivals.add(key.to_owned());
    }

    /// Takes the keys to check in this iteration.
    pub fn arrivals(&mut self, most: usize) -> Vec<KeyBuf> {
        std::iter::from_fn(|| self.arrivals.pop()).take(most).collect()
    }

    /// Puts back keys that could not be checked. A replica leaves them to its primary.
    pub fn put_off(&mut self, keys: Vec<KeyBuf>, follows: bool) {
        if follows {
            self.owes_search |= !keys.is_empty();
        } else {
            keys.iter().for_each(|key| self.look_at(key.as_key()));
        }
    }

    /// Notes that two databases were swapped.
    pub fn swap(&mut self, first: u32, second: u32) {
        let swapped = |db| match db {
            db if db == first => second,
            db if db == second => first,
            db => db,
        };
        let keys = std::mem::take(&mut self.arrivals.keys);
        let keys = keys.into_iter().map(|key| KeyBuf { db: swapped(key.db), ..key });
        self.arrivals.keys = keys.collect();
        // Keys that the search has not reached may be where it has been.
        self.owes_search |= self.search.is_some();
    }

    /// Makes the next iteration check a block that the server has read. False: it would do so already.
    pub fn keep(&mut self, block: Block, index: &mut Index) -> bool {
        let is_new = self.taken.insert(block);
        if is_new {
            block.keep();
            self.limit_taken(index);
        }
        is_new
    }

    /// Keeps a lock taken from its key, with its share: if it was evicted, the next event says so.
    pub fn take(&mut self, taken: TakenLock) {
        // The lock was read just now, and is in the search already.
        if self.taken.remove(&taken.block) {
            taken.block.release();
        }
        self.last_taken = Some(taken);
    }

    /// True if the lock taken last is not settled yet.
    pub fn has_last(&self) -> bool {
        self.last_taken.is_some()
    }

    /// Takes the lock taken last, if it was at this key, with its share.
    pub fn last_at(&mut self, key: Key<'_>) -> Option<TakenLock> {
        self.last_taken.take_if(|taken| taken.key.as_key() == key)
    }

    /// Takes the lock taken last, which was not evicted. The caller returns its share by [`MovedKeys::leave`].
    pub fn last(&mut self) -> Option<TakenLock> {
        self.last_taken.take()
    }

    /// Leaves a taken lock that is over. If the server does not report key events, the value may be at another
    /// key.
    pub fn leave(&mut self, block: Block, index: &mut Index) {
        if !self.is_deaf || !self.taken.insert(block) {
            block.release();
        }
        self.limit_taken(index);
    }

    /// Checks the first of too many taken locks at once: their values would stay in memory.
    fn limit_taken(&mut self, index: &mut Index) {
        if self.taken.len() > MOST_TAKEN {
            self.check_taken(index);
        }
    }

    /// Checks a taken lock. False: there is none.
    fn check_taken(&mut self, index: &mut Index) -> bool {
        let Some(block) = self.taken.pop_first() else { return false };
        if !block.is_in_keyspace() {
            // The lock was deleted, or read from a payload that was refused.
            index.remove(block);
        } else if block.is_dead() && self.is_deaf {
            // The lock was renamed or moved.
            self.owes_search = true;
        }
        block.release();
        true
    }

    /// Checks the taken locks, and searches a part of the keyspace if necessary.
    pub fn search(&mut self, ctx: Ctx<'_>, index: &mut Index, leads: bool, budget: usize) {
        for _ in 0..budget {
            if !self.check_taken(index) {
                break;
            }
        }
        let begin = now();
        if self.next_search(leads).is_none_or(|next| next > begin) {
            return;
        }
        // A search under way is completed first: otherwise it might never reach its end.
        let mut scan = match self.search.take() {
            Some((scan, _)) => scan,
            None => {
                self.owes_search = false;
                Scan::new()
            }
        };
        let (mut more, mut found) = (true, Vec::new());
        while more && self.arrivals.have_room() && now().since(begin) < SEARCHES {
            more = scan.step(ctx, &mut found);
            found.drain(..).for_each(|key| self.look_at(key.as_key()));
        }
        self.searched = Instant(now().0 + RESTS);
        self.search = more.then_some((scan, self.searched));
    }
}

/// Keys to check, each of them once, in bounded memory.
#[derive(Default)]
struct Arrivals {
    keys: BTreeSet<KeyBuf>,
    /// An estimate of their bytes.
    bytes: usize,
}

impl Arrivals {
    /// Adds a key. False: there is no room for it. The longest name fits into an empty set.
    fn add(&mut self, key: KeyBuf) -> bool {
        let bytes = weight(&key);
        if self.bytes + bytes > MOST_BYTES && !self.keys.is_empty() {
            return self.keys.contains(&key);
        }
        if self.keys.insert(key) {
            self.bytes += bytes;
        }
        true
    }

    fn pop(&mut self) -> Option<KeyBuf> {
        let key = self.keys.pop_first()?;
        self.bytes -= weight(&key);
        Some(key)
    }

    /// True if it is less than half full.
    fn have_room(&self) -> bool {
        self.bytes < MOST_BYTES / 2
    }
}

fn weight(key: &KeyBuf) -> usize {
    PER_KEY + key.name.len()
}

/// The memory of the keys to check: a mebibyte.
const MOST_BYTES: usize = 1 << 20;
/// The largest number of taken locks that wait for a check.
const MOST_TAKEN: usize = 64;

/// A search runs for this many µs at a time, and then rests for `RESTS`: even with many RENAMEs, it takes one
/// part in fifty of a processor. So a million keys take about 25 seconds, and a dead lock, which no token
/// holds, may be visible that long.
const SEARCHES: u64 = 500;
const RESTS: u64 = 25_000;
