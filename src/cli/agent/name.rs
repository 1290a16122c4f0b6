//! One caller's name for one lock.

use dlock_client::Key;
use dlock_core::node::shares::units;

/// A key and the caller's token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub key: Key,
    pub token: Box<[u8]>,
}

impl Name {
    /// The room that it takes: a long name counts as several.
    pub fn units(&self) -> u64 {
        units(self.key.as_bytes().len() + self.token.len())
    }
}
