//! The lease bound of this node, which grows and shrinks: the longest time that any lease can still run.
//!
//! After a crash the node may have forgotten leases. It does not know which, but it knows the
//! bound: the state file has it before the node grants a lease that long. When this much time
//! has passed, every forgotten lease has ended.
//!
//! With one bound for all keys, one long lease of one client would keep the whole node waiting. So
//! there is a usual bound for all keys, and a few exceptions, each for one key (by its hash):
//!
//! - *Safe*: at any moment, each held lease runs no longer than the state file says of its key: the usual
//!   bound, or the key's exception. While dlock writes the file, the smaller of the old and the new value
//!   counts for each key.
//! - dlock writes the file before it grants a longer lease. The lease makes an exception of its key while
//!   there are few exceptions; after that it raises the usual bound, up to `dlock.usual-ttl`. A still longer
//!   lease makes an exception while there is room, of which one user has half at most; else dlock refuses
//!   it. A lease that another node granted is never refused: it then raises the usual bound. A lease of a
//!   minute keeps nobody waiting long: it is never an exception.
//! - Both shrink when no grant waits, to the held leases and those of the last five to ten
//!   minutes; an exception not before its key is free. Under pressure dlock remembers exceptions
//!   for a minute or two.
//! - A client can force few writes: the usual bound is rounded up, and to a power of two if it grows
//!   again within a minute; so is an exception, once it grows; and within a minute one user forces
//!   a limited number of writes for exceptions.

use alloc::collections::BTreeMap;
use core::mem;

use super::lease_bound::{KeyHash, LeaseBound, no_further, rounded_up};
use crate::limits::{FEW_LONG_KEYS, GROWS_AGAIN, MAX_LONG_KEYS, MAX_LONG_WRITES, NEVER_LONG};
use crate::shares::Shares;
use crate::words::{Instant, Millis, Owner};

/// The lease bound, and the leases that led to it.
#[derive(Clone, Debug)]
pub struct BoundTracker {
    /// The bound that the state file has at least, even if the last write failed.
    said: LeaseBound,
    /// The longest leases of this period, and of the one before.
    recent: [LeaseBound; 2],
    /// True if the state file covers the exceptions in `recent`.
    says_long: bool,
    /// Beginning of this period, and of the one for exceptions.
    since: Option<Instant>,
    long_since: Instant,
    /// Time at which a grant last raised the usual bound.
    raised: Option<Instant>,
    /// The users who made the exceptions, since this node started.
    makers: BTreeMap<KeyHash, Owner>,
    /// The writes forced by exceptions in this minute, and the beginning of that minute.
    forced: Shares,
    forced_since: Instant,
}

/// There is no room for one more key with a lease this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLong;

/// A lease that is longer than the bound in the state file.
#[derive(Clone, Copy, Debug)]
pub struct Longer {
    /// The key.
    pub key: KeyHash,
    /// The length.
    pub ttl: Millis,
    /// The user; `None`: another node grants the lease, and this one does not refuse it.
    pub owner: Option<Owner>,
    /// `dlock.usual-ttl`.
    pub usual_ttl: u64,
}

impl Default for BoundTracker {
    fn default() -> BoundTracker {
        BoundTracker {
            said: LeaseBound::default(),
            recent: <[LeaseBound; 2]>::default(),
            says_long: true,
            since: None,
            long_since: Instant(0),
            raised: None,
            makers: BTreeMap::new(),
            forced: Shares::default(),
            forced_since: Instant(0),
        }
    }
}

impl BoundTracker {
    /// The bound in the state file.
    #[must_use]
    pub fn said(&self) -> &LeaseBound {
        &self.said
    }

    /// The longest possible run of any lease that this node granted or heard of.
    #[must_use]
    pub fn least(&self) -> LeaseBound {
        self.said.join(&self.recent())
    }

