//! The fence counter: one number a node, and it only grows, over restarts too.
//!
//! The node need not write each number down. It promises, in its state file, to hand out nothing
//! above a number well ahead, and after a start it goes on from there, as timestamp oracles do.

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
    /// Up to here the state file vouches for what is handed out.
    reserved: u64,
    /// What the state file was last asked to vouch for: it may say so already.
    asked: u64,
}

impl Counter {
    /// The last number handed out or heard of.
    #[must_use]
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// The largest number that may be handed out.
    #[must_use]
    pub fn reserved(&self) -> Fence {
        Fence(self.reserved)
    }

    /// Whether a proposal is so far ahead that taking it would drag the counter away.
    #[must_use]
    pub fn too_far(&self, proposal: Fence, unix: u64) -> bool {
        proposal.0 > self.last.max(unix).saturating_add(MAX_FENCE_AHEAD)
    }

    /// What the next fence would be, at least `proposal`; `None` when the numbers are used up.
    #[must_use]
    pub fn next(&self, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
        let next = (self.last + 1).max(proposal.map_or(0, |p| p.0)).max(unix.min(MAX_FENCE));
        (next <= MAX_FENCE).then_some(Fence(next))
    }

    /// A fence that was handed out, loaded, replicated or given to a holder: nothing at or below
    /// it is handed out any more.
    pub fn raise(&mut self, to: Fence) {
        self.last = self.last.max(to.0.min(MAX_FENCE));
    }

    /// Whether the number may be handed out.
    #[must_use]
    pub fn allows(&self, fence: Fence) -> bool {
        fence.0 <= self.reserved
    }

    /// Whether it is time to reserve more, well before what there is has been used up.
    #[must_use]
    pub fn runs_low(&self, unix: u64) -> bool {
        let ahead = self.last.max(unix).saturating_add(RESERVE / 2);
        self.reserved < ahead.min(MAX_FENCE)
    }

    /// What to reserve next, so that `fence` can be handed out.
    #[must_use]
    pub fn to_reserve(&self, unix: u64, fence: Fence) -> Fence {
        let ahead = self.last.max(unix).max(fence.0).saturating_add(RESERVE);
        Fence(ahead.min(MAX_FENCE).max(self.asked))
    }

    /// The state file is asked to vouch for so much.
    pub fn asked(&mut self, fence: Fence) {
        self.asked = self.asked.max(fence.0);
    }

    /// The state file vouches for so much.
    pub fn promised(&mut self, fence: Fence) {
        self.reserved = self.reserved.max(fence.0);
    }
}

/// How far ahead is reserved: a minute, in µs.
const RESERVE: u64 = 60 * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(counter: &mut Counter, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
        let next = counter.next(unix, proposal)?;
        counter.raise(next);
        Some(next)
    }

    #[test]
    fn it_grows_when_the_clock_stands_still_or_goes_back() {
        let mut counter = Counter::default();
        assert_eq!(take(&mut counter, 100, None), Some(Fence(100)));
        assert_eq!(take(&mut counter, 100, None), Some(Fence(101)));
        assert_eq!(take(&mut counter, 5, None), Some(Fence(102)));
    }

    #[test]
    fn a_proposal_is_a_floor_and_not_a_wish() {
        let mut counter = Counter::default();
        assert_eq!(take(&mut counter, 100, Some(Fence(500))), Some(Fence(500)));
        assert_eq!(take(&mut counter, 100, Some(Fence(200))), Some(Fence(501)));
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
        assert_eq!(counter.to_reserve(1, Fence(1)), Fence(MAX_FENCE));
        counter.promised(Fence(MAX_FENCE));
        assert!(!counter.runs_low(1));
    }

    #[test]
    fn nothing_is_handed_out_above_the_promise() {
        let mut counter = Counter::default();
        assert!(!counter.allows(Fence(1)));
        counter.promised(Fence(100));
        assert!(counter.allows(Fence(100)));
        assert!(!counter.allows(Fence(101)));
        counter.promised(Fence(50));
        assert!(counter.allows(Fence(100)), "a promise stands");
    }

    #[test]
    fn more_is_reserved_when_half_of_it_is_used_up() {
        let mut counter = Counter::default();
        let reserved = counter.to_reserve(1_000, Fence(0));
        assert_eq!(reserved, Fence(1_000 + RESERVE));
        counter.promised(reserved);
        assert!(!counter.runs_low(1_000 + RESERVE / 2));
        assert!(counter.runs_low(1_001 + RESERVE / 2));
        counter.raise(Fence(2_000 + RESERVE / 2));
        assert!(counter.runs_low(0));
    }

    #[test]
    fn a_later_promise_is_never_smaller_than_one_that_may_be_on_its_way() {
        let mut counter = Counter::default();
        let first = counter.to_reserve(1_000_000, Fence(0));
        counter.asked(first);
        assert_eq!(counter.to_reserve(0, Fence(0)), first);
    }
}
