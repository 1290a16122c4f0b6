//! Places of waiters that are away.
//!
//! A place is a waiter that is away. If its turn comes, it holds the lock for the requested lease, which is no
//! longer than KEEP: so there is no third state between free and held. A client that returns in time is served
//! by its first arrival, however it waits. Waiters that die together cost one KEEP and one lease in total.

use alloc::collections::BTreeSet;

use super::Node;
use super::place_clock::PlaceClock;
use crate::limits::MAX_PLACES;
use crate::lock::queue::Waiter;
use crate::node::shares::{self, Shares};
use crate::words::{Deadline, Instant, Key, WaiterId};

/// The places.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The end of each place, by the clock of places.
    ends: BTreeSet<(Deadline, WaiterId)>,
    shares: Shares,
    pub clock: PlaceClock,
    /// The number of requests that left no place, for lack of room.
    pub refused: u64,
}

impl Places {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Leaves room for this many places of one user.
    #[cfg(test)]
    pub fn leave_room(&mut self, owner: crate::words::Owner, places: u64) {
        self.shares = Shares::default();
        self.shares.add(owner, MAX_PLACES / 2 - places);
    }

    /// Drops all places.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.shares = Shares::default();
    }

    /// The end of the first place.
    pub fn next_end(&self) -> Option<Deadline> {
        self.ends.first().and_then(|(end, _)| self.clock.comes(*end))
    }

    /// True if a place ends with the next iteration of the event loop.
    pub fn end_next(&self, now: Instant) -> bool {
        self.next_end().is_some_and(|end| end.is_over(now))
    }

    /// Keeps the place of a request that ends, if it has KEEP and there is room. Returns the place's end. `runs`:
    /// requests get through now.
    pub fn take(
        &mut self,
        key: Key<'_>,
        waiter: &Waiter,
        runs: bool,
        now: Instant,
    ) -> Option<Deadline> {
        let keep = waiter.asks.keep?;
        if !self.shares.take(waiter.owner, units(key, waiter), MAX_PLACES) {
            return None;
        }
        if self.ends.is_empty() {
            self.clock.start(now, runs);
        }
        let end = Deadline::after(self.clock.at(now), keep);
        self.ends.insert((end, waiter.id));
        Some(end)
    }

    /// Returns a place that has ended.
    pub fn pop_over(&mut self) -> Option<WaiterId> {
        let (end, id) = *self.ends.first()?;
        self.clock.is_over(end).then_some(id)
    }

    /// Drops a place.
    pub fn give_back(&mut self, key: Key<'_>, waiter: &Waiter, end: Deadline) {
        if self.ends.remove(&(end, waiter.id)) {
            self.shares.give_back(waiter.owner, units(key, waiter));
        }
    }
}

/// The number of places that one counts for: a long name takes the memory of several.
fn units(key: Key<'_>, waiter: &Waiter) -> u64 {
    shares::units(key.name.len() + waiter.token.len() + waiter.asks.meta.len())
}

impl Node {
    /// Checks if requests get through: otherwise places must not end. The caller calls this often.
    pub fn look_at_places(&mut self, now: Instant, paused: bool) {
        let runs = !paused && self.durable.in_quarantine().is_none();
        let places = &mut self.waiting.places;
        if places.len() > 0 {
            places.clock.look(now, runs);
        }
    }

    /// Ends a request without the lock: its place is kept, if it has KEEP and there is room. Otherwise it
    /// leaves. False: it did not wait.
    pub(super) fn depart(&mut self, id: WaiterId, now: Instant) -> bool {
        let Some(at) = self.waiting.standing(id).cloned() else { return false };
        let key = at.key();
        let waiter = self.waiting.waiter(key, &at.token).filter(|waiter| waiter.is_present());
        let Some(keep) = waiter.map(|waiter| waiter.asks.keep) else { return false };
        if !self.keep_place(key, &at.token, now) {
            self.waiting.places.refused += u64::from(keep.is_some());
            self.leave_later(key, &at.token, now);
        }
        true
    }

    /// Keeps the place of a request that ends, if it has KEEP and there is room.
    pub(super) fn keep_place(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> bool {
        let runs = self.durable.in_quarantine().is_none();
        self.waiting.keep_place(key, token, runs, now)
    }

    /// Ends places of clients that did not come back. Returns the rest of the budget.
    pub(super) fn end_places(&mut self, budget: usize, now: Instant) -> usize {
        let mut left = budget;
        while left > 0
            && let Some(id) = self.waiting.places.pop_over()
        {
            // Dismissed waiters end with their queue.
            let Some(at) = self.waiting.standing(id).cloned() else { break };
            self.leave_later(at.key(), &at.token, now);
            left -= 1;
        }
        left
    }
}
