//! The figures of locks for an operator: lengths of waits and holds, the keys with the longest waits, and
//! the last slow waits and long holds.
//!
//! - [`lengths`]: lengths of time in buckets, which can be added up over nodes.
//! - [`hot`]: the keys with the longest waits.
//! - [`slow`]: the last slow waits and long holds.
//!
//! Nothing here decides anything. All of it is bounded, and an acquisition without waiting reads one byte
//! at most.

pub mod hot;
pub mod lengths;
pub mod slow;

pub use hot::Hot;
pub use lengths::Lengths;
pub use slow::Slow;
