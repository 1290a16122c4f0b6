//! The figures of locks for an operator: lengths of waits and holds, and the keys with the longest waits.
//!
//! - [`lengths`]: lengths of time in buckets, which can be added up over nodes.
//! - [`hot`]: the keys with the longest waits.
//!
//! Nothing here decides anything. All of it is bounded, and an acquisition without waiting reads one byte
//! at most.

pub mod hot;
pub mod lengths;

pub use hot::Hot;
pub use lengths::Lengths;
