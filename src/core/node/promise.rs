//! What a node has promised in its state file, and what follows: numbers it may hand out, leases it
//! may grant, and times in which it grants nothing.

use super::{Inherited, Node};
use crate::command::Refusal;
use crate::fence::Slot;
use crate::host::Host;
use crate::promise::Promise;
use crate::quarantine::{Policy, Quarantine, Start, Why, extended};
use crate::words::{Deadline, Fence, Instant, Millis, Time};

impl Node {
    /// A state file was there: the node goes on from what it said.
    pub fn resume(&mut self, before: Promise, now: Instant) {
        self.clock.at_least(now, before.unix);
        self.counter.raise_all(before.fence);
        self.bound.promise(before.bound);
    }

    /// The data set is loaded, if there is one. A primary decides from now on.
    pub fn begin(&mut self, start: &Start<'_>, leads: bool, time: Time) {
        self.bound.restart(start.longest);
        if let Some((why, bound)) = start.forgotten() {
            self.quarantine(why, bound, time.now);
        }
        if leads {
            self.lead(time);
        }
    }

    /// This replica has become a primary. It has the leases that it was sent, but not those that
    /// were on their way.
    pub fn promoted(&mut self, time: Time) {
        let most = match self.inherited_bound {
            Inherited::Nothing => Millis(0),
            // Anything may be missing. The operator may know better.
            Inherited::DataSet => Millis(self.settings.max_ttl),
            Inherited::Told(bound) => bound,
        };
        self.quarantine(Why::Promoted, self.bound.least().max(most), time.now);
        self.lead(time);
    }

    /// Another data set was loaded over what this primary had.
    pub fn replaced(&mut self, time: Time) {
        self.quarantine(Why::Replaced, self.bound.least(), time.now);
        self.lead(time);
    }

    /// This replica has got its primary's data set.
    pub fn synced(&mut self) {
        self.inherited_bound = Inherited::DataSet;
    }

    /// The primary has told what it promised: what it has handed out may not have arrived.
    pub fn inherit(&mut self, promise: Promise) {
        self.inherited = self.inherited.max(promise.fence);
        self.inherited_unix = self.inherited_unix.max(promise.unix);
        self.inherited_bound = Inherited::Told(promise.bound);
    }

    /// The state file should be written, though nobody waits for it.
    #[must_use]
    pub fn should_promise(&self, time: Time) -> bool {
        let told = self.told().is_some_and(|told| told > self.bound.promised());
        told || self.counter.runs_low(time.unix) || self.bound.is_stale(time.now)
    }

    /// What to write into the state file, when the last of all leases ends at `last_end`. It is
    /// going to be written now.
    pub fn next_promise(&mut self, last_end: Option<Deadline>, time: Time) -> Promise {
        let quarantine = self.quarantine.map(|quarantine| quarantine.until);
        let last = last_end.into_iter().chain(quarantine).max();
        // Rounded down, by less than a millisecond: no server dies and starts again that fast.
        let left = last.map_or(Millis(0), |end| end.left(time.now));
        // A follower that its primary has not told yet does not know what it can forget.
        let may_shrink = !self.following || self.told().is_some();
        let told = self.told().unwrap_or(Millis(0));
        let bound = self.bound.renew(left.max(told), time.now, may_shrink);
        let fence = self.counter.to_reserve(time, Fence(0));
        self.ask(Promise { fence, unix: time.unix, bound }, time)
    }

    /// What to write when this node, which leads and is not in quarantine, is shut down: exactly
    /// how things are.
    #[must_use]
    pub fn last_promise(&self, last_end: Option<Deadline>, time: Time) -> Promise {
        let bound = last_end.map_or(Millis(0), |end| end.left(time.now));
        Promise { fence: self.counter.last(), unix: time.unix, bound }
    }

    /// It is written.
    pub fn promised(&mut self, promise: Promise) {
        self.counter.promised(promise.fence);
        self.bound.promise(promise.bound);
        for key in core::mem::take(&mut self.unvouched) {
            self.put_off.serve(key);
        }
    }

