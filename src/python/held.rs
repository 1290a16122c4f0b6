//! Where a lock is held.

use std::sync::{Arc, Mutex};

use dlock_client::Guard;

use crate::local::Local;
use crate::own::Own;

/// Where a lock is held. Locked only by who is attached to the interpreter, and never while detached.
pub(crate) type Place = Mutex<Own<Held>>;

/// A lock that is held.
pub(crate) struct Held {
    pub(crate) guard: Guard,
    pub(crate) local: Arc<Local>,
}

impl Held {
    /// Nobody minds it any more: it is released, but one that nobody renews lasts as long as its lease, as that of
    /// redis-py does.
    pub(crate) fn end(self) {
        if !self.guard.is_renewed() {
            drop(self.guard.detach());
        }
    }
}
