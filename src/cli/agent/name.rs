//! One caller's name for one lock.

use dlock_client::Key;

use super::limits::{LOCK, NAMES};

/// A key and the caller's token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub key: Key,
    pub token: Box<[u8]>,
}

impl Name {
    /// The room that the lock takes with this number of nodes, in bytes.
    pub fn room(&self, nodes: usize) -> u64 {
        LOCK + NAMES * (1 + nodes as u64) * (self.key.as_bytes().len() + self.token.len()) as u64
    }
}
