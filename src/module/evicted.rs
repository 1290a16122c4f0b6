//! Locks whose keys the server has evicted: no keys any more, but held until their leases end.
//!
//! The server tells of an eviction in two steps: a value was taken from its key, and then, that the
//! key was evicted. Only the second step can come in between, so the module keeps the last
//! taken value until the next event.

use std::collections::BTreeMap;
use std::ops::Bound;

use dlock_core::command::evicted::Page;
use dlock_core::{Key, KeyBuf};

use crate::ffi::block::Block;

/// The evicted locks, each with a share in its block, and with its weight at the eviction.
#[derive(Default)]
pub struct Evicted {
    locks: BTreeMap<KeyBuf, (Block, usize)>,
    bytes: usize,
}

impl Evicted {
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// The number of evicted locks.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// An estimate of their memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The lock that was at the key.
    pub fn get(&self, key: Key<'_>) -> Option<Block> {
        self.locks.get(&key.to_owned()).map(|(block, _)| *block)
    }

    /// The first keys of a database, or the first after one of them.
    pub fn page(&self, db: u32, page: Page<'_>) -> impl Iterator<Item = &[u8]> {
        let key = |name| Key { db, name }.to_owned();
        let begin = match page.after {
            Some(last) => Bound::Excluded(key(last)),
            None => Bound::Included(key(&[])),
        };
        let keys = self.locks.range((begin, Bound::Unbounded)).map(|(key, _)| key);
        keys.take_while(move |key| key.db == db).take(page.count).map(|key| &*key.name)
    }

    /// Adds a lock, and takes over a share in its block.
    pub fn add(&mut self, key: KeyBuf, block: Block, weight: usize) {
        self.forget(key.as_key());
        self.bytes += weight;
        self.locks.insert(key, (block, weight));
    }

    /// Forgets a lock that has ended, or whose key is back.
    pub fn forget(&mut self, key: Key<'_>) {
        if let Some((block, weight)) = self.locks.remove(&key.to_owned()) {
            self.bytes -= weight;
            block.release();
        }
    }

    /// Forgets the locks for which `goes` is true.
    pub fn forget_all(&mut self, goes: impl Fn(&KeyBuf) -> bool) {
        self.take(goes).into_iter().for_each(Block::release);
    }

    /// Gives the locks up for which `goes` is true, with their shares.
    pub fn take(&mut self, goes: impl Fn(&KeyBuf) -> bool) -> Vec<Block> {
        let (bytes, mut taken) = (&mut self.bytes, Vec::new());
        self.locks.retain(|key, (block, weight)| {
            let goes = goes(key);
            if goes {
                *bytes -= *weight;
                taken.push(*block);
            }
            !goes
        });
        taken
    }

    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.locks.values().map(|(block, _)| *block)
    }
}
