//! Connections that close, and blocked clients that go.

use dlock_core::ClientId;

use crate::ffi::context::now;
use crate::ffi::waiter::Handle;
use crate::state;

/// Handles a closed connection.
pub fn disconnected(client: ClientId) {
    state::with(|state| {
        state.node.closed(client);
        state.set_alarm_if_pending();
    });
}

/// Handles a blocked client that has closed, or that an operator has unblocked.
pub fn waiter_gone(handle: Handle) {
    state::with(|state| {
        if let Some(waiter) = state.store.blocked.gone(handle) {
            state.node.gone(waiter, now());
        }
        state.set_alarm_if_pending();
    });
}

/// Ends the wait of a blocked client for an operator, as at its time-out.
pub fn wait_ended(handle: Handle) {
    state::with(|state| state.store.stats.denials += 1);
    waiter_gone(handle);
}
