//! The fences that the state file covers.
//!
//! The node does not write each number down. Its state file promises that no fence above a certain number, well
//! ahead, has been handed out. After a restart the node continues above that number, as timestamp oracles do.
//! The promise follows the fences handed out, and not the wall clock. So a wrong wall clock has a lasting
//! effect only if fences were handed out by it.

use super::Counter;
use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD, MAX_LEAD};
use crate::words::Fence;

impl Counter {
    /// The largest number that may be handed out.
    #[must_use]
    pub fn reserved(&self) -> Fence {
        Fence(self.reserved)
    }

    /// True if the number may be handed out.
    #[must_use]
    pub fn allows(&self, fence: Fence) -> bool {
        fence.0 <= self.reserved
    }

    /// True if it is time to reserve more, well before the reserve is used up.
    #[must_use]
    pub fn runs_low(&self) -> bool {
        let most = self.most(self.last);
        let ahead = if self.last == 0 { 0 } else { self.last.saturating_add(STEP / 2).min(most) };
        self.reserved < self.foreseen().saturating_sub(RESERVE / 2).max(ahead).min(MAX_FENCE)
    }

    /// The fences to reserve for the near future. A wall clock that is far ahead of the fences may be wrong,
    /// and reserves nothing until a fence is handed out by it.
    fn foreseen(&self) -> u64 {
        let reached = self.reached();
        if reached == 0 { 0 } else { self.unix().min(reached + RESERVE) + RESERVE }
    }

    /// The fence to reserve next, so that `fence` can be handed out.
    ///
    /// After a crash the reserved number is the floor. So where fences are ahead of the clock the node reserves
    /// little more, and nothing beyond the largest lead. Otherwise each crash would drive fences farther ahead.
    #[must_use]
    pub fn to_reserve(&self, fence: Fence) -> Fence {
        let used = self.last.max(fence.0);
        let most = self.most(used);
        let enough = used == 0 || self.asked >= used.saturating_add(STEP / 2).min(most);
        let ahead = if enough { 0 } else { used.saturating_add(STEP).min(most) };
        // A fence near the clock will be followed by others.
        let is_near = fence.0 > 0 && fence.0 <= self.near();
        let near = if is_near { fence.0.saturating_add(RESERVE) } else { 0 };
        Fence(self.foreseen().max(near).max(ahead).min(MAX_FENCE).max(self.asked))
    }

    /// The largest number to reserve. A key with the largest proposal has room for millions of grants: otherwise
    /// each would need a write.
    fn most(&self, used: u64) -> u64 {
        self.farthest().0.saturating_add(MAX_LEAD - MAX_FENCE_AHEAD).max(used)
    }

    /// Notes that a write of this fence into the state file has begun.
    pub fn asked(&mut self, fence: Fence) {
        self.asked = self.asked.max(fence.0);
    }

    /// Notes that the state file covers fences up to this one.
    pub fn promised(&mut self, fence: Fence) {
        self.reserved = self.reserved.max(fence.0);
    }
}

/// The node reserves fences this far ahead of the clock: a minute, in µs.
pub(super) const RESERVE: u64 = 60 * 1_000_000;
/// The node reserves this far ahead of a fence that is itself ahead of the clock: more than a million grants.
pub(super) const STEP: u64 = 5 * 1_000_000;
