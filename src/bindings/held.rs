//! The state of a held lock.

use std::time::Duration;

use dlock_client::Guard;

use crate::connected::Connected;
use crate::failure::Failure;

/// Ends a lock without an owner: releases it; but a lease without renewal goes on to its end.
pub fn end(guard: Guard) {
    if !guard.is_renewed() {
        drop(guard.detach());
    }
}

/// The loss of this lock; nothing while it is certainly held.
pub fn loss(guard: &Guard, connected: &Connected) -> Option<Failure> {
    if connected.is_broken() {
        let text = "counts as lost: its client has panicked";
        return Some(Failure::lost(guard.key(), guard.fence(), "panicked", text));
    }
    guard.check().err().map(Failure::from)
}

/// Time for which the lock is certainly held without another renewal.
pub fn valid_for(guard: &Guard, connected: &Connected) -> Duration {
    if connected.is_broken() { Duration::ZERO } else { guard.valid_for() }
}
