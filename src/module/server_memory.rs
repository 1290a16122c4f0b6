//! How the server is configured to use its memory.

use dlock_core::limits;

use crate::ffi::context::Ctx;

/// How much memory there is for locks.
pub struct MemoryForLocks {
    /// How the server is configured to use its memory.
    pub server: ServerMemory,
    /// How much of it locks may take, in hundredths.
    pub percent: u64,
}

impl Default for MemoryForLocks {
    fn default() -> MemoryForLocks {
        let percent = limits::DEFAULT_MAX_MEMORY_PERCENT;
        MemoryForLocks { server: ServerMemory::default(), percent }
    }
}

impl MemoryForLocks {
    /// How many bytes locks may take.
    pub fn most(&self) -> u64 {
        self.server.most.map_or(u64::MAX, |most| most / 100 * self.percent)
    }
}

/// As `maxmemory` and `maxmemory-policy` say.
#[derive(Clone, Copy, Default)]
pub struct ServerMemory {
    /// How much it may use; `None`: as much as it likes.
    pub most: Option<u64>,
    /// Whether it evicts whatever it likes, marks too.
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
