//! The durable state of a node: its promise in the state file, and what follows from it: the fences that
//! it may hand out, the leases that it may grant, and the times in which it grants nothing.

use super::bound_tracker::{BoundTracker, Longer, TooManyLong, add_held};
use super::fences::Counter;
use super::keys_ahead::KeyAhead;
use super::lease_bound::{KeyHash, LeaseBound};
use super::promise::Promise;
use super::quarantine::{Cause, Policy, Quarantine, Start};
use crate::limits::MAX_FENCE_AHEAD;
use crate::words::{Deadline, Fence, Instant, Key, Millis, Owner, Time};

/// The state of a node that its promise carries over a crash.
#[derive(Debug, Default)]
pub struct Durable {
    pub(crate) counter: Counter,
    pub(crate) leases: BoundTracker,
    /// The node grants nothing until the quarantine is over, and at some keys for longer.
    quarantine: Option<Quarantine>,
    /// The primary's promise, as this replica knows it.
    primary: Primary,
    /// True if the lease bounds in the state file are older than the primary's promise.
    is_outdated: bool,
    /// Lease bound of possibly forgotten leases in the state file, beside `leases`, and the time of that write.
    said_forgotten: (LeaseBound, Instant),
    /// True if the state file claims more than is true; dlock must write it before the next grant.
    in_doubt: bool,
}

/// The settings that the promise depends on.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// `dlock.usual-ttl`.
    pub usual_ttl: u64,
    /// The longest lease of which a promoted replica may not have heard.
    pub untold: Millis,
    /// The longest lease that a node without a state file may have granted before.
    pub newborn: Millis,
    /// `dlock.quarantine`.
    pub quarantine: Policy,
}

impl Terms {
    /// The promise that a node without a state file may have lost with its disk. `None`: the node is new. A larger
    /// fence was never handed out, for none is accepted.
    #[must_use]
    pub fn lost(&self, unix: u64) -> Option<Promise> {
        let bound = LeaseBound::usual_of(self.newborn);
        let fence = Fence(unix.saturating_add(MAX_FENCE_AHEAD));
        (self.newborn.0 > 0).then(|| Promise { fence, bound, ..Promise::default() })
    }
}

/// A replica's knowledge of its primary's promise.
#[derive(Debug, Default)]
struct Primary {
    /// The replica's fences start above this one when it is promoted.
    fence: Fence,
    /// The primary's Unix time of the promise.
    unix: u64,
    bound: Told,
    /// The leases that the primary may have forgotten, as told since this replica has its data set.
    quarantine: Option<Quarantine>,
}

/// A replica's knowledge of its primary's lease bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Told {
    /// The replica has no data set and no bound, only the leases that it was sent one by one.
    #[default]
    Nothing,
    /// The replica has its primary's data set, but no word of leases that may be missing in it.
    DataSet,
    /// The primary has sent its bound.
    Bound(LeaseBound),
}

/// The fences.
impl Durable {
    /// The largest fence handed out or heard of.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.counter.last()
    }

    /// The largest fence of all keys but those that are farther ahead.
    #[must_use]
    pub fn fence_of_all(&self) -> Fence {
        self.counter.last_of_all()
    }

    /// The keys that are farther ahead, and their fences.
    pub fn ahead(&self) -> impl Iterator<Item = (KeyAhead, Fence)> + '_ {
        self.counter.ahead()
    }

    /// Takes note of the current time.
    pub fn look(&mut self, time: Time) {
        self.counter.look(time);
    }

    /// The current time of the fences, in µs of Unix time.
    #[must_use]
    pub fn unix(&self) -> u64 {
        self.counter.unix()
    }

    /// The number of keys whose fences are remembered one by one.
    #[must_use]
    pub fn keys_ahead(&self) -> usize {
        self.counter.keys_ahead()
    }

    /// Takes note of a fence that another node handed out at the key, which it led until now.
    pub fn led_elsewhere(&mut self, key: Key<'_>, fence: Fence) {
        self.counter.learn(key.name, fence, true);
    }

    /// True if a fence from outside is so far ahead that no node with a clock like this one's can
    /// have handed it out.
    #[must_use]
    pub fn is_too_far(&self, fence: Fence) -> bool {
        fence > self.counter.farthest()
    }

    /// True if there is room to remember a fence that arrives with a lock.
    #[must_use]
    pub fn has_room_for(&self, key: Key<'_>, fence: Fence) -> bool {
        !self.counter.needs_room(key.name, fence)
            || self.counter.has_room(key.name, Owner::default())
    }
}

