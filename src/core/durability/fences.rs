//! The fence counters: they only grow, over restarts too.
//!
//! A node has many counters, called slots, and a key's name selects its slot. So a grant at one key does not
//! raise the fences of most other keys. And nodes that are asked for the same number can all give it, however
//! busy each is with other keys. A proposal farther ahead of the clock than a slot rises is stored for its own
//! key ([`KeysAhead`]).
//!
//! The node does not write each number down. Its state file promises that no fence above a certain number, well
//! ahead, has been handed out. After a restart the node continues above that number, as timestamp oracles do.
//! The promise follows the fences handed out, and not the wall clock. So a wrong wall clock has a lasting
//! effect only if fences were handed out by it.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::clock::Reached;
use super::keys_ahead::{KeyAhead, KeysAhead};
use super::slot::{SLOTS, Slot};
use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD, MAX_FLOOR_AHEAD, MAX_SHARED_AHEAD};
use crate::words::{Fence, Instant, Owner, Time};

/// The node's counters.
///
/// The next fence of a key is one more than the largest former fence, or the caller's proposal if that is
/// larger. The former fences are the last one of the key's slot, its own last one, and the floor below all
/// slots.
///
/// Without a proposal the wall clock is a floor, too: it keeps the fences of keys near each other. With a
/// proposal the wall clock does not count, because the nodes of a quorum are all asked for the same number, and
/// their clocks differ. The exception is the time at which this node began, if the proposal is near it: after
/// losing everything a node then mostly gives larger fences than before. The order of fences never depends on
/// the time.
///
/// A proposal raises the slot that it shares with other keys to at most a few seconds ahead of the wall clock.
/// Only the clock and the floor limit how far ahead a proposal may be, and clients can move neither. So the
/// largest fence is about as far ahead as one proposal may be, and far below the largest number there is.
#[derive(Clone)]
pub struct Counter {
    /// The largest number handed out or learnt, at any key.
    last: u64,
    /// A fence up to this one may have been handed out at any key: before the restart, or by another node.
    floor: u64,
    /// The wall clock when this node began to serve as a primary.
    begun: u64,
    /// The largest number handed out or learnt at the keys of each slot, above the floor.
    slots: Box<[u64]>,
    /// Keys with fences too far ahead for their slots.
    ahead: KeysAhead,
    /// The time that the fences have reached.
    reached: Reached,
    /// The time of the last call of [`Counter::look`].
    time: Time,
    /// The state file covers fences up to this one.
    reserved: u64,
    /// The largest fence in a write of the state file that has begun, and may have succeeded.
    asked: u64,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter {
            last: 0,
            floor: 0,
            begun: 0,
            slots: vec![0; SLOTS].into_boxed_slice(),
            ahead: KeysAhead::default(),
            reached: Reached::default(),
            time: Time { now: Instant(0), unix: 0 },
            reserved: 0,
            asked: 0,
        }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counter { last, floor, slots, ahead, reserved, asked, .. } = self;
        write!(f, "last {last} floor {floor} reserved {reserved} asked {asked} {ahead:?} slots ")?;
        f.debug_map().entries(slots.iter().enumerate().filter(|(_, last)| **last > 0)).finish()
    }
}

impl Counter {
    /// Takes note of the time. Forgets keys that the slots have reached by now, a few at a time.
    pub fn look(&mut self, time: Time) {
        self.time = time;
        if self.ahead.is_empty() {
            return;
        }
        let most = Fence(self.shared());
        for _ in 0..A_FEW {
            let Some((slot, fence)) = self.ahead.pass(most) else { return };
            self.raise_slot(slot, fence.0);
        }
    }

    /// The current time of the fences: the wall clock, or the time that the fences have reached if that
    /// is later.
    #[must_use]
    pub fn unix(&self) -> u64 {
        self.reached.at(self.time.now).max(self.time.unix)
    }

