//! The effect of a node's promise on its locks: the node grants nothing before the state file covers it, and
//! nothing in quarantine.

use super::Node;
use crate::durability::promise::Promise;
use crate::durability::quarantine::Start;
use crate::node::host::Host;
use crate::reason::Reason;
use crate::words::{Deadline, Fence, Instant, Key, Millis, Owner, Time};

impl Node {
    /// Begins to serve with the loaded data set, if there is one. With `leads` the node is a primary from now
    /// on.
    pub fn begin(&mut self, start: &Start<'_>, leads: bool, time: Time) {
        self.durable.begin(start, &self.settings, time.now);
        if leads {
            self.lead(time);
        }
    }

    /// Promotes this replica. It has the leases that it received, but not those in flight.
    pub fn promoted(&mut self, time: Time) {
        self.durable.promoted(&self.settings, time);
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
        let follows = self.is_following();
        self.durable.should_promise(follows, &self.settings, time)
    }

    /// The promise to write next. `last_end`: the latest end of a held lease, evicted leases included. The
    /// caller must write it at once.
    pub fn next_promise(&mut self, last_end: Option<Deadline>, time: Time) -> Promise {
        let follows = self.is_following();
        let last_end = last_end.max(self.last_evicted());
        self.durable.next_promise(last_end, follows, &self.settings, time)
    }

    /// The promise of a shutdown, for a node that leads and is not in quarantine: exactly
    /// the present state.
    #[must_use]
    pub fn last_promise(&self, last_end: Option<Deadline>, now: Instant) -> Promise {
        self.durable.last_promise(last_end.max(self.last_evicted()), now)
    }

    /// Notes that the promise is in the state file: waiters for it may be served.
    pub fn promised(&mut self, promise: Promise) {
        self.durable.promised(promise);
        if core::mem::take(&mut self.waiting.for_file) {
            self.waiting.serve_all_later();
        }
    }

    /// The promise to write before a lock can arrive from another node. The caller must write it at once.
    /// `None`: the state file covers the lease, or this node is a replica.
    ///
    /// # Errors
    /// Fails if a client restores the lock (`is_restored`), and its lease is longer than the longest new one.
    /// A lease that arrives with its slot is accepted.
    pub fn needs(
        &mut self,
        (fence, ttl): (Fence, Millis),
        is_restored: bool,
        time: Time,
    ) -> Result<Option<Promise>, Reason> {
        if self.is_following() {
            return Ok(None);
        }
        if is_restored {
            self.check_ttl(ttl)?;
        }
        if self.durable.is_said(fence, ttl) {
            return Ok(None);
        }
        Ok(Some(self.durable.say_more((fence, ttl), &self.settings, time)))
    }

    /// The promise for replicas.
    #[must_use]
    pub fn promise(&self, time: Time) -> Promise {
        self.durable.promise(time.now)
    }

    /// True if a quarantine is not over yet.
    #[must_use]
    pub fn is_in_quarantine(&self, now: Instant) -> bool {
        self.durable.is_in_quarantine(self.settings.quarantine, now)
    }

    /// Ends a quarantine that is over, or that the operator does not want. Then waiters may get their locks.
    pub(super) fn look_at_quarantine(&mut self, now: Instant) {
        if self.durable.pass_quarantine(self.settings.quarantine, now) {
            self.waiting.places.clock.look(now, true);
            self.waiting.serve_all_later();
        }
    }

    /// Refuses a request in quarantine.
    pub(super) fn refuse_in_quarantine(&self, now: Instant) -> Result<(), Reason> {
        match self.durable.quarantine_left(now) {
            Some((cause, left)) if !self.is_following() => Err(Reason::Quarantine { cause, left }),
            _ => Ok(()),
        }
    }

    /// Refuses a lease that is longer than the longest new one. Another node's decision is accepted.
    pub(super) fn check_ttl(&self, Millis(given): Millis) -> Result<(), Reason> {
        let most = self.settings.max_ttl;
        let may = given <= most || self.is_following();
        if may { Ok(()) } else { Err(Reason::TooLong { given, most }) }
    }

    /// Makes sure that the state file covers a fence and a lease. Mostly it does; else dlock writes it first.
    pub(super) fn vouch<H: Host>(
        &mut self,
        host: &mut H,
        (fence, ttl): (Fence, Millis),
        time: Time,
    ) -> Result<(), Reason> {
        if !self.is_following() && !self.durable.is_said(fence, ttl) {
            let promise = self.durable.say_more((fence, ttl), &self.settings, time);
            if !host.promise(&promise) {
                return Err(Reason::NotDurable);
            }
            self.promised(promise);
        }
        self.durable.leases.saw(ttl);
        Ok(())
    }

    /// The next fence, covered together with its lease.
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
        self.vouch(host, (fence, ttl), time)?;
        self.durable.counter.hand_out(key.name, fence, brings);
        Ok(fence)
    }
}