/// The life of a node.
impl Durable {
    /// Resumes from the promise in the state file.
    pub fn resume(&mut self, before: &Promise, now: Instant) {
        self.counter.had_reached(before.unix, now);
        self.counter.raise_all(before.fence);
        self.leases.promise(before.bound.clone());
    }

    /// Begins to serve with the loaded data set, if there is one.
    pub fn begin(&mut self, start: &Start<'_>, terms: &Terms, now: Instant) {
        self.leases.restart(start.held.clone());
        // The log's copy of the primary's promise is older than the state file.
        (self.primary.bound, self.primary.quarantine) = (Told::Nothing, None);
        if let Some((cause, bound)) = start.forgotten(terms.newborn) {
            self.quarantine(cause, &bound, terms.quarantine, now);
        }
    }

    /// Promotes this replica. It has the leases that it was sent, but not those that
    /// were on their way.
    pub fn promoted(&mut self, terms: &Terms, now: Instant) {
        let (mut bound, mut cause) = (self.leases.least(), Cause::Promoted);
        if let Some(told) = self.told() {
            bound = bound.join(told);
        }
        let unknown = self.unknown(terms, now);
        if self.primary.bound == Told::DataSet && !bound.covers(&unknown) {
            cause = Cause::Untold;
        }
        self.quarantine(cause, &bound.join(&unknown), terms.quarantine, now);
    }

    /// Notes that another data set has replaced this primary's.
    pub fn replaced(&mut self, policy: Policy, now: Instant) {
        self.quarantine(Cause::Replaced, &self.leases.least(), policy, now);
    }

    /// Notes that this replica has its primary's data set.
    pub fn synced(&mut self) {
        (self.primary.bound, self.primary.quarantine) = (Told::DataSet, None);
    }

    /// Takes over the primary's promise: some of its grants may not have arrived.
    pub fn inherit(&mut self, promise: Promise, now: Instant) {
        self.is_outdated |= self.told().is_none();
        let primary = &mut self.primary;
        primary.fence = primary.fence.max(promise.fence);
        primary.unix = primary.unix.max(promise.unix);
        primary.bound = Told::Bound(promise.bound);
        primary.quarantine = Quarantine::begin(None, Cause::Promoted, &promise.quarantine, now);
    }

    /// Makes this node decide from now on.
    pub fn lead(&mut self, time: Time) {
        self.counter.look(time);
        self.counter.had_reached(self.primary.unix, time.now);
        self.counter.raise_all(self.primary.fence);
        self.counter.begin();
        (self.primary.bound, self.primary.quarantine) = (Told::Nothing, None);
    }
}

/// The state file.
impl Durable {
    /// True if dlock should write the state file, though no grant waits for it. `follows`: a primary decides.
    #[must_use]
    pub fn should_promise(&mut self, follows: bool, terms: &Terms, time: Time) -> bool {
        self.counter.look(time);
        let told = self.told().is_some_and(|told| !self.leases.said().covers(told));
        let fence = follows && !self.counter.allows(self.primary.fence);
        let outdated = self.is_outdated || self.says_forgotten_wrongly(terms, time.now);
        told || fence || outdated || self.counter.runs_low() || self.leases.is_stale(time.now)
    }

    /// True if the state file says too little of possibly forgotten leases, or too much: after a crash, too much
    /// would bring a quarantine without need.
    fn says_forgotten_wrongly(&self, terms: &Terms, now: Instant) -> bool {
        let (said, since) = &self.said_forgotten;
        let forgotten = self.forgotten(terms, now);
        let passed = now.since(*since) / 1_000;
        // The quarantine ran out, or an operator ended it early, here or at the primary.
        let ended = |said: Millis, left: Millis| {
            said.0 > 0 && (left.0 == 0 || said.0 > left.0 + passed + SLACK)
        };
        ended(said.usual(), forgotten.usual())
            || ended(said.longest(), forgotten.longest())
            || !said.covers(&forgotten)
    }

