//! The durable state of a node: its promise in the state file. From it follow the fences that the node may hand
//! out, the leases that it may grant, and the times in which it grants nothing.

use super::cap::Cap;
use super::fences::Counter;
use super::lease_bound::LeaseBound;
use super::promise::Promise;
use super::quarantine::{Cause, Policy, Quarantine, Start};
use crate::limits::MAX_LEAD;
use crate::node::settings::Settings;
use crate::words::{Deadline, Fence, Instant, Key, Millis, Owner, Time};

/// The state of a node that survives a crash by its promise.
#[derive(Debug, Default)]
pub struct Durable {
    /// The fences.
    pub counter: Counter,
    /// The lease bound.
    pub leases: LeaseBound,
    /// The node grants nothing until the quarantine is over.
    quarantine: Option<Quarantine>,
    /// The primary's promise, as this replica received it.
    primary: Primary,
    /// The longest lease that the primary may have granted.
    cap: Cap,
    /// Time left of possibly forgotten leases in the state file, beside `leases`.
    said_forgotten: Millis,
}

/// The primary's promise, as received by a replica.
#[derive(Debug, Default)]
struct Primary {
    /// The replica's fences start above this one when it is promoted.
    fence: Fence,
    /// The primary's Unix time of the promise.
    unix: u64,
    bound: Told,
    /// The leases that the primary may have forgotten, as it or the primary before has sent.
    quarantine: Option<Quarantine>,
}

/// The primary's lease bound, as received by a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    /// Not needed: this node has granted all leases itself, or has the leases of its last process.
    #[default]
    Own,
    /// No bound was received since this node started, became a replica of this primary, or got its data set.
    Nothing,
    /// The primary has sent its bound.
    Bound(Millis),
}

/// The fences.
impl Durable {
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

    /// True if there is room to store a fence that arrives with a lock.
    #[must_use]
    pub fn has_room_for(&self, key: Key<'_>, fence: Fence) -> bool {
        !self.counter.needs_room(key.name, fence)
            || self.counter.has_room(key.name, Owner::default())
    }
}

/// The node's start, promotion and data sets.
impl Durable {
    /// Resumes from the promise in the state file.
    pub fn resume(&mut self, before: &Promise, now: Instant) {
        self.counter.had_reached(before.unix, now);
        self.counter.raise_all(before.fence);
        self.leases.promise(before.bound);
    }

    /// Begins to serve with the loaded data set, if there is one.
    pub fn begin(&mut self, start: &Start<'_>, settings: &Settings, now: Instant) {
        self.leases.restart(start.held);
        self.cap.look(settings.max_ttl(), now);
        // The log's copy of the primary's promise is older than the state file.
        (self.primary.bound, self.primary.quarantine) = (Told::Nothing, None);
        if let Some((cause, bound)) = start.forgotten(settings.newborn()) {
            self.quarantine(cause, bound, settings.quarantine, now);
        }
    }

    /// Promotes this replica. It has the leases that it received, but not those in flight. If it received no
    /// promise, it assumes the largest lease of its `dlock.max-ttl`, its state file and its data set, and that
    /// every fence that a node accepts was handed out.
    pub fn promoted(&mut self, settings: &Settings, time: Time) {
        let now = time.now;
        self.cap.look(settings.max_ttl(), now);
        if self.primary.bound == Told::Nothing {
            self.primary.fence = self.primary.fence.max(Fence(time.unix.saturating_add(MAX_LEAD)));
        }
        let bound = self.leases.least().max(self.told().unwrap_or_default());
        let unknown = self.unknown(now);
        let is_untold = self.primary.bound == Told::Nothing && unknown > bound;
        let cause = if is_untold { Cause::Untold } else { Cause::Promoted };
        self.quarantine(cause, bound.max(unknown), settings.quarantine, now);
    }

    /// Assumes that every fence that a node accepts was handed out: another server had these locks, and has not sent its
    /// largest fence.
    pub fn assume_fences(&mut self, time: Time) {
        self.counter.look(time);
        self.counter.raise_all(Fence(time.unix.saturating_add(MAX_LEAD)));
    }

