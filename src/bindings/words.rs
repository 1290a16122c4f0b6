//! Texts about panics.

use dlock_client::Key;

/// The text for a lock whose client has panicked.
#[must_use]
pub fn broken(key: &Key, fence: u64) -> String {
    format!("lock {key:?} (fence {fence}) counts as lost: its client has panicked")
}

/// The text for a panic.
#[must_use]
pub fn defect(words: &str) -> String {
    format!("a defect of dlock, please report it: {words}")
}
