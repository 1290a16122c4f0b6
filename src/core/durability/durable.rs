//! What a node has promised in its state file, and what follows: numbers it may hand out, leases it
//! may grant, and times in which it grants nothing.

use super::bound_tracker::{BoundTracker, Longer, TooManyLong, add_held};
use super::fences::Counter;
use super::keys_ahead::KeyAhead;
use super::lease_bound::{KeyHash, LeaseBound};
use super::promise::Promise;
use super::quarantine::{Cause, Policy, Quarantine, Start};
use crate::words::{Deadline, Fence, Instant, Key, Millis, Owner, Time};

/// What of a node outlives a crash, by its promise.
#[derive(Debug, Default)]
pub struct Durable {
    pub(crate) counter: Counter,
    pub(crate) leases: BoundTracker,
    /// Nothing is granted until it is over, and at some keys for longer.
    quarantine: Option<Quarantine>,
    /// What the primary has told this replica.
    primary: Primary,
    /// The state file says of how long leases run what was true before the primary told it.
    is_outdated: bool,
    /// What the state file says beyond `leases`, and since when: how long what may have been forgotten can run.
    said_forgotten: (LeaseBound, Instant),
    /// The state file claims more than is true, and must be written before anything is granted.
    in_doubt: bool,
}

/// What an operator says of it.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// `dlock.usual-ttl`.
    pub usual_ttl: u64,
    /// How long leases can run of which a promoted replica was told nothing.
    pub untold: Millis,
    /// `dlock.quarantine`.
    pub quarantine: Policy,
}

/// What a replica knows of its primary's promise.
#[derive(Debug, Default)]
struct Primary {
    /// Its successor starts above.
    fence: Fence,
    /// The Unix time there when it promised.
    unix: u64,
    bound: Told,
    /// What it may have forgotten, and has told since this replica has its data.
    quarantine: Option<Quarantine>,
}

/// What a replica knows of how long any lease of its primary can run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Told {
    /// It has nothing of its primary yet but what it was sent lease by lease.
    #[default]
    Nothing,
    /// It has its primary's data set, and no word of what may be missing in it.
    DataSet,
    /// The primary has told.
    Bound(LeaseBound),
}

/// Its fences.
impl Durable {
    /// The largest fence handed out or heard of.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.counter.last()
    }

    /// The largest fence at a key that is not among those that are farther ahead.
    #[must_use]
    pub fn fence_of_all(&self) -> Fence {
        self.counter.last_of_all()
    }

    /// The keys that are farther ahead, and their fences.
    pub fn ahead(&self) -> impl Iterator<Item = (KeyAhead, Fence)> + '_ {
        self.counter.ahead()
    }

    /// What time it is now.
    pub fn look(&mut self, time: Time) {
        self.counter.look(time);
    }

    /// What time it is, as far as fences go, in µs of Unix time.
    #[must_use]
    pub fn unix(&self) -> u64 {
        self.counter.unix()
    }

    /// How many keys have fences that are remembered for them alone.
    #[must_use]
    pub fn keys_ahead(&self) -> usize {
        self.counter.keys_ahead()
    }

    /// Another node has handed out this fence of the key, and led it until now.
    pub fn led_elsewhere(&mut self, key: Key<'_>, fence: Fence) {
        self.counter.learn(key.name, fence, true);
    }

    /// Whether a fence from outside is so far ahead that no node with a clock like this one's can
    /// have handed it out.
    #[must_use]
    pub fn is_too_far(&self, fence: Fence) -> bool {
        fence > self.counter.farthest()
    }

    /// Whether there is room to remember a fence that a lock brings along.
    #[must_use]
    pub fn has_room_for(&self, key: Key<'_>, fence: Fence) -> bool {
        !self.counter.needs_room(key.name, fence)
            || self.counter.has_room(key.name, Owner::default())
    }
}

/// The life of a node.
impl Durable {
    /// A state file was there: the node goes on from what it said.
    pub fn resume(&mut self, before: &Promise, now: Instant) {
        self.counter.had_reached(before.unix, now);
        self.counter.raise_all(before.fence);
        self.leases.promise(before.bound.clone());
    }

