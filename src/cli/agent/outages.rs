//! Keys for which somebody waits, though no majority of the nodes answers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlock_client::{Key, Notice};

use super::refusal::{NO_QUORUM, listed};

/// The keys, and the errors for those who ask.
#[derive(Default)]
pub struct Outages {
    keys: Mutex<HashMap<Key, String>>,
}

impl Outages {
    /// Hears the library's notices.
    pub fn hear(&self, notice: &Notice) {
        match notice {
            Notice::Outage { key, needed, nodes } => {
                let (count, nodes) = (nodes.len(), listed(nodes));
                let text = format!("{NO_QUORUM} {needed} of {count} nodes are needed: {nodes}");
                self.keys().insert(key.clone(), text);
            }
            Notice::Back { key } => self.end(key),
            _ => {}
        }
    }

    /// The error for a key, if there is an outage.
    pub fn of(&self, key: &Key) -> Option<String> {
        self.keys().get(key).cloned()
    }

    /// Forgets a key: nobody waits for it any more, or a majority answers.
    pub fn end(&self, key: &Key) {
        self.keys().remove(key);
    }

    /// Number of these keys.
    pub fn len(&self) -> u64 {
        self.keys().len() as u64
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
