//! The server's settings for memory.

use dlock_core::limits;

use crate::ffi::context::Ctx;

/// The memory that locks may take.
pub struct MemoryForLocks {
    /// The server's settings for memory.
    pub server: ServerMemory,
    /// The percentage of it that locks may take.
    pub percent: u64,
}

impl Default for MemoryForLocks {
    fn default() -> MemoryForLocks {
        let percent = limits::DEFAULT_MAX_MEMORY_PERCENT;
        MemoryForLocks { server: ServerMemory::default(), percent }
    }
}

impl MemoryForLocks {
    /// The bytes that locks may take.
    pub fn most(&self) -> u64 {
        self.server.most.map_or(u64::MAX, |most| most / 100 * self.percent)
    }
}

/// The settings `maxmemory` and `maxmemory-policy`.
#[derive(Clone, Copy, Default)]
pub struct ServerMemory {
    /// The bytes that the server may use; `None`: no limit.
    pub most: Option<u64>,
    /// True if the server may evict any key, marks included.
    pub evicts_marks: bool,
}

impl ServerMemory {
    /// Asks the server.
    pub fn ask(ctx: Ctx<'_>) -> ServerMemory {
        let policy = ctx.server_text(c"memory", c"maxmemory_policy");
        let evicts_marks = policy.is_some_and(|policy| policy.starts_with(b"allkeys"));
        ServerMemory { most: ctx.max_memory(), evicts_marks }
    }
}
