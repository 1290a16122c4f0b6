//! Words about what the library itself does not know: panics.

use dlock_client::Key;

/// Of a lock whose client has panicked.
#[must_use]
pub fn broken(key: &Key, fence: u64) -> String {
    format!("lock {key:?} (fence {fence}) counts as lost: its client has panicked")
}

/// Of a panic, with its words.
#[must_use]
pub fn defect(words: &str) -> String {
    format!("a defect of dlock, please report it: {words}")
}