    /// Lease bound of the leases that this node may have forgotten, or would have if it were promoted now.
    fn forgotten(&self, terms: &Terms, now: Instant) -> LeaseBound {
        let own = self.quarantine.as_ref().map(|quarantine| quarantine.left(now));
        let mut all = self.unknown(terms, now).join(&own.unwrap_or_default());
        all.fit();
        all
    }

    /// Lease bound of the leases unknown to this replica: its primary did not know them
    /// either, or granted them after it copied its data set.
    fn unknown(&self, terms: &Terms, now: Instant) -> LeaseBound {
        match &self.primary.bound {
            Told::Nothing => LeaseBound::default(),
            // The operator may know a better value.
            Told::DataSet => LeaseBound::usual_of(terms.untold),
            Told::Bound(_) => {
                let told = self.primary.quarantine.as_ref().map(|told| told.left(now));
                told.unwrap_or_default()
            }
        }
    }

    /// The promise to write next. `held`: each held lease's end and key name, the latest end first; `evicted`:
    /// the longest time left of evicted leases. The caller must write it at once. `follows`: a primary decides.
    pub fn next_promise(
        &mut self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        evicted: Millis,
        follows: bool,
        terms: &Terms,
        time: Time,
    ) -> Promise {
        self.counter.look(time);
        let mut needed = match self.told() {
            Some(told) => told.clone(),
            // A replica without its primary's promise does not know what it may lack.
            None if follows => self.leases.said().clone(),
            None => LeaseBound::default(),
        };
        needed.raise_usual(evicted);
        let bound = self.leases.renew(&needed, left(held, time.now), terms.usual_ttl, time.now);
        // A replica that restarts must go on above its primary's fence, whoever promotes it.
        let fence = self.counter.to_reserve(Fence(0)).max(self.primary.fence);
        self.ask(fence, bound, terms, time)
    }

    /// The promise of a shutdown, for a node that leads and is not in quarantine: exactly
    /// the present state.
    #[must_use]
    pub fn last_promise(
        &self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        evicted: Millis,
        usual_ttl: u64,
        time: Time,
    ) -> Promise {
        let mut bound = bound_of(held, usual_ttl, time.now);
        bound.raise_usual(evicted);
        let (fence, unix) = (self.counter.last(), self.counter.reached());
        Promise { fence, unix, bound, ..Promise::default() }
    }

    /// Notes that the promise is in the state file.
    pub fn promised(&mut self, promise: Promise) {
        self.counter.promised(promise.fence);
        self.leases.promise(promise.bound);
        self.said_forgotten.0 = promise.quarantine;
    }

    /// Sets whether the state file claims more than is true. While it does, the node grants nothing until the
    /// file is written again.
    pub fn doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }

    /// True if the state file vouches for a fence and a lease.
    #[must_use]
    pub fn is_said(&self, name: &[u8], fence: Fence, ttl: Millis) -> bool {
        self.counter.allows(fence) && self.leases.covers(name, ttl) && !self.in_doubt
    }

    /// The promise that vouches for a fence and a lease. The caller must write it at once.
    /// Without an `owner` another node grants the lease, and this one does not refuse it.
    ///
    /// # Errors
    /// Fails if there is no room for a lease this long.
    pub fn say_more(
        &mut self,
        name: &[u8],
        (fence, ttl): (Fence, Millis),
        owner: Option<Owner>,
        terms: &Terms,
        time: Time,
    ) -> Result<Promise, TooManyLong> {
        let longer = Longer { key: KeyHash::of(name), ttl, owner, usual_ttl: terms.usual_ttl };
        let bound = self.leases.raise(longer, time.now)?;
        let fence = self.counter.to_reserve(fence);
        Ok(self.ask(fence, bound, terms, time))
    }

    /// True if the state file vouches for all fences and leases known here.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.counter.allows(self.counter.last()) && self.leases.is_said()
    }

    /// The lease bound in the state file.
    #[must_use]
    pub fn bound(&self) -> &LeaseBound {
        self.leases.said()
    }

    /// True if the state file vouches for the first fence of a new key.
    #[must_use]
    pub fn is_vouched_for(&self) -> bool {
        let first = self.counter.first();
        !self.in_doubt && self.leases.is_said() && first.is_none_or(|f| self.counter.allows(f))
    }

    /// The promise for replicas. It counts possibly forgotten leases as such: a replica that takes over waits
    /// for the time that is then left of them.
    #[must_use]
    pub fn promise(&self, terms: &Terms, time: Time) -> Promise {
        let (bound, quarantine) = (self.leases.said().clone(), self.forgotten(terms, time.now));
        Promise { fence: self.counter.reserved(), unix: self.counter.reached(), bound, quarantine }
    }

    fn told(&self) -> Option<&LeaseBound> {
        match &self.primary.bound {
            Told::Bound(bound) => Some(bound),
            _ => None,
        }
    }

    fn ask(&mut self, fence: Fence, bound: LeaseBound, terms: &Terms, time: Time) -> Promise {
        self.counter.asked(fence);
        self.leases.asked(&bound);
        let quarantine = self.forgotten(terms, time.now);
        self.said_forgotten.1 = time.now;
        self.is_outdated = false;
        Promise { fence, unix: self.counter.reached(), bound, quarantine }
    }
}

