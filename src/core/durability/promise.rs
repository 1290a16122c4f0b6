//! The promise: the fences that a node may hand out, and the leases that it may grant.

use crate::words::{Fence, Millis};

/// The content of the state file that grants depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The node hands out no fence above this one.
    pub fence: Fence,
    /// Time of the promise, in µs of Unix time.
    pub unix: u64,
    /// The node grants no lease that runs longer.
    pub bound: Millis,
    /// Time left of the leases that the node may have forgotten. Unlike `bound` it does not cover the node's
    /// grants, counts down by itself, and is over when an operator ends the quarantine.
    pub quarantine: Millis,
}

impl Promise {
    /// The bound in the state file: it also covers the leases that the node may have forgotten.
    #[must_use]
    pub fn longest(&self) -> Millis {
        self.bound.max(self.quarantine)
    }
}