    /// The data set is loaded, if there is one.
    pub fn begin(&mut self, start: &Start<'_>, policy: Policy, now: Instant) {
        self.leases.restart(start.held.clone());
        // What stood in its own log of what its primary told is older than the state file.
        (self.primary.bound, self.primary.quarantine) = (Told::Nothing, None);
        if let Some((cause, bound)) = start.forgotten() {
            self.quarantine(cause, &bound, policy, now);
        }
    }

    /// This replica has become a primary. It has the leases that it was sent, but not those that
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

    /// Another data set was loaded over what this primary had.
    pub fn replaced(&mut self, policy: Policy, now: Instant) {
        self.quarantine(Cause::Replaced, &self.leases.least(), policy, now);
    }

    /// This replica has got its primary's data set.
    pub fn synced(&mut self) {
        (self.primary.bound, self.primary.quarantine) = (Told::DataSet, None);
    }

    /// The primary has told what it promised: what it has handed out may not have arrived.
    pub fn inherit(&mut self, promise: Promise, now: Instant) {
        self.is_outdated |= self.told().is_none();
        let primary = &mut self.primary;
        primary.fence = primary.fence.max(promise.fence);
        primary.unix = primary.unix.max(promise.unix);
        primary.bound = Told::Bound(promise.bound);
        primary.quarantine = Quarantine::begin(None, Cause::Promoted, &promise.quarantine, now);
    }

    /// This node decides from now on.
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
    /// The state file should be written, though nobody waits for it. `follows`: a primary decides.
    #[must_use]
    pub fn should_promise(&mut self, follows: bool, terms: &Terms, time: Time) -> bool {
        self.counter.look(time);
        let told = self.told().is_some_and(|told| !self.leases.said().covers(told));
        let fence = follows && !self.counter.allows(self.primary.fence);
        let outdated = self.is_outdated || self.says_forgotten_wrongly(terms, time.now);
        told || fence || outdated || self.counter.runs_low() || self.leases.is_stale(time.now)
    }

    /// Whether the state file says too little of what may have been forgotten, or still says something though
    /// that is over: else a crash later would be followed by a quarantine for it.
    fn says_forgotten_wrongly(&self, terms: &Terms, now: Instant) -> bool {
        let (said, since) = &self.said_forgotten;
        let forgotten = self.forgotten(terms, now);
        let passed = now.since(*since) / 1_000;
        // Over by itself, or ended before its time: by an operator, here or at the primary.
        let ended = |said: Millis, left: Millis| {
            said.0 > 0 && (left.0 == 0 || said.0 > left.0 + passed + SLACK)
        };
        ended(said.usual(), forgotten.usual())
            || ended(said.longest(), forgotten.longest())
            || !said.covers(&forgotten)
    }

    /// How much longer leases can run that this node may have forgotten, or would have if it were promoted now.
    fn forgotten(&self, terms: &Terms, now: Instant) -> LeaseBound {
        let own = self.quarantine.as_ref().map(|quarantine| quarantine.left(now));
        let mut all = self.unknown(terms, now).join(&own.unwrap_or_default());
        all.fit();
        all
    }

    /// How much longer leases can run of which a replica was told nothing: its primary did not know them
    /// either, or has granted them since its data set was copied.
    fn unknown(&self, terms: &Terms, now: Instant) -> LeaseBound {
        match &self.primary.bound {
            Told::Nothing => LeaseBound::default(),
            // The operator may know better.
            Told::DataSet => LeaseBound::usual_of(terms.untold),
            Told::Bound(_) => {
                let told = self.primary.quarantine.as_ref().map(|told| told.left(now));
                told.unwrap_or_default()
            }
        }
    }

    /// What to write into the state file, when these leases are `held`: when each ends, and the name
    /// of its key, the one that ends last first. It is going to be written now. `follows`: a primary decides.
    pub fn next_promise(
        &mut self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        follows: bool,
        terms: &Terms,
        time: Time,
    ) -> Promise {
        self.counter.look(time);
        let needed = match self.told() {
            Some(told) => told.clone(),
            // One that its primary has not told yet does not know what it can forget.
            None if follows => self.leases.said().clone(),
            None => LeaseBound::default(),
        };
        let bound = self.leases.renew(&needed, left(held, time.now), terms.usual_ttl, time.now);
        // A replica that starts again goes on above what it was told, too, whoever tells it first.
        let fence = self.counter.to_reserve(Fence(0)).max(self.primary.fence);
        self.ask(fence, bound, terms, time)
    }