    /// True if the state file covers all known leases.
    #[must_use]
    pub fn is_said(&self) -> bool {
        let [this, before] = &self.recent;
        self.says_long && self.said.usual() >= this.usual().max(before.usual())
    }

    /// True if the state file allows a lease of this length at the key. Most often the usual bound
    /// is enough.
    #[must_use]
    pub fn covers(&self, name: &[u8], ttl: Millis) -> bool {
        let usual = ttl <= self.said.usual();
        self.is_said() && (usual || ttl <= self.said.of(KeyHash::of(name)))
    }

    /// Takes note of a lease of this length: granted here, loaded or replicated.
    pub fn saw(&mut self, name: &[u8], ttl: Millis, usual_ttl: u64) {
        let [this, _] = &mut self.recent;
        if ttl <= self.said.usual() {
            return this.raise_usual(ttl);
        }
        let key = KeyHash::of(name);
        let is_exception = ttl <= self.said.of(key) || {
            let longer = Longer { key, ttl, owner: None, usual_ttl };
            self.is_exception(longer, &self.least()) == Ok(true)
        };
        let [this, _] = &mut self.recent;
        if is_exception {
            this.raise(key, ttl)
        } else {
            this.raise_usual(ttl)
        }
        self.look();
    }

    /// Forgets earlier leases, which are over or known: only the held ones count.
    pub fn restart(&mut self, held: LeaseBound) {
        self.recent = [held, LeaseBound::default()];
        self.look();
    }

    /// True if dlock should rewrite the state file, though no grant waits for it.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        let period_is_over = self.since.is_none_or(|since| now.since(since) > PERIOD);
        !self.is_said() || period_is_over || self.is_pressed(now)
    }

    /// The bound to write next. `needed`: a bound known from elsewhere; `held`: the leases
    /// that are held.
    pub fn renew(
        &mut self,
        needed: &LeaseBound,
        held: impl Iterator<Item = (Millis, impl AsRef<[u8]>)>,
        usual_ttl: u64,
        now: Instant,
    ) -> LeaseBound {
        self.forget_old(now);
        let mut needed = needed.join(&self.recent());
        let said = |key| self.said.exception(key).unwrap_or(Millis(0));
        add_held(&mut needed, held, usual_ttl, said);
        needed.rounded_up(usual_ttl)
    }

    /// The bound that the state file must have before this lease. The caller must write it at once.
    ///
    /// # Errors
    /// Fails if there is no room for the lease.
    pub fn raise(&mut self, longer: Longer, now: Instant) -> Result<LeaseBound, TooManyLong> {
        let Longer { key, ttl, owner, usual_ttl } = longer;
        let mut next = self.said.join(&self.recent().rounded_up(usual_ttl));
        if ttl > next.of(key) {
            let grown = |again| no_further(grown(ttl, again), ttl, usual_ttl);
            if self.makes_exception(longer, &next, now)? {
                next.raise(key, grown(next.exception(key).is_some()));
                self.makers.extend(owner.map(|owner| (key, owner)));
            } else {
                let again = self.raised.is_some_and(|at| now.since(at) < GROWS_AGAIN);
                self.raised = Some(now);
                next.raise_usual(grown(again));
            }
        }
        next.fit();
        Ok(next)
    }

    /// Notes that a write of this bound has begun: the file may have this bound, or still the one before.
    pub fn asked(&mut self, bound: &LeaseBound) {
        self.said = self.said.meet(bound);
        self.look();
    }

    /// Notes that the state file has this bound.
    pub fn promise(&mut self, bound: LeaseBound) {
        self.said = bound;
        self.makers.retain(|key, _| self.said.exception(*key).is_some());
        self.look();
    }

    fn recent(&self) -> LeaseBound {
        let [this, before] = &self.recent;
        this.join(before)
    }

    fn look(&mut self) {
        let said = |recent: &LeaseBound| recent.long().all(|(key, ttl)| ttl <= self.said.of(key));
        self.says_long = self.recent.iter().all(said);
    }

    /// True if a lease that is longer than `all` makes an exception of its key; false if it raises
    /// the usual bound.
    fn is_exception(&self, longer: Longer, all: &LeaseBound) -> Result<bool, TooManyLong> {
        let Longer { key, ttl, owner, usual_ttl } = longer;
        if ttl <= never_long(usual_ttl) {
            return Ok(false);
        }
        let is_usual = ttl.0 <= usual_ttl;
        let is_one = all.exception(key).is_some();
        let wanted = is_one || !is_usual || all.long_keys() < FEW_LONG_KEYS;
        match wanted && (is_one || self.has_room(owner, all)) {
            false if !is_usual && owner.is_some() => Err(TooManyLong),
            makes => Ok(makes),
        }
    }

    /// Like [`BoundTracker::is_exception`], for a lease that this node is about to grant: counts the write.
    fn makes_exception(
        &mut self,
        longer: Longer,
        all: &LeaseBound,
        now: Instant,
    ) -> Result<bool, TooManyLong> {
        let makes = self.is_exception(longer, all)?;
        let Some(owner) = longer.owner.filter(|_| makes) else { return Ok(makes) };
        if now.since(self.forced_since) >= MINUTE {
            (self.forced, self.forced_since) = (Shares::default(), now);
        }
        match self.forced.take(owner, 1, 2 * MAX_LONG_WRITES) {
            false if longer.ttl.0 > longer.usual_ttl => Err(TooManyLong),
            may => Ok(may),
        }
    }

    /// True if there is room for one more exception. A user has no more of them than are left.
    fn has_room(&self, owner: Option<Owner>, all: &LeaseBound) -> bool {
        let left = MAX_LONG_KEYS.saturating_sub(all.long_keys());
        let own = self.makers.values().filter(|maker| Some(**maker) == owner).count();
        left > own
    }

    /// Forgets the lengths asked for long ago.
    fn forget_old(&mut self, now: Instant) {
        if now.since(*self.since.get_or_insert(now)) > PERIOD {
            let this = mem::take(&mut self.recent[0]);
            self.recent[1] = this;
            (self.since, self.long_since) = (Some(now), now);
        } else if self.is_pressed(now) {
            let [this, before] = &mut self.recent;
            before.take_long();
            *before = before.join(&this.take_long());
            self.long_since = now;
        }
    }

    /// True if there are so many exceptions that dlock remembers them only briefly.
    fn is_pressed(&self, now: Instant) -> bool {
        self.said.long_keys() > MAX_LONG_KEYS / 4 && now.since(self.long_since) > MINUTE
    }
}

