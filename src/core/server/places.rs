//! Places that are kept for those who are away.
//!
//! A place is a waiter that is away, and its turn is a short lease: there is nothing new between
//! free and held. So a client that comes back in time is served in the order in which it first came,
//! however it waits; and if many clients die at once, the others wait for one KEEP in all.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Node;
use super::place_clock::PlaceClock;
use crate::limits::BYTES_PER_PLACE;
use crate::queue::Waiter;
use crate::shares::Shares;
use crate::words::{Deadline, Instant, Key, Millis, WaiterId};

/// What is kept for those who are away.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// When each place ends, by the clock of places.
    ends: BTreeSet<(Deadline, WaiterId)>,
    shares: Shares,
    pub clock: PlaceClock,
    /// How many leases tokens that are away have, by when they end. Those that somebody removed
    /// from outside are counted until then.
    leases: BTreeMap<Deadline, usize>,
    /// How many requests have gone without a place, for want of room.
    pub refused: u64,
}

/// What is left of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// So much.
    Some(Millis),
    /// Nothing, unless its owner's request has arrived and has not been read yet.
    Unread,
    /// Nothing.
    Nothing,
}

impl Places {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// None is kept any more.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.shares = Shares::default();
        self.leases.clear();
    }

    /// What is left of the place that ends then.
    pub fn left(&self, end: Deadline, now: Instant) -> Left {
        if self.clock.is_over(end) {
            Left::Nothing
        } else if end.is_over(self.clock.at(now)) {
            Left::Unread
        } else {
            Left::Some(end.left(self.clock.at(now)))
        }
    }

    /// When the first of them ends.
    pub fn next_end(&self) -> Option<Deadline> {
        self.ends.first().and_then(|(end, _)| self.clock.comes(*end))
    }

    /// Whether a place ends with the next iteration of the event loop.
    pub fn end_next(&self, now: Instant) -> bool {
        self.next_end().is_some_and(|end| end.is_over(now))
    }

    /// Keeps the place of a request that ends, if it asked for that and there is room for `most`: until when.
    /// `runs`: requests get through now.
    pub fn take(
        &mut self,
        key: Key<'_>,
        waiter: &Waiter,
        most: u64,
        runs: bool,
        now: Instant,
    ) -> Option<Deadline> {
        let keep = waiter.asks.keep?;
        if !self.shares.take(waiter.owner, units(key, waiter), most) {
            self.refused += 1;
            return None;
        }
        if self.ends.is_empty() {
            self.clock.start(now, runs);
        }
        let end = Deadline::after(self.clock.at(now), keep);
        self.ends.insert((end, waiter.id));
        Some(end)
    }

    /// A place that has ended.
    pub fn pop_over(&mut self) -> Option<WaiterId> {
        let (end, id) = *self.ends.first()?;
        self.clock.is_over(end).then_some(id)
    }

    /// A place is not kept any more.
    pub fn give_back(&mut self, key: Key<'_>, waiter: &Waiter, end: Deadline) {
        if self.ends.remove(&(end, waiter.id)) {
            self.shares.give_back(waiter.owner, units(key, waiter));
        }
    }

    /// A token that is away has a lease.
    pub fn lease_began(&mut self, end: Deadline) {
        *self.leases.entry(end).or_default() += 1;
    }

    /// The token has no lease any more, or has heard of it.
    pub fn lease_ended(&mut self, end: Deadline) {
        if let Some(count) = self.leases.get_mut(&end) {
            *count -= 1;
            if *count == 0 {
                self.leases.remove(&end);
            }
        }
    }

    /// How many leases tokens that are away have.
    pub fn leases(&self) -> usize {
        self.leases.values().sum()
    }

    /// Whether no token that is away can have a lease.
    pub fn have_no_lease(&self) -> bool {
        self.leases.is_empty()
    }

    /// Forgets the leases that are over, of which it was not told.
    pub fn forget_leases(&mut self) {
        while self.leases.first_key_value().is_some_and(|(end, _)| self.clock.has_heard(*end)) {
            self.leases.pop_first();
        }
    }
}

/// How many places one counts for: a long name takes the memory of several.
fn units(key: Key<'_>, waiter: &Waiter) -> u64 {
    let bytes = key.name.len() + waiter.token.len() + waiter.asks.meta.len();
    1 + (bytes / BYTES_PER_PLACE) as u64
}

impl Node {
    /// Looks whether requests get through, so that places do not end while they do not. To be
    /// called often.
    pub fn look_at_places(&mut self, now: Instant, paused: bool) {
        self.final_tokens.look(now);
        let runs = !paused && !self.durable.refuses_all();
        let places = &mut self.waiting.places;
        if places.len() > 0 || !places.have_no_lease() {
            places.clock.look(now, runs);
            places.forget_leases();
        }
    }

    /// A request ends without the lock: its place is kept, if it asked for that and there is room.
    /// Else it leaves. False: it did not wait.
    pub(super) fn depart(&mut self, id: WaiterId, now: Instant) -> bool {
        let Some(at) = self.waiting.standing(id).cloned() else { return false };
        let key = at.key();
        let waits = self.waiting.waiter(key, &at.token).is_some_and(Waiter::is_present);
        if waits && !self.keep_place(key, &at.token, now) {
            self.leave_later(key, &at.token, now);
        }
        waits
    }

    /// Keeps the place of a request that ends, if it asked for that and there is room.
    pub(super) fn keep_place(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> bool {
        let (most, runs) = (self.settings.max_places, !self.durable.refuses_all());
        self.waiting.keep_place(key, token, most, runs, now)
    }

    /// Ends places whose clients did not come back. How much of the budget is left.
    pub(super) fn end_places(&mut self, budget: usize, now: Instant) -> usize {
        let mut left = budget;
        while left > 0
            && let Some(id) = self.waiting.places.pop_over()
        {
            // Those who were dismissed end with the others there.
            let Some(at) = self.waiting.standing(id).cloned() else { break };
            self.leave_later(at.key(), &at.token, now);
            left -= 1;
        }
        left
    }
}
