//! What a node has promised: numbers that it may hand out, and leases that it may grant.

use crate::bounds::Bounds;
use crate::words::Fence;

/// What the state file vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// No fence above is handed out.
    pub fence: Fence,
    /// When it was promised, in µs of Unix time.
    pub unix: u64,
    /// No lease runs longer.
    pub bounds: Bounds,
}
