//! The server's settings for memory, and the part that locks may take.

use dlock_core::limits;

use crate::ffi::context::Ctx;

/// The settings `maxmemory`, `maxmemory-policy` and `dlock.max-memory-percent`.
pub struct ServerMemory {
    /// The bytes that the server may use; `None`: no limit.
    most: Option<u64>,
    /// True if the server may evict any key, and not only those with an expiry.
    pub evicts_any: bool,
    /// The percentage that locks may take.
    pub percent: u64,
}

impl Default for ServerMemory {
    fn default() -> ServerMemory {
        let percent = limits::DEFAULT_MAX_MEMORY_PERCENT;
        ServerMemory { most: None, evicts_any: false, percent }
    }
}

impl ServerMemory {
    /// Asks the server for its own settings.
    pub fn look(&mut self, ctx: Ctx<'_>) {
        let policy = ctx.server_text(c"memory", c"maxmemory_policy");
        self.evicts_any = policy.is_some_and(|policy| policy.starts_with(b"allkeys"));
        self.most = ctx.max_memory();
    }

    /// The bytes that locks may take.
    pub fn for_locks(&self) -> u64 {
        self.most.map_or(u64::MAX, |most| most / 100 * self.percent)
    }
}
