//! The fence counters: they only grow, over restarts too.
//!
//! A node has many counters, called slots, and a key's name says which one counts for it. So a grant
//! on one key does not push the fences of other keys up, and several nodes that are asked for the same
//! number can all give it, however busy each of them is with other keys.
//!
//! The node does not write each number down. Its state file promises that no fence above a certain
//! number, well ahead, has been handed out. After a restart the node goes on from that number, as
//! timestamp oracles do.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD, MAX_FLOOR_AHEAD};
use crate::words::{Fence, Instant, Time};

/// The node's counters.
///
/// The next fence of a key is one more than the last of its slot, or than the floor below all
/// slots, or the caller's proposal, whichever is the largest. Without a proposal the time is a
/// floor, too: it keeps the fences of keys near each other. With a proposal the time does not count,
/// because the nodes of a quorum are all asked for the same number, and their clocks differ. The
/// order of fences never depends on the time.
///
/// Only the clock and the floor decide how far ahead a proposal may be, and no client can move
/// either. So whatever clients propose, the largest fence is about as far ahead as one proposal may
/// be, and far below the largest number there is.
#[derive(Clone)]
pub struct Counter {
    /// The largest number handed out or heard of, at any key.
    last: u64,
    /// What may have been handed out at any key: before this life, or by another node.
    floor: u64,
    /// The largest number handed out or heard of at the keys of each slot, above the floor.
    slots: Box<[u64]>,
    /// The state file vouches for fences up to this one.
    reserved: u64,
    /// The most that the state file was asked to vouch for. It may be written already.
    asked: u64,
    /// When the state file was last asked for more than the clock alone needs.
    asked_ahead: Option<Instant>,
}

/// The counter of a key. The key's name alone decides, so a key keeps its slot when it moves to
/// another database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

impl Slot {
    /// The slot of the key with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> Slot {
        Slot((xxh3_64(name) % SLOTS as u64) as usize)
    }
}

impl Default for Counter {
    fn default() -> Counter {
        let slots = vec![0; SLOTS].into_boxed_slice();
        Counter { last: 0, floor: 0, slots, reserved: 0, asked: 0, asked_ahead: None }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counter { last, floor, slots, reserved, asked, .. } = self;
        write!(f, "last {last} floor {floor} reserved {reserved} asked {asked} slots ")?;
        f.debug_map().entries(slots.iter().enumerate().filter(|(_, last)| **last > 0)).finish()
    }
}

impl Counter {
    /// The largest number handed out or heard of, at any key.
    #[must_use]
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// The largest number that may be handed out.
    #[must_use]
    pub fn reserved(&self) -> Fence {
        Fence(self.reserved)
    }

    /// The largest number that is accepted from outside.
    #[must_use]
    pub fn farthest(&self, unix: u64) -> Fence {
        let by_clock = unix.saturating_add(MAX_FENCE_AHEAD);
        Fence(by_clock.max(self.floor.saturating_add(MAX_FLOOR_AHEAD)).min(MAX_FENCE))
    }

    /// The largest number handed out or heard of at the keys of the slot, or the floor if that is
    /// larger.
    #[must_use]
    pub fn used(&self, slot: Slot) -> Fence {
        Fence(self.slots.get(slot.0).map_or(self.last, |used| *used).max(self.floor))
    }

    /// What the next fence in the slot would be, at least `proposal`; `None` when the numbers are
    /// used up.
    #[must_use]
    pub fn next(&self, slot: Slot, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
        let used = self.used(slot).0;
        let least = proposal.map_or(unix.min(MAX_FENCE), |proposal| proposal.0);
        let next = (used + 1).max(least);
        (next <= MAX_FENCE).then_some(Fence(next))
    }

    /// What the next fence of a key in an unused slot would be, without a proposal.
    #[must_use]
    pub fn first(&self, unix: u64) -> Option<Fence> {
        let first = (self.floor + 1).max(unix.min(MAX_FENCE));
        (first <= MAX_FENCE).then_some(Fence(first))
    }

    /// A fence that was handed out, loaded, replicated or given to a holder at a key of this slot:
    /// nothing at or below it is handed out there any more.
    pub fn raise(&mut self, slot: Slot, to: Fence) {
        let to = to.0.min(MAX_FENCE);
        self.last = self.last.max(to);
        if let Some(used) = self.slots.get_mut(slot.0) {
            *used = (*used).max(to);
        }
    }

    /// A fence that may have been handed out at any key: nothing at or below it is handed out
    /// anywhere any more.
    pub fn raise_all(&mut self, to: Fence) {
        let to = to.0.min(MAX_FENCE);
        self.last = self.last.max(to);
        self.floor = self.floor.max(to);
    }