    /// Notes that another data set has replaced this primary's.
    pub fn replaced(&mut self, policy: Policy, now: Instant) {
        self.quarantine(Cause::Replaced, self.leases.least(), policy, now);
    }

    /// Notes that this node has become a replica of another primary, or has its primary's data set. The primary may
    /// have granted any lease, until it sends its bound.
    pub fn untold(&mut self) {
        self.primary.bound = Told::Nothing;
    }

    /// Takes over the primary's promise: some of its grants may not have arrived.
    pub fn inherit(&mut self, promise: Promise, now: Instant) {
        let primary = &mut self.primary;
        primary.fence = primary.fence.max(promise.fence);
        primary.unix = primary.unix.max(promise.unix);
        primary.bound = Told::Bound(promise.bound);
        primary.quarantine = Quarantine::begin(None, Cause::Promoted, promise.quarantine, now);
    }

    /// Makes this node a primary from now on.
    pub fn lead(&mut self, time: Time) {
        self.counter.look(time);
        self.counter.had_reached(self.primary.unix, time.now);
        self.counter.raise_all(self.primary.fence);
        self.counter.begin();
        (self.primary.bound, self.primary.quarantine) = (Told::Own, None);
    }
}

/// The state file.
impl Durable {
    /// True if dlock should write the state file, though no grant waits for it. `follows`: this node is a
    /// replica.
    #[must_use]
    pub fn should_promise(&mut self, follows: bool, settings: &Settings, time: Time) -> bool {
        self.counter.look(time);
        self.cap.look(settings.max_ttl(), time.now);
        let told = self.told().is_some_and(|told| told > self.leases.said());
        let fence = follows && !self.counter.allows(self.primary.fence);
        let forgotten = self.says_forgotten_wrongly(time.now);
        told || fence || forgotten || self.counter.runs_low() || self.leases.is_stale(time.now)
    }

    /// True if the time of possibly forgotten leases in the state file is too short, or longer than an eighth more
    /// than is left. A crash would begin a quarantine that is as long.
    fn says_forgotten_wrongly(&self, now: Instant) -> bool {
        let (said, forgotten) = (self.said_forgotten, self.forgotten(now));
        let has_ended = said.0 > 0 && forgotten.0 == 0;
        has_ended || said < forgotten || said.0 > forgotten.0 + forgotten.0 / 8 + SLACK
    }

    /// Time left of the leases that this node may have forgotten, or would have forgotten if promoted now.
    fn forgotten(&self, now: Instant) -> Millis {
        let own = self.quarantine.map_or(Millis(0), |quarantine| quarantine.left(now));
        self.unknown(now).max(own)
    }

    /// Time left of the leases that this replica may lack: its primary had forgotten them, or granted them
    /// after the copy of its data set.
    fn unknown(&self, now: Instant) -> Millis {
        let quarantine = self.primary.quarantine.map_or(Millis(0), |told| told.left(now));
        match self.primary.bound {
            Told::Own => Millis(0),
            Told::Nothing => self.cap.longest(now).max(quarantine),
            Told::Bound(_) => quarantine,
        }
    }

    /// The promise to write next. `last_end`: the latest end of a held lease. The caller must write it at once.
    /// `follows`: this node is a replica.
    pub fn next_promise(
        &mut self,
        last_end: Option<Deadline>,
        follows: bool,
        settings: &Settings,
        time: Time,
    ) -> Promise {
        self.counter.look(time);
        self.cap.look(settings.max_ttl(), time.now);
        let needed = match self.told() {
            Some(told) => told,
            // Without its primary's promise, a replica cannot tell which leases it lacks.
            None if follows => self.leases.said(),
            None => Millis(0),
        };
        let needed = needed.max(left(last_end, time.now));
        let bound = self.leases.renew(needed, settings.max_ttl(), time.now);
        // After a restart a replica must continue above its primary's fence, even if it is promoted then.
        let fence = self.counter.to_reserve(Fence(0)).max(self.primary.fence);
        self.ask(fence, bound, time)
    }

    /// The promise of a shutdown, for a node that leads and is not in quarantine: exactly
    /// the present state.
    #[must_use]
    pub fn last_promise(&self, last_end: Option<Deadline>, now: Instant) -> Promise {
        let (fence, unix) = (self.counter.last(), self.counter.reached());
        Promise { fence, unix, bound: left(last_end, now), ..Promise::default() }
    }

