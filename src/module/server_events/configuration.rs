//! CONFIG SET: the memory that the server may use, and the log that it keeps.

use crate::ffi::context::Ctx;
use crate::server_events::roles;
use crate::server_memory::ServerMemory;
use crate::state::{self, State};

/// Handles a change of a configuration parameter.
pub fn configured(ctx: Ctx<'_>) {
    roles::replica_may_have_come();
    let memory = ServerMemory::ask(ctx);
    state::with(|state| state.store.memory.server = memory);
    // Asked outside of `with`, because the answer comes through the server.
    let kept = state::with(|state| state.store.durability.complete_log).flatten();
    if kept.is_some() && ctx.complete_log() != kept {
        state::with(State::note_incomplete_log);
    }
}

/// Notes that a command is about to switch the log on or off. The server may undo that silently, if it
/// refuses another setting in the same command, and begins a new log then.
pub fn log_is_switched() {
    state::with(|state| {
        if state.store.durability.complete_log.is_some() {
            state.note_incomplete_log();
        }
    });
}
