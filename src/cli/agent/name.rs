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
    /// The room that the lock takes, in bytes.
    pub fn room(&self) -> u64 {
        LOCK + NAMES * (self.key.as_bytes().len() + self.token.len()) as u64
    }
}
