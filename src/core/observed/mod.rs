//! What an operator sees of locks: how long they are waited for and held, which of them hurt, and what
//! took too long.
//!
//! - [`lengths`]: lengths of time in buckets, which can be added up over nodes.
//! - [`hot`]: the keys that hurt most.
//! - [`slow`]: the last slow waits and long holds.
//!
//! Nothing here decides anything. All of it is bounded, and an acquisition without waiting costs a
//! look at one byte at most.

pub mod hot;
pub mod lengths;
pub mod slow;

pub use hot::Hot;
pub use lengths::Lengths;
pub use slow::Slow;
