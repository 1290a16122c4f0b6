//! Locks as the nodes see them, for whoever operates the nodes.
//!
//! [`inspect`]: who holds one, and who waits for it. [`ls`]: all of them; [`glob`]: patterns of keys.
//! [`break_`]: ends one.

pub mod break_;
pub mod glob;
pub mod inspect;
pub mod ls;
