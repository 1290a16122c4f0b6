//! The place of a held lock.

use std::sync::{Arc, Mutex};

use dlock_client::Guard;

use crate::local::Local;
use crate::own::Own;

/// The place of a held lock. Only threads attached to the interpreter lock the mutex, and never while
/// detached.
pub(crate) type Place = Mutex<Own<Held>>;

/// A lock that is held.
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
