//! The lease bound of this node, which grows and shrinks: how much longer any lease can run, at most.
//!
//! After a crash the node may have forgotten leases. It does not know which, but it knows the
//! bound, which stands in its state file before a lease that long is granted. When so much time
//! has passed, every forgotten lease has ended.
//!
//! One bound for all keys would let one client with one long lease keep the whole node waiting. So
//! there is a usual bound, for all keys, and a few exceptions, each for one key (by its hash):
//!
//! - *Safe*: at any moment, of each lease that may be held, what is left is no more than the state
//!   file says of its key: what is usual, or the key's exception. While the file is being written,
//!   what it says is the less of before and after, for each key.
//! - A lease longer than that is written first. It makes an exception of its key while there are
//!   few; beyond, it raises the usual bound, up to `dlock.usual-ttl`. One still longer makes an
//!   exception while there is room, of which one user has half at most; and else it is refused.
//!   What is not granted here, but arrives or is replicated, is never refused: then the usual bound
//!   is raised. A lease of a minute is nothing that keeps anybody waiting: it is never an exception.
//! - Both shrink when nobody waits, to what is held and to what was asked for in the last five to
//!   ten minutes; an exception not before its key is free. Under pressure exceptions are
//!   remembered for a minute or two.
//! - What a client can force to be written is bounded: the usual bound is rounded up, and to a power
//!   of two if it grows again within a minute; so is an exception, once it grows; and a user forces
//!   no more than so many writes for exceptions within a minute.

use alloc::collections::BTreeMap;
use core::mem;

use super::lease_bound::{KeyHash, LeaseBound, no_further, rounded_up};
use crate::limits::{FEW_LONG_KEYS, GROWS_AGAIN, MAX_LONG_KEYS, MAX_LONG_WRITES, NEVER_LONG};
use crate::shares::Shares;
use crate::words::{Instant, Millis, Owner};

/// The bound, and what led to it.
#[derive(Clone, Debug)]
pub struct BoundTracker {
    /// What the state file says, at least, whatever has become of the last write.
    said: LeaseBound,
    /// The longest leases of this period, and of the one before.
    recent: [LeaseBound; 2],
    /// Whether the exceptions among those are said.
    says_long: bool,
    /// When this period began, and the one for exceptions.
    since: Option<Instant>,
    long_since: Instant,
    /// When the usual bound was raised for a grant.
    raised: Option<Instant>,
    /// Who has made the exceptions of this life.
    makers: BTreeMap<KeyHash, Owner>,
    /// What was written for exceptions in this minute, and when that began.
    forced: Shares,
    forced_since: Instant,
}

/// There is no room for one more key with a lease so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLong;

/// A lease that is longer than the state file says.
#[derive(Clone, Copy, Debug)]
pub struct Longer {
    /// Its key.
    pub key: KeyHash,
    /// Its length.
    pub ttl: Millis,
    /// For whom; `None`: it is not this node that grants it, and it is not refused.
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
    /// What the state file says.
    #[must_use]
    pub fn said(&self) -> &LeaseBound {
        &self.said
    }

    /// No lease that was granted or heard of can run longer.
    #[must_use]
    pub fn least(&self) -> LeaseBound {
        self.said.join(&self.recent())
    }

    /// Whether the state file says all that is known.
    #[must_use]
    pub fn is_said(&self) -> bool {
        let [this, before] = &self.recent;
        self.says_long && self.said.usual() >= this.usual().max(before.usual())
    }

    /// Whether a lease of this length may be granted at the key, by what the state file says. Most
    /// often what is usual is enough.
    #[must_use]
    pub fn covers(&self, name: &[u8], ttl: Millis) -> bool {
        let usual = ttl <= self.said.usual();
        self.is_said() && (usual || ttl <= self.said.of(KeyHash::of(name)))
    }

    /// A lease of this length was granted here, loaded, or replicated.
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

    /// What was granted so far is over or known: only what is held counts.
    pub fn restart(&mut self, held: LeaseBound) {
        self.recent = [held, LeaseBound::default()];
        self.look();
    }

    /// Whether the state file should say something else, though nobody waits for it.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        let period_is_over = self.since.is_none_or(|since| now.since(since) > PERIOD);
        !self.is_said() || period_is_over || self.is_pressed(now)
    }

    /// What the state file should say, when `needed` is known otherwise, and these are the leases
    /// that are `held`.
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

    /// What the state file must say before such a lease can be granted. It is going to be asked to.
    ///
    /// # Errors
    /// When there is no room for it.
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

    /// The state file is asked to say so: from now on it may say this, or still what it did.
    pub fn asked(&mut self, bound: &LeaseBound) {
        self.said = self.said.meet(bound);
        self.look();
    }

    /// The state file says so.
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

    /// Whether a lease that is longer than `all` says makes an exception of its key. Else what is
    /// usual grows.
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

    /// The same for a lease that this node is about to grant, which has to be written first.
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

    /// Whether there is room for one more exception. A user has no more of them than are left.
    fn has_room(&self, owner: Option<Owner>, all: &LeaseBound) -> bool {
        let left = MAX_LONG_KEYS.saturating_sub(all.long_keys());
        let own = self.makers.values().filter(|maker| Some(**maker) == owner).count();
        left > own
    }

    /// Forgets what was asked for long ago.
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

    /// Whether there are so many exceptions that they are not remembered for long.
    fn is_pressed(&self, now: Instant) -> bool {
        self.said.long_keys() > MAX_LONG_KEYS / 4 && now.since(self.long_since) > MINUTE
    }
}

/// What is said at least, for the leases that are held, each by how much is left of it and its key,
/// the one that ends last first. An exception is no less than it `was`, as long as its lease is
/// held: so it need not be written again whenever the holder renews.
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

/// Up to here a lease keeps nobody waiting for long.
fn never_long(usual_ttl: u64) -> Millis {
    Millis(NEVER_LONG.min(usual_ttl))
}

/// To what a bound grows for a lease. In few steps, if it grows `again`.
fn grown(ttl: Millis, again: bool) -> Millis {
    if again { Millis(ttl.0.next_power_of_two()) } else { rounded_up(ttl) }
}

const MINUTE: u64 = 60 * 1_000_000;
/// For how long the longest lease is remembered, at least: five minutes, in µs.
const PERIOD: u64 = 5 * MINUTE;

#[cfg(test)]
mod tests;
