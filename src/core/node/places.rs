//! Places that are kept for those who are away.
//!
//! A place is a waiter that is away, and its turn is a short lease: there is nothing new between
//! free and held. So a client that comes back in time is served in the order in which it first came,
//! however it waits; and if many clients die at once, the others wait for one KEEP in all.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Node;
use super::pace::Pace;
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
    pub pace: Pace,
    /// How many leases tokens that are away have, by when they end. Those that somebody removed
    /// from outside are counted until then.
    leases: BTreeMap<Deadline, usize>,
    /// How many requests have gone without a place, for want of room.
    refused: u64,
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
        if self.pace.is_over(end) {
            Left::Nothing
        } else if end.is_over(self.pace.at(now)) {
            Left::Unread
        } else {
            Left::Some(end.left(self.pace.at(now)))
        }
    }

    /// When the first of them ends.
    pub fn next_end(&self) -> Option<Deadline> {
        self.ends.first().and_then(|(end, _)| self.pace.comes(*end))
    }

    /// Whether a place ends with the next turn.
    pub fn wait_for_turn(&self, now: Instant) -> bool {
        self.next_end().is_some_and(|end| end.is_over(now))
    }

    /// A place that has ended.
    pub fn pop_over(&mut self) -> Option<WaiterId> {
        let (end, id) = *self.ends.first()?;
        self.pace.is_over(end).then_some(id)
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

    /// Whether no token that is away can have a lease.
    pub fn have_no_lease(&self) -> bool {
        self.leases.is_empty()
    }

    /// Forgets the leases that are over, of which it was not told.
    pub fn forget_leases(&mut self) {
        while self.leases.first_key_value().is_some_and(|(end, _)| self.pace.has_heard(*end)) {
            self.leases.pop_first();
        }
    }
}

/// How many places one counts for: a long name takes the memory of several.
fn units(key: Key<'_>, waiter: &Waiter) -> u64 {
    let bytes = key.name.len() + waiter.token.len() + waiter.meta.len();
    1 + (bytes / BYTES_PER_PLACE) as u64
}

impl Node {
    /// How many places are kept for tokens that are away.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// How many tokens that are away have the lock: their turn has come.
    #[must_use]
    pub fn leases_away(&self) -> usize {
        self.places.leases.values().sum()
    }

    /// How many requests with KEEP have gone without a place, because there was no room.
    #[must_use]
    pub fn places_refused(&self) -> u64 {
        self.places.refused
    }

    /// What is left of a waiter's time: of its wait, or of its place. `None`: it has no end.
    #[must_use]
    pub fn left(&self, waiter: &Waiter, now: Instant) -> Option<Millis> {
        let now = if waiter.is_present() { now } else { self.places.pace.at(now) };
        waiter.until.map(|end| end.left(now))
    }

    /// Looks whether requests get through, so that places do not end while they do not. To be
    /// called often.
    pub fn look_at_places(&mut self, now: Instant, paused: bool) {
        self.finals.look(now);
        if self.places.len() > 0 || !self.places.have_no_lease() {
            self.places.pace.look(now, !paused && !self.refuses_all());
            self.places.forget_leases();
        }
    }

    /// A request ends without the lock: its place is kept, if it asked for that and there is room.
    /// Else it leaves. False: it did not wait.
    pub(super) fn depart(&mut self, id: WaiterId, now: Instant) -> bool {
        let Some(seat) = self.waiting.get(&id).cloned() else { return false };
        let key = seat.key();
        let there = self.queue(key).and_then(|queue| queue.get(&seat.token));
        let waits = there.is_some_and(Waiter::is_present);
        if waits && !self.keep_place(key, &seat.token, now) {
            self.leave_later(key, &seat.token, now);
        }
        waits
    }

    /// Keeps the place of a request that ends, if it asked for that and there is room.
    pub(super) fn keep_place(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> bool {
        let Some(waiter) = self.queue(key).and_then(|queue| queue.get(token)) else { return false };
        let Some(keep) = waiter.keep else { return false };
        let (id, owner, until, units) = (waiter.id, waiter.owner, waiter.until, units(key, waiter));
        if !self.places.shares.take(owner, units, self.settings.max_places) {
            self.places.refused += 1;
            return false;
        }
        if self.places.ends.is_empty() {
            self.places.pace.start(now, !self.refuses_all());
        }
        let end = Deadline::after(self.places.pace.at(now), keep);
        self.change_queue(key, |queue| queue.send_away(token, end));
        if let Some(until) = until {
            self.waits.remove(&(until, id));
        }
        self.places.ends.insert((end, id));
        true
    }

    /// Ends places whose clients did not come back. How much of the budget is left.
    pub(super) fn end_places(&mut self, budget: usize, now: Instant) -> usize {
        let mut left = budget;
        while left > 0
            && let Some(id) = self.places.pop_over()
        {
            let Some(seat) = self.waiting.get(&id).cloned() else { break };
            self.leave_later(seat.key(), &seat.token, now);
            left -= 1;
        }
        left
    }
}
