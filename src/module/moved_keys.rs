//! Locks that other commands have moved.
//!
//! The server reports that a value was taken from its key. Not every version reports where the value went. So the
//! module keeps a taken lock until the next iteration of the event loop. If the keyspace still has the lock then, a
//! RENAME or a MOVE has put it at another key, and the module searches the keyspace for it.

use std::collections::BTreeSet;

use dlock_core::{Deadline, Instant, Key, KeyBuf};

use crate::ffi::block::{Block, Noted};
use crate::ffi::context::{Ctx, now};
use crate::ffi::index::Index;
use crate::ffi::scan::Scan;

/// The locks, and the search for them.
#[derive(Default)]
pub struct MovedKeys {
    /// The lock taken last from its key.
    last_taken: Option<TakenLock>,
    /// Locks that the server took away or read, each with a share in its block.
    taken: BTreeSet<Block>,
    /// The search under way for dead locks that still have a key.
    search: Option<Scan>,
    /// True if there may be dead locks where the search under way does not come again. A replica removes nothing:
    /// it searches when it is promoted.
    owes_search: bool,
    /// The earliest time of the next step of a search.
    next: Instant,
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
    /// True if the event loop must check taken locks.
    pub fn any(&self) -> bool {
        !self.taken.is_empty() || self.last_taken.is_some()
    }

    /// Keeps a block that the server has read. False: it is kept already.
    pub fn keep(&mut self, block: Block, index: &mut Index) -> bool {
        if self.taken.contains(&block) {
            return false;
        }
        // An earlier one: the server has not put this block at its key yet.
        self.limit_taken(index);
        block.keep();
        self.taken.insert(block)
    }

    /// Keeps a lock taken from its key, with its share: if it was evicted, the next event says so.
    pub fn take(&mut self, taken: TakenLock) {
        // The lock was read just now, and is kept already.
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

    /// Leaves a taken lock that is over: its value may be at another key.
    pub fn leave(&mut self, block: Block, index: &mut Index) {
        if !self.taken.insert(block) {
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
    pub fn check_taken(&mut self, index: &mut Index) -> bool {
        let Some(block) = self.taken.pop_first() else { return false };
        if !block.is_in_keyspace() {
            // The lock was deleted, or read from a payload that was refused.
            index.remove(block);
        } else if block.is_dead() {
            // The lock was renamed or moved.
            self.owes_search = true;
        }
        block.release();
        true
    }

    /// Notes that a dead lock may be at any key.
    pub fn owe_search(&mut self) {
        self.owes_search = true;
    }

    /// Notes that two databases were swapped, with locks in them or not. Keys that the search under way has not
    /// reached may be where it has been.
    pub fn swapped(&mut self, with_locks: bool) {
        self.owes_search |= with_locks || self.search.is_some();
    }

    /// Time of the next step of a search, if there is one.
    pub fn next_search(&self) -> Option<Instant> {
        (self.search.is_some() || self.owes_search).then_some(self.next)
    }

    /// Searches a part of the keyspace, if it is time. Returns keys with dead locks.
    pub fn search(&mut self, ctx: Ctx<'_>) -> Vec<KeyBuf> {
        let (begin, mut found) = (now(), Vec::new());
        if self.next_search().is_none_or(|next| next > begin) {
            return found;
        }
        // A search under way is completed first: otherwise it might never reach its end.
        let mut scan = self.search.take().unwrap_or_else(|| {
            self.owes_search = false;
            Scan::new()
        });
        let mut more = true;
        while more && found.len() < MOST_FOUND && now().since(begin) < SEARCHES {
            more = scan.step(ctx, &mut found);
        }
        self.search = more.then_some(scan);
        self.next = if found.is_empty() { Instant(now().0 + RESTS) } else { begin };
        found
    }
}

/// The largest number of taken locks that wait for a check.
const MOST_TAKEN: usize = 64;
/// A step of a search that has found this many keys ends.
const MOST_FOUND: usize = 64;

/// A search that finds nothing runs for this many µs at a time, and then rests for `RESTS`: even with many RENAMEs, it
/// takes one part in fifty of a processor. So a million keys take about 25 seconds, and a dead lock, which no token
/// holds, may be visible that long.
const SEARCHES: u64 = 500;
const RESTS: u64 = 25_000;
