//! Connections close, and blocked clients go or get their answers.

use dlock_core::{ClientId, WaitOutcome, WaiterId};

use crate::ffi::context::now;
use crate::ffi::waiter::Handle;
use crate::state;

/// A connection has closed.
pub fn disconnected(client: ClientId) {
    state::with(|state| {
        state.node.closed(client);
        state.set_alarm_if_pending();
    });
}

/// A blocked client is gone, whatever the reason.
pub fn waiter_gone(handle: Handle) {
    state::with(|state| {
        if let Some(waiter) = state.store.blocked.gone(handle) {
            state.node.gone(waiter, now());
        }
        state.set_alarm_if_pending();
    });
}

/// An operator ends the wait of a blocked client, as if the time were over.
pub fn wait_ended(handle: Handle) {
    state::with(|state| state.store.stats.denials += 1);
    waiter_gone(handle);
}

/// A blocked client gets its answer.
pub fn answered(waiter: WaiterId, handle: Handle, answer: WaitOutcome) {
    state::with(|state| {
        state.store.stats.denials += u64::from(answer == WaitOutcome::Denied);
        state.store.blocked.answered(handle);
        state.node.waiting.delivered(waiter);
    });
}
