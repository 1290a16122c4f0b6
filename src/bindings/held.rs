//! A lock that is held, or why it is not any more.

use std::time::Duration;

use dlock_client::{Guard, Loss};

use crate::connected::Connected;

/// How things stand with a lock.
pub enum State {
    /// It is certainly held at this moment.
    Held,
    /// It is not.
    Lost(Loss),
    /// Its client has panicked, so nothing is certain.
    Broken,
}

/// How things stand with this lock of that client.
pub fn state(guard: &Guard, connected: &Connected) -> State {
    if connected.is_broken() {
        return State::Broken;
    }
    guard.check().map_or_else(State::Lost, |()| State::Held)
}

/// For how much longer it is certainly held without another renewal.
pub fn valid_for(guard: &Guard, connected: &Connected) -> Duration {
    if connected.is_broken() { Duration::ZERO } else { guard.valid_for() }
}
