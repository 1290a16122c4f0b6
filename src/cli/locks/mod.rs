//! Locks as the nodes report them, for operators.
//!
//! [`inspect`]: the holders and waiters of one lock. [`ls`]: all locks; [`glob`]: patterns of keys.
//! [`break_`]: ends a lock.

pub mod break_;
pub mod glob;
pub mod inspect;
pub mod ls;