    /// This node decides from now on. The floor rises to the largest fence that it has heard of, at
    /// any key, and to the clock: if the node has lost everything, most earlier fences are below that.
    pub fn begin(&mut self, unix: u64) {
        self.floor = self.floor.max(self.last).max(unix.min(MAX_FENCE));
    }

    /// Whether the number may be handed out.
    #[must_use]
    pub fn allows(&self, fence: Fence) -> bool {
        fence.0 <= self.reserved
    }

    /// Whether it is time to reserve more, well before what there is has been used up.
    #[must_use]
    pub fn runs_low(&self, unix: u64) -> bool {
        let needed = unix.saturating_add(RESERVE / 2).max(self.last.saturating_add(STEP / 2));
        self.reserved < needed.min(MAX_FENCE)
    }

    /// What to reserve next, so that `fence` can be handed out.
    ///
    /// After a crash the reserved number is the floor. So where fences are ahead of the clock the node
    /// adds little: otherwise each crash would drive them farther. A node that soon needs more again
    /// adds more at a time, because each time costs a write.
    #[must_use]
    pub fn to_reserve(&self, time: Time, fence: Fence) -> Fence {
        let used = self.last.max(fence.0);
        let again = self.asked_ahead.is_some_and(|at| time.now.since(at) < AGAIN);
        let more = if again { RESERVE } else { STEP };
        let enough = self.asked >= used.saturating_add(STEP / 2);
        let ahead = if enough { 0 } else { used.saturating_add(more) };
        Fence(time.unix.saturating_add(RESERVE).max(ahead).min(MAX_FENCE).max(self.asked))
    }

    /// The state file has been asked to vouch for fences up to this one.
    pub fn asked(&mut self, fence: Fence, time: Time) {
        if fence.0 > self.asked.max(time.unix.saturating_add(RESERVE)) {
            self.asked_ahead = Some(time.now);
        }
        self.asked = self.asked.max(fence.0);
    }

    /// The state file vouches for fences up to this one now.
    pub fn promised(&mut self, fence: Fence) {
        self.reserved = self.reserved.max(fence.0);
    }
}

