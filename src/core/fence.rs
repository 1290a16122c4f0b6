//! The fence counter: one number a node, and it only grows.

use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD};
use crate::words::Fence;

/// The node's counter.
///
/// The next fence is one more than the last, or the caller's proposal, or the time, whichever is
/// the largest. The time is only a floor: it lets a node that lost its counter start above most
/// of what it ever gave out, and keeps the counters of several nodes near each other. Order never
/// rests on it.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    last: u64,
}

impl Counter {
    /// The last number handed out or heard of.
    #[must_use]
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// Whether a proposal is so far ahead that taking it would drag the counter away.
    #[must_use]
    pub fn too_far(&self, proposal: Fence, unix: u64) -> bool {
        proposal.0 > self.last.max(unix).saturating_add(MAX_FENCE_AHEAD)
    }

    /// The next fence, at least `proposal`; `None` when the numbers are used up.
    pub fn next(&mut self, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
        let next = (self.last + 1).max(proposal.map_or(0, |p| p.0)).max(unix.min(MAX_FENCE));
        if next > MAX_FENCE {
            return None;
        }
        self.last = next;
        Some(Fence(next))
    }

    /// A fence that was loaded, replicated or given to a holder: nothing at or below it is
    /// handed out any more.
    pub fn raise(&mut self, to: Fence) {
        self.last = self.last.max(to.0.min(MAX_FENCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_when_the_clock_stands_still_or_goes_back() {
        let mut counter = Counter::default();
        assert_eq!(counter.next(100, None), Some(Fence(100)));
        assert_eq!(counter.next(100, None), Some(Fence(101)));
        assert_eq!(counter.next(5, None), Some(Fence(102)));
    }

    #[test]
    fn a_proposal_is_a_floor_and_not_a_wish() {
        let mut counter = Counter::default();
        assert_eq!(counter.next(100, Some(Fence(500))), Some(Fence(500)));
        assert_eq!(counter.next(100, Some(Fence(200))), Some(Fence(501)));
    }

    #[test]
    fn too_far_means_ahead_of_both_the_clock_and_the_counter() {
        let mut counter = Counter::default();
        assert!(!counter.too_far(Fence(100 + MAX_FENCE_AHEAD), 100));
        assert!(counter.too_far(Fence(101 + MAX_FENCE_AHEAD), 100));
        counter.raise(Fence(1000));
        assert!(!counter.too_far(Fence(1000 + MAX_FENCE_AHEAD), 100));
    }

    #[test]
    fn the_last_number_is_the_last() {
        let mut counter = Counter::default();
        counter.raise(Fence(u64::MAX));
        assert_eq!(counter.last(), Fence(MAX_FENCE));
        assert_eq!(counter.next(1, None), None);
        assert_eq!(counter.last(), Fence(MAX_FENCE));
    }
}
