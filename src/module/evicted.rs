//! Locks whose keys the server has evicted: no keys any more, but held until their leases end.
//!
//! The server tells in two steps: a value is taken from its key, and then, if it was evicted, that
//! it was. In between nothing but the second step can happen, so what was taken last is kept until
//! the next thing happens.

use std::collections::BTreeMap;
use std::ops::Bound;

use dlock_core::command::evicted::Page;
use dlock_core::{Key, KeyBuf};

use crate::ffi::block::Block;

/// The evicted locks, each with a share in its block, and with what it weighed when it came.
#[derive(Default)]
pub struct Evicted {
    locks: BTreeMap<KeyBuf, (Block, usize)>,
    bytes: usize,
}

impl Evicted {
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// About how much memory they take.
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

    /// Takes over a share.
    pub fn add(&mut self, key: KeyBuf, block: Block, weight: usize) {
        self.forget(key.as_key());
        self.bytes += weight;
        self.locks.insert(key, (block, weight));
    }

    /// The lock has ended, or its key is back.
    pub fn forget(&mut self, key: Key<'_>) {
        if let Some((block, weight)) = self.locks.remove(&key.to_owned()) {
            self.bytes -= weight;
            block.release();
        }
    }

    /// Forgets some of them.
    pub fn forget_all(&mut self, goes: impl Fn(&KeyBuf) -> bool) {
        self.take(goes).into_iter().for_each(Block::release);
    }

    /// Gives some of them up, with their shares.
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
