//! The promise: numbers that a node may hand out, and leases that it may grant.

use super::lease_bound::LeaseBound;
use crate::words::Fence;

/// What the state file vouches for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// No fence above is handed out.
    pub fence: Fence,
    /// When it was promised, in µs of Unix time.
    pub unix: u64,
    /// No lease that it grants runs longer.
    pub bound: LeaseBound,
    /// For how much longer the node may have forgotten leases. Unlike `bound` this says nothing of what the
    /// node grants, counts down by itself, and is over when an operator ends the quarantine.
    pub quarantine: LeaseBound,
}

impl Promise {
    /// No lease runs longer, those included that the node may have forgotten: what the state file says.
    #[must_use]
    pub fn longest(&self) -> LeaseBound {
        let mut all = self.bound.join(&self.quarantine);
        all.fit();
        all
    }
}
