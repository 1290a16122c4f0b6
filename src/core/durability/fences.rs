//! The fence counters: they only grow, over restarts too.
//!
//! A node has many counters, called slots, and a key's name selects its slot. So a grant at one key does not
//! raise the fences of most other keys. And nodes that are asked for the same number can all give it, however
//! busy each is with other keys. A proposal farther ahead of the clock than a slot rises is stored for its own
//! key ([`KeysAhead`]).
//!
//! `reserve`: the numbers that the state file covers.

mod reserve;

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::clock::Reached;
use super::keys_ahead::{KeyAhead, KeysAhead};
use super::slot::{SLOTS, Slot};
use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD, MAX_FLOOR_AHEAD, MAX_LEAD, MAX_SHARED_AHEAD};
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

    /// The largest fence that is accepted from outside. It stays the same for a while: otherwise a client that
    /// always proposes the largest would force a write with each request.
    #[must_use]
    pub fn farthest(&self) -> Fence {
        let unix = self.unix();
        let by_clock = (unix - unix % FARTHEST_STAYS).saturating_add(MAX_FENCE_AHEAD);
        let by_floor = self.floor.saturating_add(MAX_FLOOR_AHEAD);
        // A floor that a client may have raised by a proposal before a crash does not raise the limit.
        let by_floor = if self.floor > unix.saturating_add(MAX_LEAD) { by_floor } else { 0 };
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
        self.reached.raise(self.time.now, fence.0.min(self.time.unix));
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
}

/// The largest accepted proposal stays the same for this many µs of the clock.
const FARTHEST_STAYS: u64 = 10 * 1_000_000;
/// The largest number of keys forgotten at a time.
const A_FEW: usize = 64;

#[cfg(test)]
mod tests;
