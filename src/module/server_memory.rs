//! How the server is configured to use its memory.

use crate::ffi::context::Ctx;

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
