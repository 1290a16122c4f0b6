//! A client's memory from one acquisition to the next. All of it is a hint.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlock_core::words::{Fence, Instant};

use crate::clock;
use crate::key::Key;

/// Results of recent acquisitions.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Largest fence seen.
    seen: AtomicU64,
    /// Keys that another client held or wanted, each with the time of that observation.
    contended: Mutex<HashMap<Key, Instant>>,
}

impl Memory {
    pub(crate) fn seen(&self) -> Fence {
        Fence(self.seen.load(Ordering::Relaxed))
    }

    pub(crate) fn see(&self, fence: Fence) {
        self.seen.fetch_max(fence.0, Ordering::Relaxed);
    }

    /// True if another client held or wanted this lock a moment ago.
    pub(crate) fn is_contended(&self, key: &Key) -> bool {
        let keys = self.keys();
        keys.get(key).is_some_and(|since| clock::now().since(*since) < CONTENDED_FOR)
    }

    pub(crate) fn contended(&self, key: &Key) {
        let (now, mut keys) = (clock::now(), self.keys());
        if keys.len() >= MAX_KEYS {
            keys.retain(|_, since| now.since(*since) < CONTENDED_FOR);
        }
        if keys.len() < MAX_KEYS {
            keys.insert(key.clone(), now);
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.contended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Expected time until a contended key is free, in µs.
const CONTENDED_FOR: u64 = 2_000_000;
/// Limit of contended keys in the memory.
const MAX_KEYS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let memory = Memory::default();
        assert!(!memory.is_contended(&"0".into()));
        for key in 0..=MAX_KEYS {
            memory.contended(&key.to_string().into());
        }
        assert!(memory.is_contended(&"0".into()));
        assert_eq!(memory.keys().len(), MAX_KEYS);
    }
}