    /// Whether the state file claims more than is true, so that nothing may be granted before it
    /// has been written again.
    pub fn doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }

    /// What the state file has to say before this fence and a lease of this length can be granted
    /// or accepted. It is going to be written now. `None`: it says so, or somebody else decides.
    pub fn needs(&mut self, fence: Fence, ttl: Millis, time: Time) -> Option<Promise> {
        let covered = self.counter.allows(fence) && self.bound.covers(ttl) && !self.in_doubt;
        if self.following || covered {
            return None;
        }
        let bound = self.bound.raised(ttl);
        let fence = self.counter.to_reserve(time, fence);
        Some(self.ask(Promise { fence, unix: time.unix, bound }, time))
    }

    /// Whether the state file vouches for all that is known here.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.counter.allows(self.counter.last()) && self.bound.covers(Millis(0))
    }

    /// What has been promised, for replicas.
    #[must_use]
    pub fn promise(&self, unix: u64) -> Promise {
        Promise { fence: self.counter.reserved(), unix, bound: self.bound.promised() }
    }

    /// Whether the first fence of a new key is covered by the promise.
    #[must_use]
    pub fn is_vouched_for(&self, unix: u64) -> bool {
        let first = self.counter.first(unix);
        !self.in_doubt
            && self.bound.covers(Millis(0))
            && first.is_none_or(|f| self.counter.allows(f))
    }

    /// The quarantine, if there is one.
    #[must_use]
    pub fn in_quarantine(&self) -> Option<Quarantine> {
        self.quarantine
    }

    /// Whether it is not over yet.
    #[must_use]
    pub fn is_in_quarantine(&self, now: Instant) -> bool {
        let wanted = self.settings.quarantine != Policy::Off;
        wanted && self.quarantine.is_some_and(|quarantine| !quarantine.until.is_over(now))
    }

    /// Ends a quarantine that is over, or that the operator does not want. Waiters may get their locks
    /// now.
    pub(super) fn look_at_quarantine(&mut self, now: Instant) {
        if self.quarantine.is_some() && !self.is_in_quarantine(now) {
            self.end_quarantine(now);
        }
    }

    /// Refuses in quarantine.
    pub(super) fn refuse_in_quarantine<'a>(&self, now: Instant) -> Result<(), Refusal<'a>> {
        match self.quarantine {
            Some(Quarantine { until, why }) if !self.following => {
                Err(Refusal::Quarantine { why, left: until.left(now) })
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that the state file vouches for a fence and a lease that are to be granted. Most
    /// often it does; else it is written first.
    pub(super) fn vouch<'a, H: Host>(
        &mut self,
        host: &mut H,
        fence: Fence,
        ttl: Millis,
        time: Time,
    ) -> Result<(), Refusal<'a>> {
        if let Some(promise) = self.needs(fence, ttl, time) {
            if !host.promise(promise) {
                return Err(Refusal::NotDurable);
            }
            self.in_doubt = false;
            self.promised(promise);
        }
        self.bound.saw(ttl);
        Ok(())
    }

    /// The next fence, vouched for like the lease that goes with it. It is not handed out yet.
    pub(super) fn next_fence<'a, H: Host>(
        &mut self,
        host: &mut H,
        slot: Slot,
        proposal: Option<Fence>,
        ttl: Millis,
        time: Time,
    ) -> Result<Fence, Refusal<'a>> {
        let fence = self.counter.next(slot, time.unix, proposal).ok_or(Refusal::Exhausted)?;
        self.vouch(host, fence, ttl, time)?;
        self.counter.raise(slot, fence);
        Ok(fence)
    }

    fn told(&self) -> Option<Millis> {
        match self.inherited_bound {
            Inherited::Told(bound) => Some(bound),
            _ => None,
        }
    }

    fn ask(&mut self, promise: Promise, time: Time) -> Promise {
        self.counter.asked(promise.fence, time);
        self.bound.asked(promise.bound);
        promise
    }

    fn quarantine(&mut self, why: Why, bound: Millis, now: Instant) {
        if let Some(length) = self.settings.quarantine.length(bound) {
            self.quarantine = extended(self.quarantine, why, length, now);
        }
    }

    fn end_quarantine(&mut self, now: Instant) {
        self.places.pace.look(now, true);
        self.quarantine = None;
        let waits = |(db, names): (&u32, &super::Queues)| {
            let db = *db;
            names.keys().map(move |name| crate::words::Key { db, name }.to_owned()).collect()
        };
        let keys: alloc::vec::Vec<alloc::vec::Vec<_>> = self.queues.iter().map(waits).collect();
        keys.into_iter().flatten().for_each(|key| self.put_off.serve(key));
    }
}