/// Adds the held leases to a bound: each one's time left and key, the latest end first. An exception
/// stays at least as long as it `was` while its lease is held, so that a renewal does not force
/// a write.
pub fn add_held(
    needed: &mut LeaseBound,
    held: impl Iterator<Item = (Millis, impl AsRef<[u8]>)>,
    usual_ttl: u64,
    was: impl Fn(KeyHash) -> Millis,
) {
    for (left, name) in held {
        if left <= needed.usual() {
            break;
        }
        if left <= never_long(usual_ttl) {
            needed.raise_usual(left);
            break;
        }
        let key = KeyHash::of(name.as_ref());
        needed.raise(key, left.max(was(key)));
        needed.fit();
    }
    needed.fit();
}

/// A lease up to this length keeps nobody waiting for long.
fn never_long(usual_ttl: u64) -> Millis {
    Millis(NEVER_LONG.min(usual_ttl))
}

/// The new bound for a lease; a power of two, so that there are few steps, if it grows `again`.
fn grown(ttl: Millis, again: bool) -> Millis {
    if again { Millis(ttl.0.next_power_of_two()) } else { rounded_up(ttl) }
}

const MINUTE: u64 = 60 * 1_000_000;
/// The longest lease is remembered at least this long: five minutes, in µs.
const PERIOD: u64 = 5 * MINUTE;

#[cfg(test)]
mod tests;
