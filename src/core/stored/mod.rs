//! The storage formats of locks.
//!
//! - [`snapshot`]: the versioned format of saved locks.
//! - [`packed`]: the compact format of held locks in memory; `varint`: its numbers.
//! - [`deadlines`]: an ordered index of deadlines.

pub mod deadlines;
pub mod packed;
pub mod snapshot;
pub(crate) mod varint;
