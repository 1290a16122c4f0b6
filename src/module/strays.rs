//! Locks that are somewhere else than the index thinks.
//!
//! The server tells that a value was taken from its key, and that a key has got one, but seldom
//! both of the same value. What has arrived somewhere is looked at in the next turn; what was taken
//! is kept until it is known what has become of it. A server that does not tell of keys is searched.

use std::collections::{BTreeSet, VecDeque};

use dlock_core::{ClientId, Key, KeyBuf};

use crate::evicted::Evicted;
use crate::ffi::block::Block;
use crate::ffi::context::Ctx;
use crate::ffi::index::Index;
use crate::ffi::scan::Scan;

/// What is known of them.
#[derive(Default)]
pub struct Strays {
    /// Keys at which a lock has arrived by RESTORE, RENAME, MOVE or SWAPDB.
    arrivals: VecDeque<KeyBuf>,
    /// Whether a lock has been taken from its key, or read, and may arrive at another.
    moving: bool,
    /// What was taken from its key last.
    last_taken: Option<TakenLock>,
    /// Locks that the server took away or read without telling where to, each with a share in its
    /// block.
    taken: BTreeSet<Block>,
    /// The search for those that are still somewhere.
    search: Option<Scan>,
    /// Whether a dead lock was seen at a key by a replica, which removes nothing. Its primary will,
    /// unless that dies before; then this node searches for it when it has been promoted.
    owes_search: bool,
    /// The server does not tell what happens to keys.
    is_deaf: bool,
    /// Locks that are held and are no keys any more.
    pub evicted: Evicted,
}

/// What was taken from its key last, and is not known to have been evicted yet. With a share.
pub struct TakenLock {
    pub key: KeyBuf,
    pub block: Block,
    /// The grants in it that end with a connection.
    pub ephemerals: Vec<(Box<[u8]>, ClientId)>,
}

impl Strays {
    /// The module is loaded: whether the server tells what happens to keys.
    pub fn install(&mut self, hears_of_keys: bool) {
        self.is_deaf = !hears_of_keys;
    }

    /// Whether the index does not track some locks yet, and the next turn has to see to it.
    pub fn any(&self) -> bool {
        let taken = !self.taken.is_empty() || self.last_taken.is_some();
        taken || !self.arrivals.is_empty() || self.search.is_some()
    }

    /// Whether a search is to begin as soon as this node leads.
    pub fn owes_search(&self) -> bool {
        self.owes_search
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

    /// The next turn looks at the key.
    pub fn look_at(&mut self, key: Key<'_>) {
        self.arrivals.push_back(key.to_owned());
    }

    /// The keys that are looked at in this turn.
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

    /// Two databases have changed places. What was in them is somewhere else now.
    pub fn swap(&mut self, first: u32, second: u32, index: &mut Index) {
        let swapped = |db| if db == first { second } else { first };
        let goes = |db| db == first || db == second;
        self.evicted.forget_all(goes);
        for key in self.arrivals.iter_mut().filter(|key| goes(key.db)) {
            key.db = swapped(key.db);
        }
        // What it has not seen yet may be where it has been.
        self.owes_search |= self.search.is_some();
        index.drain(goes, |block, key| {
            block.kill();
            self.arrivals.push_back(Key { db: swapped(key.db), ..key }.to_owned());
        });
    }

    /// The next turn looks what has become of the block. False: that was known already.
    pub fn keep(&mut self, block: Block) -> bool {
        let kept = block.keep();
        if kept {
            self.taken.insert(block);
        }
        kept
    }

    /// A lock that was over already was taken from its key.
    pub fn keep_dead(&mut self, block: Block) {
        if self.is_deaf {
            self.keep(block);
        }
    }

    /// A lock was taken from its key: whether it was evicted is told next, if it was.
    pub fn take(&mut self, taken: TakenLock) {
        if !taken.block.keep() {
            // Read just now, and looked for already: that share serves for this, too.
            self.taken.remove(&taken.block);
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
    /// [`Strays::leave`].
    pub fn last(&mut self) -> Option<TakenLock> {
        self.last_taken.take()
    }

    /// A lock that was taken is over. Where the server does not tell, the value may be at another
    /// key.
    pub fn leave(&mut self, block: Block) {
        if self.is_deaf {
            self.taken.insert(block);
        } else {
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
        // One that is under way is carried to its end first: else it might never come to it.
        if leads && self.search.is_none() && std::mem::take(&mut self.owes_search) {
            self.search = Some(Scan::new());
        }
        for _ in 0..budget {
            let Some(scan) = &mut self.search else { break };
            if !scan.step(ctx, &mut self.arrivals) {
                self.search = None;
            }
        }
    }
}