    /// Notes that the promise is in the state file.
    pub fn promised(&mut self, promise: Promise) {
        self.counter.promised(promise.fence);
        self.leases.promise(promise.bound);
        self.said_forgotten = promise.quarantine;
    }

    /// True if the state file covers a fence and a lease.
    #[must_use]
    pub fn is_said(&self, fence: Fence, ttl: Millis) -> bool {
        self.counter.allows(fence) && self.leases.covers(ttl)
    }

    /// The promise that covers a fence and a lease. The caller must write it at once.
    pub fn say_more(
        &mut self,
        (fence, ttl): (Fence, Millis),
        settings: &Settings,
        time: Time,
    ) -> Promise {
        let bound = self.leases.raise(ttl, settings.max_ttl(), time.now);
        let fence = self.counter.to_reserve(fence);
        self.ask(fence, bound, time)
    }

    /// True if the state file covers all fences and leases of this node.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.counter.allows(self.counter.last()) && self.leases.is_said()
    }

    /// True if the state file covers the first fence of a new key.
    #[must_use]
    pub fn is_vouched_for(&self) -> bool {
        let first = self.counter.first();
        self.leases.is_said() && first.is_none_or(|f| self.counter.allows(f))
    }

    /// The promise for replicas. It counts possibly forgotten leases apart: a promoted replica waits for the
    /// time that is then left of them.
    #[must_use]
    pub fn promise(&self, now: Instant) -> Promise {
        let (bound, quarantine) = (self.leases.said(), self.forgotten(now));
        Promise { fence: self.counter.reserved(), unix: self.counter.reached(), bound, quarantine }
    }

    fn told(&self) -> Option<Millis> {
        match self.primary.bound {
            Told::Bound(bound) => Some(bound),
            _ => None,
        }
    }

    fn ask(&mut self, fence: Fence, bound: Millis, time: Time) -> Promise {
        self.counter.asked(fence);
        self.leases.asked(bound);
        let quarantine = self.forgotten(time.now);
        Promise { fence, unix: self.counter.reached(), bound, quarantine }
    }
}

/// Quarantine.
impl Durable {
    /// The quarantine, if there is one.
    #[must_use]
    pub fn in_quarantine(&self) -> Option<Quarantine> {
        self.quarantine
    }

    /// True if the quarantine is not over yet.
    #[must_use]
    pub fn is_in_quarantine(&self, policy: Policy, now: Instant) -> bool {
        let is_on = |quarantine: Quarantine| !quarantine.until.is_over(now);
        policy != Policy::Off && self.quarantine.is_some_and(is_on)
    }

    /// Time of the end of the quarantine.
    #[must_use]
    pub fn quarantine_wakes(&self, policy: Policy) -> Option<Deadline> {
        let off = policy == Policy::Off;
        self.quarantine.map(|quarantine| if off { Deadline(0) } else { quarantine.until })
    }

    /// Ends a quarantine that is over, or that the operator does not want. True if it has ended.
    pub fn pass_quarantine(&mut self, policy: Policy, now: Instant) -> bool {
        let ends = self.quarantine.is_some() && !self.is_in_quarantine(policy, now);
        if ends {
            self.quarantine = None;
        }
        ends
    }

    /// The cause and the time left of the quarantine.
    #[must_use]
    pub fn quarantine_left(&self, now: Instant) -> Option<(Cause, Millis)> {
        let on = self.quarantine.filter(|quarantine| !quarantine.until.is_over(now))?;
        Some((on.cause, on.left(now)))
    }

    fn quarantine(&mut self, cause: Cause, bound: Millis, policy: Policy, now: Instant) {
        if let Some(length) = policy.length(bound) {
            self.quarantine = Quarantine::begin(self.quarantine, cause, length, now);
        }
    }
}

/// Tolerance for the time left of a quarantine in the state file, in milliseconds.
const SLACK: u64 = 1_000;

/// The time left of the last lease, rounded down by less than a millisecond: no server crashes and starts again
/// that fast.
fn left(last_end: Option<Deadline>, now: Instant) -> Millis {
    last_end.map_or(Millis(0), |end| end.left(now))
}