    /// What to write when this node, which leads and is not in quarantine, is shut down: exactly
    /// how things are.
    #[must_use]
    pub fn last_promise(
        &self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        usual_ttl: u64,
        time: Time,
    ) -> Promise {
        let bound = bound_of(held, usual_ttl, time.now);
        let (fence, unix) = (self.counter.last(), self.counter.reached());
        Promise { fence, unix, bound, ..Promise::default() }
    }

    /// It is written.
    pub fn promised(&mut self, promise: Promise) {
        self.counter.promised(promise.fence);
        self.leases.promise(promise.bound);
        self.said_forgotten.0 = promise.quarantine;
    }

    /// Whether the state file claims more than is true, so that nothing may be granted before it
    /// has been written again.
    pub fn doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }

    /// Whether the state file vouches for a fence and a lease.
    #[must_use]
    pub fn is_said(&self, name: &[u8], fence: Fence, ttl: Millis) -> bool {
        self.counter.allows(fence) && self.leases.covers(name, ttl) && !self.in_doubt
    }

    /// What the state file has to say so that it vouches for a fence and a lease. It is going to be written now.
    /// No `owner`: it is not this node that grants the lease, and it is not refused.
    ///
    /// # Errors
    /// When there is no room for a lease so long.
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

    /// Whether the state file vouches for all that is known here.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.counter.allows(self.counter.last()) && self.leases.is_said()
    }

    /// How long leases can run, by the promise.
    #[must_use]
    pub fn bound(&self) -> &LeaseBound {
        self.leases.said()
    }

    /// Whether the first fence of a new key is covered by the promise.
    #[must_use]
    pub fn is_vouched_for(&self) -> bool {
        let first = self.counter.first();
        !self.in_doubt && self.leases.is_said() && first.is_none_or(|f| self.counter.allows(f))
    }

    /// What has been promised, for replicas. What this node may have forgotten is told as that: to whoever
    /// takes over from it the time counts that is left then.
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

    /// Whether it is not over yet, for keys of which nothing else is known.
    #[must_use]
    pub fn is_in_quarantine(&self, policy: Policy, now: Instant) -> bool {
        self.has_quarantine(policy, |quarantine| !quarantine.until.is_over(now))
    }

    /// Whether it is not over yet for some key.
    #[must_use]
    pub fn may_have_forgotten(&self, policy: Policy, now: Instant) -> bool {
        self.has_quarantine(policy, |quarantine| !quarantine.last().is_over(now))
    }

    fn has_quarantine(&self, policy: Policy, is_on: impl FnOnce(&Quarantine) -> bool) -> bool {
        policy != Policy::Off && self.quarantine.as_ref().is_some_and(is_on)
    }

    /// When a quarantine has to be looked at.
    #[must_use]
    pub fn quarantine_wakes(&self, policy: Policy) -> Option<Deadline> {
        let off = policy == Policy::Off;
        self.quarantine.as_ref().map(|all| if off { Deadline(0) } else { all.next() })
    }

    /// Whether no key at all is granted.
    #[must_use]
    pub fn refuses_all(&self) -> bool {
        self.quarantine.as_ref().is_some_and(Quarantine::is_for_all)
    }

    /// Ends a quarantine that is over, or that the operator does not want. Whether it has ended for some keys.
    pub fn pass_quarantine(&mut self, policy: Policy, now: Instant) -> bool {
        let Some(quarantine) = &mut self.quarantine else { return false };
        let ends = quarantine.pass(now) || policy == Policy::Off;
        if ends && !self.may_have_forgotten(policy, now) {
            self.quarantine = None;
        }
        ends
    }

    /// How much longer the key is in quarantine, and why.
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

/// How long these leases run: when each ends, and the name of its key, the one that ends last first.
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

/// What is told over and over may seem to end so much earlier or later each time, in milliseconds.
const SLACK: u64 = 1_000;

/// How long these leases run from now on. Rounded down, by less than a millisecond: no server dies
/// and starts again that fast.
fn left<N: AsRef<[u8]>>(
    held: impl Iterator<Item = (Deadline, N)>,
    now: Instant,
) -> impl Iterator<Item = (Millis, N)> {
    held.map(move |(end, name)| (end.left(now), name))
}
