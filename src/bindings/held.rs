//! The state of a held lock.

use std::time::Duration;

use dlock_client::{Guard, Loss};

use crate::connected::Connected;

/// The state of a held lock.
pub enum State {
    /// The lock is certainly held at this moment.
    Held,
    /// The lock is not held.
    Lost(Loss),
    /// The client has panicked, so nothing is certain.
    Broken,
}

/// Ends a lock without an owner: releases it; but a lease without renewal goes on to its end.
pub fn end(guard: Guard) {
    if !guard.is_renewed() {
        drop(guard.detach());
    }
}

/// Returns the state of this lock.
pub fn state(guard: &Guard, connected: &Connected) -> State {
    if connected.is_broken() {
        return State::Broken;
    }
    guard.check().map_or_else(State::Lost, |()| State::Held)
}

/// Time for which the lock is certainly held without another renewal.
pub fn valid_for(guard: &Guard, connected: &Connected) -> Duration {
    if connected.is_broken() { Duration::ZERO } else { guard.valid_for() }
}
