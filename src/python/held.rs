//! Locks that are held.

use std::sync::Arc;

use dlock_client::Guard;

use crate::local::Local;

/// A lock that is held. Dropping this releases it.
pub(crate) struct Held {
    pub(crate) guard: Guard,
    pub(crate) local: Arc<Local>,
}

impl Held {
    /// Ends a lock without an owner.
    pub(crate) fn end(self) {
        dlock_bindings::held::end(self.guard);
    }
}
