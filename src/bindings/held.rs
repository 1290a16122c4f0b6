//! A lock that is held, or why it is not any more.

use std::time::Duration;

use dlock_client::{Guard, Loss, LossReason};
use futures_util::FutureExt;

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
    if guard.is_valid() {
        return State::Held;
    }
    let _inside = connected.runtime.enter();
    // Its time may be over before that has been told.
    let not_renewed = || Loss {
        key: guard.key().clone(),
        fence: guard.fence(),
        why: LossReason::NotRenewed { nodes: Vec::new() },
    };
    State::Lost(guard.lost().now_or_never().unwrap_or_else(not_renewed))
}

/// For how much longer it is certainly held without another renewal.
pub fn valid_for(guard: &Guard, connected: &Connected) -> Duration {
    if connected.is_broken() { Duration::ZERO } else { guard.valid_for() }
}
