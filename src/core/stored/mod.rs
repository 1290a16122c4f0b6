//! The forms in which locks are stored.
//!
//! - [`snapshot`]: the versioned form in which a lock is saved.
//! - [`packed`]: the compact form in which a held lock lies in memory; `varint`: its numbers.
//! - [`deadlines`]: an ordered index of deadlines.

pub mod deadlines;
pub mod packed;
pub mod snapshot;
pub(crate) mod varint;
