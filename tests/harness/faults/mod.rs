//! Failures that a test makes. In reading order:
//! - [`proxy`]: a network that is slow, deaf or gone;
//! - [`apart`]: a server that can be isolated;
//! - [`fake`]: a server with replies that a test writes;
//! - [`disk`]: a disk of its own for a server, small or read-only;
//! - [`power`]: a disk that forgets in a power cut what was not synced;
//! - [`system_calls`]: a server's system calls, watched or made to fail;
//! - [`eviction`]: servers that run out of memory;
//! - [`wall_clock`]: a server's wall clock, moved by the test.

pub mod apart;
pub mod disk;
pub mod eviction;
pub mod fake;
pub mod power;
pub mod proxy;
pub mod system_calls;
pub mod wall_clock;
