//! Holding: the guard of a lock, and its uses.
//!
//! [`guard`]: a lock that is held. [`keeper`]: the task that renews it. [`fenced`]: a connection to
//! data that refuses late holders.

pub(crate) mod fenced;
pub(crate) mod guard;
pub(crate) mod keeper;
