//! The tie between a connection and its EPHEMERAL locks.

use std::sync::Arc;

use super::flag::Flag;

/// Tells locks that their connection has ended, and tells the connection to end.
#[derive(Default)]
pub struct Tie {
    /// Set when the connection has ended.
    pub ended: Flag,
    /// Set when the connection has to end, for example because a lock with CLOSE was lost.
    pub lost: Flag,
}

/// The tie of a lock that ends with a connection.
pub struct Bond {
    pub tie: Arc<Tie>,
    /// True if the connection ends when the lock is lost.
    pub close: bool,
}