/// Quarantine.
impl Durable {
    /// The quarantine, if there is one.
    #[must_use]
    pub fn in_quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    /// True if the quarantine is not over yet for keys without a longer one of their own.
    #[must_use]
    pub fn is_in_quarantine(&self, policy: Policy, now: Instant) -> bool {
        self.has_quarantine(policy, |quarantine| !quarantine.until.is_over(now))
    }

    /// True if the quarantine is not over yet for some key.
    #[must_use]
    pub fn may_have_forgotten(&self, policy: Policy, now: Instant) -> bool {
        self.has_quarantine(policy, |quarantine| !quarantine.last().is_over(now))
    }

    fn has_quarantine(&self, policy: Policy, is_on: impl FnOnce(&Quarantine) -> bool) -> bool {
        policy != Policy::Off && self.quarantine.as_ref().is_some_and(is_on)
    }

    /// Time of the next check of the quarantine.
    #[must_use]
    pub fn quarantine_wakes(&self, policy: Policy) -> Option<Deadline> {
        let off = policy == Policy::Off;
        self.quarantine.as_ref().map(|all| if off { Deadline(0) } else { all.next() })
    }

    /// True if the node grants no key at all.
    #[must_use]
    pub fn refuses_all(&self) -> bool {
        self.quarantine.as_ref().is_some_and(Quarantine::is_for_all)
    }

    /// Ends a quarantine that is over, or that the operator does not want. True if it has ended for some keys.
    pub fn pass_quarantine(&mut self, policy: Policy, now: Instant) -> bool {
        let Some(quarantine) = &mut self.quarantine else { return false };
        let ends = quarantine.pass(now) || policy == Policy::Off;
        if ends && !self.may_have_forgotten(policy, now) {
            self.quarantine = None;
        }
        ends
    }

    /// The cause and the remaining time of the key's quarantine.
    #[must_use]
    pub fn kept_back(&self, name: &[u8], now: Instant) -> Option<(Cause, Millis)> {
        let quarantine = self.quarantine.as_ref()?;
        let end = quarantine.of(name);
        (!end.is_over(now)).then(|| (quarantine.cause, end.left(now)))
    }

    fn quarantine(&mut self, cause: Cause, bound: &LeaseBound, policy: Policy, now: Instant) {
        if let Some(length) = policy.length(bound) {
            self.quarantine = Quarantine::begin(self.quarantine.take(), cause, &length, now);
        }
    }
}

/// The lease bound of these leases: each one's end and key name, the latest end first.
#[must_use]
pub fn bound_of(
    held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
    usual_ttl: u64,
    now: Instant,
) -> LeaseBound {
    let mut bound = LeaseBound::default();
    add_held(&mut bound, left(held, now), usual_ttl, |_| Millis(0));
    bound
}

/// Tolerance for the end of a quarantine that is told again and again, in milliseconds.
const SLACK: u64 = 1_000;

/// The time left of these leases. Rounded down, by less than a millisecond: no server dies
/// and starts again that fast.
fn left<N: AsRef<[u8]>>(
    held: impl Iterator<Item = (Deadline, N)>,
    now: Instant,
) -> impl Iterator<Item = (Millis, N)> {
    held.map(move |(end, name)| (end.left(now), name))
}
