//! The effect of a node's promise on its locks: the node grants nothing before the state file says so, and
//! nothing in quarantine.

use super::Node;
use crate::durability::bound_tracker::TooManyLong;
use crate::durability::durable::{self, Terms};
use crate::durability::lease_bound::LeaseBound;
use crate::durability::promise::Promise;
use crate::durability::quarantine::Start;
use crate::host::Host;
use crate::reason::Reason;
use crate::words::{Deadline, Fence, Instant, Key, Millis, Owner, Time};

impl Node {
    fn terms(&self) -> Terms {
        self.settings.terms()
    }

    /// Begins to serve with the loaded data set, if there is one. A primary decides from now on.
    pub fn begin(&mut self, start: &Start<'_>, leads: bool, time: Time) {
        self.durable.begin(start, &self.terms(), time.now);
        if leads {
            self.lead(time);
        }
    }

    /// Promotes this replica. It has the leases that it was sent, but not those that
    /// were on their way.
    pub fn promoted(&mut self, time: Time) {
        self.durable.promoted(&self.settings.terms(), time.now);
        self.lead(time);
    }

    /// Notes that another data set has replaced this primary's.
    pub fn replaced(&mut self, time: Time) {
        self.durable.replaced(self.settings.quarantine, time.now);
        self.lead(time);
    }

    /// True if dlock should write the state file, though no grant waits for it.
    #[must_use]
    pub fn should_promise(&mut self, time: Time) -> bool {
        let (follows, terms) = (self.is_following(), self.terms());
        self.durable.should_promise(follows, &terms, time)
    }

    /// The promise to write next. `held`: each held lease's end and key name, the latest end first; evicted leases
    /// count, too. The caller must write it at once.
    pub fn next_promise(
        &mut self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        time: Time,
    ) -> Promise {
        let (follows, terms) = (self.is_following(), self.terms());
        let evicted = self.evicted_left(time.now);
        self.durable.next_promise(held, evicted, follows, &terms, time)
    }

    /// The promise of a shutdown, for a node that leads and is not in quarantine: exactly
    /// the present state.
    #[must_use]
    pub fn last_promise(
        &self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        time: Time,
    ) -> Promise {
        self.durable.last_promise(held, self.evicted_left(time.now), self.settings.usual_ttl, time)
    }

    /// The lease bound of these leases.
    #[must_use]
    pub fn held(
        &self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        now: Instant,
    ) -> LeaseBound {
        durable::bound_of(held, self.settings.usual_ttl, now)
    }

    /// Notes that the promise is in the state file: waiters for it may be served.
    pub fn promised(&mut self, promise: Promise) {
        self.durable.promised(promise);
        if core::mem::take(&mut self.waiting.for_file) {
            self.waiting.serve_all_later();
        }
    }

    /// The promise to write before a lease can arrive from another node. The caller must write it at
    /// once. `None`: the state file allows the lease, or this node does not decide.
    ///
    /// # Errors
    /// Fails if there is no room for a lease this long. Without an `owner` the lease is not refused.
    pub fn needs(
        &mut self,
        key: Key<'_>,
        fence: Fence,
        ttl: Millis,
        owner: Option<Owner>,
        time: Time,
    ) -> Result<Option<Promise>, TooManyLong> {
        if self.is_following() || self.durable.is_said(key.name, fence, ttl) {
            return Ok(None);
        }
        let terms = self.terms();
        self.durable.say_more(key.name, (fence, ttl), owner, &terms, time).map(Some)
    }

    /// The promise for replicas.
    #[must_use]
    pub fn promise(&self, time: Time) -> Promise {
        self.durable.promise(&self.terms(), time)
    }

    /// True if a quarantine is not over yet for keys without a longer one of their own.
    #[must_use]
    pub fn is_in_quarantine(&self, now: Instant) -> bool {
        self.durable.is_in_quarantine(self.settings.quarantine, now)
    }

    /// True if a quarantine is not over yet for some key.
    #[must_use]
    pub fn may_have_forgotten(&self, now: Instant) -> bool {
        self.durable.may_have_forgotten(self.settings.quarantine, now)
    }

    /// Ends a quarantine that is over, or that the operator does not want. Waiters may get their locks
    /// then.
    pub(super) fn look_at_quarantine(&mut self, now: Instant) {
        let was_for_all = self.durable.refuses_all();
        if self.durable.pass_quarantine(self.settings.quarantine, now) {
            if was_for_all {
                self.waiting.places.clock.look(now, true);
            }
            self.waiting.serve_all_later();
        }
    }

    /// Refuses a request at a key in quarantine.
    pub(super) fn refuse_in_quarantine(&self, key: Key<'_>, now: Instant) -> Result<(), Reason> {
        match self.durable.kept_back(key.name, now) {
            Some((cause, left)) if !self.is_following() => Err(Reason::Quarantine { cause, left }),
            _ => Ok(()),
        }
    }

    /// Makes sure that the state file vouches for a fence and a lease. Most often it does; else dlock
    /// writes it first. `owner`: the user, if another than the one who asks now.
    pub(super) fn vouch<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        (fence, ttl): (Fence, Millis),
        owner: Option<Owner>,
        time: Time,
    ) -> Result<(), Reason> {
        if !self.is_following() && !self.durable.is_said(key.name, fence, ttl) {
            let owner = owner.unwrap_or_else(|| host.owner());
            let terms = self.terms();
            let more = self.durable.say_more(key.name, (fence, ttl), Some(owner), &terms, time);
            let too_many = |TooManyLong| Reason::TooManyLong { usual: terms.usual_ttl };
            let promise = more.map_err(too_many)?;
            if !host.promise(&promise) {
                return Err(Reason::NotDurable);
            }
            self.durable.doubt(false);
            self.promised(promise);
        }
        self.durable.leases.saw(key.name, ttl, self.settings.usual_ttl);
        Ok(())
    }

    /// The next fence, vouched for like the lease that goes with it.
    pub(super) fn next_fence<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        (proposal, ttl): (Option<Fence>, Millis),
        owner: Option<Owner>,
        time: Time,
    ) -> Result<Fence, Reason> {
        let fence = self.durable.counter.next(key.name, proposal).ok_or(Reason::Exhausted)?;
        let brings = self.make_room(host, key, fence, owner)?;
        self.vouch(host, key, (fence, ttl), owner, time)?;
        self.durable.counter.hand_out(key.name, fence, brings);
        Ok(fence)
    }
}
