//! CONFIG SET: the memory that the server may use.

use crate::ffi::context::Ctx;
use crate::server_events::roles;
use crate::server_memory::ServerMemory;
use crate::state;

/// Handles a change of a configuration parameter.
pub fn configured(ctx: Ctx<'_>) {
    roles::replica_may_have_come();
    let memory = ServerMemory::ask(ctx);
    state::with(|state| state.store.memory.server = memory);
}
