//! What a node has promised: numbers that it may hand out, and leases that it may grant.

use crate::words::{Fence, Millis};

/// What the state file vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// No fence above is handed out.
    pub fence: Fence,
    /// When it was promised, in µs of Unix time.
    pub unix: u64,
    /// No lease runs longer.
    pub bound: Millis,
}