    /// The time that the fences have reached; zero before the first fence.
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.reached.at(self.time.now)
    }

    /// Takes note of the time that the fences had reached before the restart, or at the primary.
    pub fn had_reached(&mut self, unix: u64, now: Instant) {
        self.reached.raise(now, unix);
    }

    /// The largest number handed out or learnt, at any key.
    #[must_use]
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// The number of keys that are farther ahead than their slots.
    #[must_use]
    pub fn keys_ahead(&self) -> usize {
        self.ahead.len()
    }

    /// The largest number that may be handed out.
    #[must_use]
    pub fn reserved(&self) -> Fence {
        Fence(self.reserved)
    }

    /// The largest fence that is accepted from outside. It stays the same for a while: otherwise a client that
    /// always proposes the largest would force a write with each request.
    #[must_use]
    pub fn farthest(&self) -> Fence {
        let unix = self.unix();
        let by_clock = (unix - unix % FARTHEST_STAYS).saturating_add(MAX_FENCE_AHEAD);
        let by_floor = self.floor.saturating_add(MAX_FLOOR_AHEAD);
        // A floor that a client may have raised by a proposal before a crash does not raise the limit.
        let by_floor = if self.floor > unix.saturating_add(MAX_FENCE_AHEAD) { by_floor } else { 0 };
        Fence(by_clock.max(by_floor).min(MAX_FENCE))
    }

    /// The largest proposal that raises the slot, and so other keys. Up to the floor all keys are raised
    /// anyway.
    #[must_use]
    pub fn shared(&self) -> u64 {
        let by_floor = if self.floor > 0 { self.floor.saturating_add(MAX_SHARED_AHEAD) } else { 0 };
        self.near().max(by_floor).min(MAX_FENCE)
    }

    /// The largest number that is near the clock.
    fn near(&self) -> u64 {
        self.time.unix.saturating_add(MAX_SHARED_AHEAD).max(self.reached())
    }

    /// The largest number handed out or learnt at the key or its slot, or the floor if that is larger.
    #[must_use]
    pub fn used(&self, name: &[u8]) -> Fence {
        let own = self.ahead.of(name).unwrap_or(Fence(0));
        own.max(Fence(self.used_by_all(Slot::of(name))))
    }

    fn used_by_all(&self, slot: Slot) -> u64 {
        self.slots.get(slot.index()).map_or(self.last, |used| *used).max(self.floor)
    }

    /// The next fence of the key, at least `proposal`; `None` when the numbers are used up.
    #[must_use]
    pub fn next(&self, name: &[u8], proposal: Option<Fence>) -> Option<Fence> {
        let least = match proposal {
            Some(Fence(proposal)) if self.begun > proposal.saturating_add(MAX_FENCE_AHEAD) => {
                proposal
            }
            Some(Fence(proposal)) if self.begun > 0 => proposal.max(self.begun + 1),
            Some(Fence(proposal)) => proposal,
            None => self.unix().min(MAX_FENCE),
        };
        let next = (self.used(name).0 + 1).max(least);
        (next <= MAX_FENCE).then_some(Fence(next))
    }

    /// The next fence of a key in an unused slot, without a proposal.
    #[must_use]
    pub fn first(&self) -> Option<Fence> {
        let first = (self.floor + 1).max(self.unix().min(MAX_FENCE));
        (first <= MAX_FENCE).then_some(Fence(first))
    }

    /// True if a fence of the key has to be stored for the key alone, and is not stored yet.
    #[must_use]
    pub fn needs_room(&self, name: &[u8], fence: Fence) -> bool {
        !self.is_for_all(Slot::of(name), fence) && self.ahead.of(name).is_none()
    }

    /// True if there is room to store it.
    #[must_use]
    pub fn has_room(&self, name: &[u8], owner: Owner) -> bool {
        self.ahead.has_room(name, owner)
    }

    /// The largest number handed out or learnt, except at keys that are farther ahead.
    #[must_use]
    pub fn last_of_all(&self) -> Fence {
        Fence(self.slots.iter().copied().fold(self.floor, u64::max))
    }

    /// The keys that are farther ahead, and their fences.
    pub fn ahead(&self) -> impl Iterator<Item = (KeyAhead, Fence)> + '_ {
        self.ahead.all()
    }

    /// True if the slot rises to the fence: it is near the clock, or at most one step above the used
    /// numbers.
    fn is_for_all(&self, slot: Slot, fence: Fence) -> bool {
        fence.0 <= self.used_by_all(slot) + 1 || fence.0 <= self.shared()
    }

    /// Notes that the fence is handed out at the key: its later fences are larger. The owner matters only if
    /// the fence [needs room](Counter::needs_room).
    pub fn hand_out(&mut self, name: &[u8], fence: Fence, owner: Owner) {
        if fence.0 <= self.near() {
            self.reached.raise(self.time.now, fence.0);
        }
        self.raise(name, fence, Some(owner));
    }

    /// Takes note of a fence that was loaded, replicated or given to a holder at the key, or arrived with a
    /// lock: later fences of the key are larger. If another node `decided` it, it is always stored. If a user's
    /// command brought it, it is stored only if there is room.
    pub fn learn(&mut self, name: &[u8], fence: Fence, decided: bool) {
        let owner = (!decided).then(Owner::default);
        self.raise(name, fence, owner);
    }

    /// Takes note of a fence that another node handed out at a key, given by its hash.
    pub fn learn_ahead(&mut self, key: KeyAhead, fence: Fence) {
        self.raise_key(key.slot, fence, None, || key);
    }

    fn raise(&mut self, name: &[u8], fence: Fence, owner: Option<Owner>) {
        // Most keys are free, and bring no fence.
        if fence > Fence(0) {
            self.raise_key(Slot::of(name), fence, owner, || KeyAhead::of(name));
        }
    }

    fn raise_key(
        &mut self,
        slot: Slot,
        fence: Fence,
        owner: Option<Owner>,
        key: impl FnOnce() -> KeyAhead,
    ) {
        let fence = fence.0.min(MAX_FENCE);
        self.last = self.last.max(fence);
        if self.is_for_all(slot, Fence(fence)) {
            self.raise_slot(slot, fence);
        } else if !self.ahead.remember(key(), Fence(fence), owner) {
            let by_command = owner.is_some();
            self.raise_slot(slot, if by_command { fence.min(self.shared()) } else { fence });
        }
    }

    fn raise_slot(&mut self, slot: Slot, to: u64) {
        if let Some(used) = self.slots.get_mut(slot.index()) {
            *used = (*used).max(to);
        }
    }

    /// Takes note of a fence that may have been handed out at any key: all later fences are larger.
    pub fn raise_all(&mut self, to: Fence) {
        let to = to.0.min(MAX_FENCE);
        self.last = self.last.max(to);
        self.floor = self.floor.max(to);
    }

    /// Makes this node a primary from now on. The floor rises to the largest learnt fence near the clock, at
    /// any key: other fences handed out together with it may not have arrived.
    pub fn begin(&mut self) {
        self.floor = self.last_of_all().0;
        self.begun = self.time.unix.min(MAX_FENCE);
    }

    /// True if the number may be handed out.
    #[must_use]
    pub fn allows(&self, fence: Fence) -> bool {
        fence.0 <= self.reserved
    }

    /// True if it is time to reserve more, well before the reserve is used up.
    #[must_use]
    pub fn runs_low(&self) -> bool {
        let most = self.farthest().0.max(self.last);
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
    /// little more, and nothing beyond the largest proposal. Otherwise each crash would drive fences farther
    /// ahead.
    #[must_use]
    pub fn to_reserve(&self, fence: Fence) -> Fence {
        let used = self.last.max(fence.0);
        let most = self.farthest().0.max(used);
        let enough = used == 0 || self.asked >= used.saturating_add(STEP / 2).min(most);
        let ahead = if enough { 0 } else { used.saturating_add(STEP).min(most) };
        // A fence near the clock will be followed by others.
        let is_near = fence.0 > 0 && fence.0 <= self.near();
        let near = if is_near { fence.0.saturating_add(RESERVE) } else { 0 };
        Fence(self.foreseen().max(near).max(ahead).min(MAX_FENCE).max(self.asked))
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
const RESERVE: u64 = 60 * 1_000_000;
/// The node reserves this far ahead of a fence that is itself ahead of the clock: more than a million grants.
const STEP: u64 = 5 * 1_000_000;
/// The largest accepted proposal stays the same for this many µs of the clock.
const FARTHEST_STAYS: u64 = 10 * 1_000_000;
/// The largest number of keys forgotten at a time.
const A_FEW: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &[u8] = b"here";
    const THERE: &[u8] = b"there";
    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const DAY: u64 = 24 * 60 * MINUTE;
    const EVE: Owner = Owner(7);

    /// A counter at this time.
    fn counter(now: u64, unix: u64) -> Counter {
        let mut counter = Counter::default();
        counter.look(at(now, unix));
        counter
    }

    fn take(counter: &mut Counter, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
        take_at(HERE, counter, unix, proposal)
    }

    fn take_at(
        name: &[u8],
        counter: &mut Counter,
        unix: u64,
        proposal: Option<Fence>,
    ) -> Option<Fence> {
        counter.look(at(0, unix));
        let next = counter.next(name, proposal)?;
        counter.hand_out(name, next, EVE);
        Some(next)
    }

    fn at(now: u64, unix: u64) -> Time {
        Time { now: Instant(now), unix }
    }

    /// Reserves what is needed for a fence.
    fn reserve(counter: &mut Counter, time: Time, fence: u64) -> u64 {
        counter.look(time);
        let next = counter.to_reserve(Fence(fence));
        counter.asked(next);
        counter.promised(next);
        counter.hand_out(HERE, Fence(fence), EVE);
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
        assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(1))), Some(Fence(301)));
        assert_eq!(take(&mut counter, 100, Some(Fence(300))), Some(Fence(501)));
        assert_eq!(counter.last(), Fence(501));
    }

    /// A name with the same slot as this one.
    fn neighbour(name: &[u8]) -> [u8; 4] {
        let mut names = (0_u32..).map(u32::to_be_bytes);
        names.find(|other| Slot::of(other) == Slot::of(name)).unwrap()
    }

    #[test]
    fn a_proposal_moves_keys_in_its_slot_by_seconds_and_its_own_key_all_the_way() {
        let (unix, other) = (DAY, neighbour(HERE));
        for ahead in [0, MAX_SHARED_AHEAD, MAX_SHARED_AHEAD + 1, MAX_FENCE_AHEAD] {
            let mut counter = counter(0, unix);
            let far = Fence(unix + ahead);
            assert_eq!(take(&mut counter, unix, Some(far)), Some(far));
            assert_eq!(take(&mut counter, unix, Some(Fence(1))), Some(Fence(far.0 + 1)));
            let next = take_at(&other, &mut counter, unix, Some(Fence(1))).unwrap();
            assert!(next.0 <= unix + MAX_SHARED_AHEAD + 2, "{next:?} after {far:?}");
            // Many attempts change nothing.
            let most = unix + ahead;
            for _ in 0..100 {
                take(&mut counter, unix, Some(Fence(most)));
            }
            let next = take_at(&other, &mut counter, unix, Some(Fence(1))).unwrap();
            assert!(next.0 <= unix + MAX_SHARED_AHEAD + 200, "{next:?} after {far:?}");
        }
    }

    #[test]
    fn what_is_remembered_for_a_key_alone_is_its_slots_once_the_clock_is_there() {
        let (unix, other) = (DAY, neighbour(HERE));
        let mut counter = counter(0, unix);
        let far = Fence(unix + MINUTE);
        take(&mut counter, unix, Some(far));
        assert_eq!((counter.keys_ahead(), counter.used(&other)), (1, Fence(0)));
        counter.look(at(0, far.0 - MAX_SHARED_AHEAD - 1));
        assert_eq!(counter.keys_ahead(), 1);
        counter.look(at(0, far.0 - MAX_SHARED_AHEAD));
        assert_eq!((counter.keys_ahead(), counter.used(HERE), counter.used(&other)), (0, far, far));
    }

    #[test]
    fn what_others_decided_is_remembered_and_what_a_command_brought_while_there_is_room() {
        let unix = DAY;
        let far = Fence(unix + MINUTE);
        for decided in [true, false] {
            let mut counter = counter(0, unix);
            let names: vec::Vec<[u8; 8]> =
                (0..crate::limits::MAX_KEYS_AHEAD).map(u64::to_be_bytes).collect();
            names.iter().for_each(|name| counter.learn(name, far, decided));
            let forgotten = names.iter().filter(|name| counter.used(*name) < far).count();
            assert_eq!(forgotten > 0, !decided, "{forgotten}");
            assert!(counter.used(b"another") <= Fence(counter.shared()));
        }
    }

    #[test]
    fn what_is_known_of_no_key_is_a_floor_for_all() {
        let mut counter = Counter::default();
        counter.learn(HERE, Fence(900), true);
        counter.raise_all(Fence(500));
        assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(300))), Some(Fence(501)));
        assert_eq!(take(&mut counter, 100, Some(Fence(300))), Some(Fence(901)));
        assert_eq!(counter.last(), Fence(901));
    }

    #[test]
    fn a_start_begins_above_the_clock_for_all_proposals_near_it() {
        let day = DAY;
        let mut counter = counter(0, day);
        counter.learn(HERE, Fence(day + MINUTE), true);
        counter.begin();
        assert_eq!((counter.last(), counter.first()), (Fence(day + MINUTE), Some(Fence(day))));
        let near = Some(Fence(day - MAX_FENCE_AHEAD));
        assert_eq!(counter.next(THERE, near), Some(Fence(day + 1)));
        // The clock is wrong, or the client has no clock.
        let far = Fence(day - MAX_FENCE_AHEAD - 1);
        assert_eq!(counter.next(THERE, Some(far)), Some(far));
        assert_eq!(counter.next(HERE, near), Some(Fence(day + MINUTE + 1)));
        assert_eq!(counter.next(HERE, Some(far)), Some(Fence(day + MINUTE + 1)));
        // A fence near the clock may have been handed out together with fences that never arrived.
        counter.learn(HERE, Fence(day + 500), true);
        counter.learn(&neighbour(HERE), Fence(day + 500), true);
        counter.begin();
        assert_eq!(counter.next(THERE, Some(far)), Some(Fence(day + 501)));
    }

    #[test]
    fn how_far_a_proposal_may_be_ahead_hangs_on_the_clock_and_the_floor_alone() {
        let mut counter = counter(0, 100);
        let ten_minutes = 10 * MINUTE;
        assert_eq!(counter.farthest(), Fence(ten_minutes));
        counter.hand_out(HERE, Fence(ten_minutes), EVE);
        counter.look(at(0, FARTHEST_STAYS - 1));
        assert_eq!(counter.farthest(), Fence(ten_minutes), "it stays for a while");
        counter.look(at(0, FARTHEST_STAYS));
        assert_eq!(counter.farthest(), Fence(FARTHEST_STAYS + ten_minutes));
        counter.raise_all(Fence(FARTHEST_STAYS + ten_minutes));
        assert_eq!(counter.farthest(), Fence(FARTHEST_STAYS + ten_minutes));
        counter.raise_all(Fence(FARTHEST_STAYS + ten_minutes + 1));
        assert_eq!(counter.farthest(), Fence(FARTHEST_STAYS + ten_minutes + 1 + MINUTE));
        counter.look(at(0, MAX_FENCE));
        assert_eq!(counter.farthest(), Fence(MAX_FENCE));
    }

    #[test]
    fn the_last_number_is_the_last() {
        let mut counter = counter(0, 1);
        counter.learn(HERE, Fence(u64::MAX), true);
        assert_eq!(counter.last(), Fence(MAX_FENCE));
        assert_eq!((counter.next(HERE, None), counter.first()), (None, Some(Fence(1))));
        counter.raise_all(Fence(u64::MAX));
        assert_eq!((counter.next(THERE, None), counter.first()), (None, None));
        assert_eq!(counter.to_reserve(Fence(1)), Fence(MAX_FENCE));
        counter.promised(Fence(MAX_FENCE));
        assert!(!counter.runs_low());
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
        let mut counter = counter(0, DAY);
        assert!(!counter.runs_low() && counter.to_reserve(Fence(0)) == Fence(0), "nobody asks");
        assert_eq!(reserve(&mut counter, at(0, DAY), DAY), DAY + RESERVE);
        let half = RESERVE / 2;
        counter.look(at(half, DAY + half));
        assert!(!counter.runs_low());
        counter.look(at(half + 1, DAY + half + 1));
        assert!(counter.runs_low());
        counter.look(at(0, DAY));
        counter.hand_out(HERE, Fence(DAY + 1 + RESERVE - STEP / 2), EVE);
        assert!(counter.runs_low());
    }

    #[test]
    fn the_wall_clock_alone_reserves_little_and_less_than_others_accept() {
        let mut counter = counter(0, DAY);
        reserve(&mut counter, at(0, DAY), DAY);
        // The wall clock jumps a day ahead, and comes back: no fence was handed out by it.
        counter.look(at(SECOND, 2 * DAY));
        let next = counter.to_reserve(Fence(0));
        assert!(next.0 <= DAY + 2 * RESERVE + SECOND, "{next:?}");
        counter.asked(next);
        counter.promised(next);
        assert!(!counter.runs_low());
        let proposal = Fence(DAY + SECOND);
        assert_eq!(counter.next(THERE, Some(proposal)), Some(proposal));
        counter.hand_out(THERE, proposal, EVE);
        counter.look(at(2 * SECOND, DAY + 2 * SECOND));
        assert_eq!(counter.next(THERE, None), Some(Fence(DAY + 2 * SECOND)));
        assert!(counter.farthest().0 <= DAY + 2 * SECOND + MAX_FENCE_AHEAD);
    }

    #[test]
    fn nothing_that_is_proposed_reserves_more_than_may_be_proposed() {
        let mut counter = counter(0, DAY);
        for second in 0..60 {
            counter.look(at(second * SECOND, DAY + second * SECOND));
            let far = counter.farthest();
            let time = counter.time;
            assert_eq!(reserve(&mut counter, time, far.0), far.0);
            assert!(!counter.runs_low());
            counter.hand_out(HERE, far, EVE);
        }
    }

    #[test]
    fn where_fences_are_ahead_of_the_clock_little_is_added() {
        let mut counter = Counter::default();
        counter.raise_all(Fence(2 * RESERVE));
        assert_eq!(reserve(&mut counter, at(0, 0), 0), 2 * RESERVE + STEP);
        assert_eq!(reserve(&mut counter, at(1, 1), 0), 2 * RESERVE + STEP, "there is enough");
        let far = 5 * RESERVE;
        assert_eq!(reserve(&mut counter, at(2, 2), far), far + 5 * SECOND);
    }

    #[test]
    fn a_later_promise_is_never_smaller_than_one_that_may_be_on_its_way() {
        let mut counter = counter(0, 1_000_000);
        let first = counter.to_reserve(Fence(1_000_000));
        counter.asked(first);
        counter.look(at(1, 0));
        assert_eq!(counter.to_reserve(Fence(0)), first);
    }
}
