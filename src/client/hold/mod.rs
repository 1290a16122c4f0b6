//! Holding: the guard of a lock, and its uses.
//!
//! [`guard`]: a lock that is held. [`keeper`]: the task that renews it.

pub(crate) mod guard;
pub(crate) mod keeper;