/// How far ahead of the clock is reserved: a minute, in µs.
const RESERVE: u64 = 60 * 1_000_000;
/// How far ahead of a fence that is itself ahead of the clock: a million grants and more.
const STEP: u64 = 5 * 1_000_000;
/// Within how many µs a second need for more than the clock gets more at a time.
const AGAIN: u64 = 2 * RESERVE;
/// How many counters there are, 8 bytes each. Keys that share one are no worse off than with one
/// counter for all.
const SLOTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Slot = Slot(1);
    const THERE: Slot = Slot(2);
    const MINUTE: u64 = 60_000_000;

    fn take(counter: &mut Counter, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
        take_at(HERE, counter, unix, proposal)
    }

    fn take_at(
        slot: Slot,
        counter: &mut Counter,
        unix: u64,
        proposal: Option<Fence>,
    ) -> Option<Fence> {
        let next = counter.next(slot, unix, proposal)?;
        counter.raise(slot, next);
        Some(next)
    }

    fn at(now: u64, unix: u64) -> Time {
        Time { now: Instant(now), unix }
    }

    /// Reserves what is needed for a fence.
    fn reserve(counter: &mut Counter, time: Time, fence: u64) -> u64 {
        let next = counter.to_reserve(time, Fence(fence));
        counter.asked(next, time);
        counter.promised(next);
        counter.raise(HERE, Fence(fence));
        next.0
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
    fn beside_a_proposal_the_clock_is_no_floor() {
        let mut counter = Counter::default();
        assert_eq!(take(&mut counter, 100, Some(Fence(7))), Some(Fence(7)));
        assert_eq!(take(&mut counter, 100, Some(Fence(7))), Some(Fence(8)));
        assert_eq!(take(&mut counter, 100, None), Some(Fence(100)));
    }

    #[test]
    fn a_grant_at_one_key_moves_no_other_keys_fence() {
        let mut counter = Counter::default();
        assert_eq!(take(&mut counter, 100, Some(Fence(500))), Some(Fence(500)));
        assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(300))), Some(Fence(300)));
        assert_eq!(take_at(THERE, &mut counter, 100, None), Some(Fence(301)));
        assert_eq!(take(&mut counter, 100, Some(Fence(300))), Some(Fence(501)));
        assert_eq!(counter.last(), Fence(501));
    }

    #[test]
    fn what_is_known_of_no_key_is_a_floor_for_all() {
        let mut counter = Counter::default();
        counter.raise(HERE, Fence(900));
        counter.raise_all(Fence(500));
        assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(300))), Some(Fence(501)));
        assert_eq!(take(&mut counter, 100, Some(Fence(300))), Some(Fence(901)));
        assert_eq!(counter.last(), Fence(901));
    }

    #[test]
    fn a_life_begins_above_the_clock_and_above_all_that_was_heard_of() {
        let mut counter = Counter::default();
        counter.begin(100);
        assert_eq!((counter.last(), counter.first(7)), (Fence(0), Some(Fence(101))));
        assert_eq!(take(&mut counter, 0, Some(Fence(7))), Some(Fence(101)));
        counter.raise(HERE, Fence(500));
        counter.begin(100);
        assert_eq!(take_at(THERE, &mut counter, 0, Some(Fence(7))), Some(Fence(501)));
    }

    #[test]
    fn a_name_has_a_slot_and_names_are_spread() {
        assert_eq!(Slot::of(b"job:42"), Slot::of(b"job:42"));
        let mut slots: vec::Vec<usize> =
            (0..1000_u32).map(|n| Slot::of(&n.to_be_bytes()).0).collect();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() > 850 && slots.iter().all(|slot| *slot < SLOTS), "{}", slots.len());
    }

    #[test]
    fn how_far_a_proposal_may_be_ahead_hangs_on_the_clock_and_the_floor_alone() {
        let mut counter = Counter::default();
        let ten_minutes = 10 * MINUTE;
        assert_eq!(counter.farthest(100), Fence(100 + ten_minutes));
        counter.raise(HERE, Fence(100 + ten_minutes));
        assert_eq!(counter.farthest(100), Fence(100 + ten_minutes));
        counter.raise_all(Fence(1000 + ten_minutes));
        assert_eq!(counter.farthest(100), Fence(1000 + ten_minutes + MINUTE));
        assert_eq!(counter.farthest(MAX_FENCE), Fence(MAX_FENCE));
    }

    #[test]
    fn the_last_number_is_the_last() {
        let mut counter = Counter::default();
        counter.raise(HERE, Fence(u64::MAX));
        assert_eq!(counter.last(), Fence(MAX_FENCE));
        assert_eq!((counter.next(HERE, 1, None), counter.first(1)), (None, Some(Fence(1))));
        counter.raise_all(Fence(u64::MAX));
        assert_eq!((counter.next(THERE, 1, None), counter.first(1)), (None, None));
        assert_eq!(counter.to_reserve(at(0, 1), Fence(1)), Fence(MAX_FENCE));
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
        assert_eq!(reserve(&mut counter, at(0, 1_000), 0), 1_000 + RESERVE);
        assert!(!counter.runs_low(1_000 + RESERVE / 2));
        assert!(counter.runs_low(1_001 + RESERVE / 2));
        counter.raise(HERE, Fence(1_001 + RESERVE - STEP / 2));
        assert!(counter.runs_low(0));
    }

    #[test]
    fn where_fences_are_ahead_of_the_clock_little_is_added_and_more_to_who_comes_again() {
        let mut counter = Counter::default();
        counter.raise_all(Fence(2 * RESERVE));
        assert_eq!(reserve(&mut counter, at(0, 0), 0), 2 * RESERVE + STEP);
        assert_eq!(reserve(&mut counter, at(1, 1), 0), 2 * RESERVE + STEP, "there is enough");
        let far = 5 * RESERVE;
        assert_eq!(reserve(&mut counter, at(2, 2), far), far + RESERVE);
        let later = AGAIN + 3;
        assert_eq!(reserve(&mut counter, at(later, 3), far + RESERVE), far + RESERVE + STEP);
    }

    #[test]
    fn who_comes_again_within_two_minutes_gets_a_minute_and_else_five_seconds() {
        for (later, more) in [(2 * MINUTE - 1, MINUTE), (2 * MINUTE, 5_000_000)] {
            let mut counter = Counter::default();
            let far = 100 * MINUTE;
            assert_eq!(reserve(&mut counter, at(0, 0), far), far + 5_000_000);
            assert_eq!(reserve(&mut counter, at(later, 0), 2 * far), 2 * far + more);
        }
    }

    #[test]
    fn a_later_promise_is_never_smaller_than_one_that_may_be_on_its_way() {
        let mut counter = Counter::default();
        let first = counter.to_reserve(at(0, 1_000_000), Fence(0));
        counter.asked(first, at(0, 1_000_000));
        assert_eq!(counter.to_reserve(at(1, 0), Fence(0)), first);
    }
}
