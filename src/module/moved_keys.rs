//! Locks that are somewhere else than the index thinks.
//!
//! The server tells that a value was taken from its key, and that a key has got one, but seldom
//! both of the same value. What has arrived somewhere is looked at in the next iteration of the event loop;
//! what was taken is kept until it is known what has become of it. A server that does not tell of keys is
//! searched.

use std::collections::{BTreeSet, VecDeque};

use dlock_core::{Deadline, Instant, Key, KeyBuf};

use crate::evicted::Evicted;
use crate::ffi::block::{Block, Noted};
use crate::ffi::context::{Ctx, now};
use crate::ffi::index::Index;
use crate::ffi::scan::Scan;

/// What is known of them.
#[derive(Default)]
pub struct MovedKeys {
    /// Keys at which a lock has arrived by RESTORE, RENAME, MOVE or SWAPDB.
    arrivals: VecDeque<KeyBuf>,
    /// Whether a lock has been taken from its key, or read, and may arrive at another.
    moving: bool,
    /// What was taken from its key last.
    last_taken: Option<TakenLock>,
    /// Locks that the server took away or read without telling where to, each with a share in its
    /// block.
    taken: BTreeSet<Block>,
    /// The search for those that are still somewhere, and when it goes on.
    search: Option<(Scan, Instant)>,
    /// Whether a dead lock was seen at a key by a replica, which removes nothing. Its primary will,
    /// unless that dies before; then this node searches for it when it has been promoted.
    owes_search: bool,
    /// The last search ended then, and rested: the next one does not begin before.
    searched: Instant,
    /// The server does not tell what happens to keys.
    is_deaf: bool,
    /// Locks that are held and are no keys any more.
    pub evicted: Evicted,
}

/// What was taken from its key last, and is not known to have been evicted yet. With a share.
pub struct TakenLock {
    pub key: KeyBuf,
    pub block: Block,
    /// The grants in it of which the node keeps a note.
    pub noted: Vec<Noted>,
}

impl MovedKeys {
    /// The module is loaded: whether the server tells what happens to keys.
    pub fn install(&mut self, hears_of_keys: bool) {
        self.is_deaf = !hears_of_keys;
    }

    /// Whether the index does not track some locks yet, and the event loop has to see to it.
    pub fn any(&self) -> bool {
        let taken = !self.taken.is_empty() || self.last_taken.is_some();
        taken || !self.arrivals.is_empty()
    }

    /// When there is something to search for, on a node that leads or follows.
    pub fn next_search(&self, leads: bool) -> Option<Instant> {
        let next = self.search.as_ref().map(|(_, next)| *next);
        next.or_else(|| (leads && self.owes_search).then_some(self.searched))
    }

    /// A lock has been taken from its key, or read: it may arrive at another.
    pub fn depart(&mut self) {
        self.moving = true;
    }

    /// Something has arrived at the key. It can only be a lock if one has just been taken from another
    /// key, or read. With `elsewhere` it is at a key of this name in another database.
    pub fn arrive(&mut self, key: Key<'_>, elsewhere: bool) {
        if std::mem::take(&mut self.moving) {
            self.look_at(key);
            self.owes_search |= elsewhere;
        }
    }

    /// The next iteration looks at the key.
    pub fn look_at(&mut self, key: Key<'_>) {
        self.arrivals.push_back(key.to_owned());
    }

    /// The keys that are looked at in this iteration.
    pub fn arrivals(&mut self, most: usize) -> Vec<KeyBuf> {
        let count = self.arrivals.len().min(most);
        self.arrivals.drain(..count).collect()
    }

    /// They could not be looked at. A replica leaves them to its primary.
    pub fn put_off(&mut self, keys: Vec<KeyBuf>, follows: bool) {
        if follows {
            self.owes_search |= !keys.is_empty();
        } else {
            self.arrivals.extend(keys);
        }
    }

    /// Two databases have changed places. What was in them is somewhere else now. When the leases in
    /// them would have ended that tokens have which are away.
    pub fn swap(&mut self, first: u32, second: u32, index: &mut Index) -> Vec<Deadline> {
        let swapped = |db| if db == first { second } else { first };
        let goes = |db| db == first || db == second;
        self.evicted.forget_all(|key| goes(key.db));
        for key in self.arrivals.iter_mut().filter(|key| goes(key.db)) {
            key.db = swapped(key.db);
        }
        // What it has not seen yet may be where it has been.
        self.owes_search |= self.search.is_some();
        index.drain(
            |key| goes(key.db),
            |block, key| {
                block.kill();
                self.arrivals.push_back(Key { db: swapped(key.db), ..key }.to_owned());
            },
        )
    }

    /// The next iteration looks what has become of the block. False: that was known already.
    pub fn keep(&mut self, block: Block) -> bool {
        let is_new = self.taken.insert(block);
        if is_new {
            block.keep();
        }
        is_new
    }

    /// A lock that was over already was taken from its key.
    pub fn keep_dead(&mut self, block: Block) {
        if self.is_deaf {
            self.keep(block);
        }
    }

    /// A lock was taken from its key: whether it was evicted is told next, if it was.
    pub fn take(&mut self, taken: TakenLock) {
        taken.block.keep();
        // Read just now, and looked for already.
        if self.taken.remove(&taken.block) {
            taken.block.release();
        }
        self.last_taken = Some(taken);
    }

    /// Whether it is not known yet what has become of the lock that was taken last.
    pub fn has_last(&self) -> bool {
        self.last_taken.is_some()
    }

    /// The lock that was taken last, if it was at this key. With its share.
    pub fn last_at(&mut self, key: Key<'_>) -> Option<TakenLock> {
        self.last_taken.take_if(|taken| taken.key.as_key() == key)
    }

    /// The lock that was taken last was not evicted. Its share stays here, or is given back by
    /// [`MovedKeys::leave`].
    pub fn last(&mut self) -> Option<TakenLock> {
        self.last_taken.take()
    }

    /// A lock that was taken is over. Where the server does not tell, the value may be at another
    /// key.
    pub fn leave(&mut self, block: Block) {
        if !self.is_deaf || !self.taken.insert(block) {
            block.release();
        }
    }

    /// Looks what has become of what was taken, and searches a part of the keyspace if it has to.
    pub fn search(&mut self, ctx: Ctx<'_>, index: &mut Index, leads: bool, budget: usize) {
        for _ in 0..budget {
            let Some(block) = self.taken.pop_first() else { break };
            if !block.is_in_keyspace() {
                // Deleted, or a payload that was refused after it had been read.
                index.remove(block);
            } else if block.is_dead() && self.is_deaf {
                // Renamed or moved.
                self.owes_search = true;
            }
            block.release();
        }
        let begin = now();
        if self.next_search(leads).is_none_or(|next| next > begin) {
            return;
        }
        // One that is under way is carried to its end first: else it might never come to it.
        let mut scan = match self.search.take() {
            Some((scan, _)) => scan,
            None => {
                self.owes_search = false;
                Scan::new()
            }
        };
        let mut more = true;
        while more && now().since(begin) < SEARCHES {
            more = scan.step(ctx, &mut self.arrivals);
        }
        self.searched = Instant(now().0 + RESTS);
        self.search = more.then_some((scan, self.searched));
    }
}

/// A search goes on for so many µs at a time, and then rests for so long: whatever clients rename, it
/// takes one part in fifty of a processor. So it goes through a million keys in some 25 seconds, and a dead
/// lock, which nobody holds, may be seen for so long.
const SEARCHES: u64 = 500;
const RESTS: u64 = 25_000;
