//! The differences between servers.
//!
//! - [`quirks`]: the differences between versions of Redis and Valkey.
//! - [`slots`]: the slot of a key in a cluster.

pub mod quirks;
pub mod slots;
