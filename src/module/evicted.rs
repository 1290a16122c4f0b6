//! Locks whose keys the server has evicted: no keys any more, but held until their leases end.
//!
//! The server tells in two steps: a value is taken from its key, and then, if it was evicted, that
//! it was. In between nothing but the second step can happen, so what was taken last is kept until
//! the next thing happens.

use std::collections::BTreeMap;

use dlock_core::{ClientId, Key, KeyBuf};

use crate::ffi::block::Block;

/// The evicted locks, each with a share in its block.
#[derive(Default)]
pub struct Evicted {
    locks: BTreeMap<KeyBuf, Block>,
}

/// What was taken from its key last, and is not known to have been evicted yet. With a share.
pub struct Taken {
    pub key: KeyBuf,
    pub block: Block,
    /// The grants in it that end with a connection.
    pub ephemerals: Vec<(Box<[u8]>, ClientId)>,
}

impl Evicted {
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// The lock that was at the key.
    pub fn get(&self, key: Key<'_>) -> Option<Block> {
        self.locks.get(&key.to_owned()).copied()
    }

    /// Takes over a share.
    pub fn add(&mut self, key: KeyBuf, block: Block) {
        if let Some(old) = self.locks.insert(key, block) {
            old.unkeep();
        }
    }

    /// The lock has ended, or its key is back.
    pub fn forget(&mut self, key: Key<'_>) {
        if let Some(block) = self.locks.remove(&key.to_owned()) {
            block.unkeep();
        }
    }

    /// Forgets those of some databases.
    pub fn forget_all(&mut self, goes: impl Fn(u32) -> bool) {
        self.locks.retain(|key, block| {
            let goes = goes(key.db);
            if goes {
                block.unkeep();
            }
            !goes
        });
    }

    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.locks.values().copied()
    }
}
