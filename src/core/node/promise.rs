//! What a node has promised in its state file, and what follows: numbers it may hand out, leases it
//! may grant, and times in which it grants nothing.

use alloc::vec::Vec;

use super::{Inherited, Node};
use crate::bound::{Longer, TooManyLong, add_held};
use crate::bounds::{Bounds, KeyHash};
use crate::command::Refusal;
use crate::fence::Slot;
use crate::host::Host;
use crate::promise::Promise;
use crate::quarantine::{Cause, Policy, Quarantine, Start};
use crate::words::{Deadline, Fence, Instant, Key, KeyBuf, Millis, Owner, Time};

impl Node {
    /// A state file was there: the node goes on from what it said.
    pub fn resume(&mut self, before: &Promise, now: Instant) {
        self.clock.at_least(now, before.unix);
        self.counter.raise_all(before.fence);
        self.bound.promise(before.bounds.clone());
    }

    /// The data set is loaded, if there is one. A primary decides from now on.
    pub fn begin(&mut self, start: &Start<'_>, leads: bool, time: Time) {
        self.bound.restart(start.held.clone());
        if let Some((cause, bounds)) = start.forgotten() {
            self.quarantine(cause, &bounds, time.now);
        }
        if leads {
            self.lead(time);
        }
    }

    /// This replica has become a primary. It has the leases that it was sent, but not those that
    /// were on their way.
    pub fn promoted(&mut self, time: Time) {
        let anything = Bounds::usual_of(Millis(self.settings.max_ttl));
        let bounds = match &self.inherited_bounds {
            Inherited::Nothing => self.bound.least(),
            // Anything may be missing. The operator may know better.
            Inherited::DataSet => self.bound.least().join(&anything),
            Inherited::Told(bounds) => self.bound.least().join(bounds),
        };
        self.quarantine(Cause::Promoted, &bounds, time.now);
        self.lead(time);
    }

    /// Another data set was loaded over what this primary had.
    pub fn replaced(&mut self, time: Time) {
        self.quarantine(Cause::Replaced, &self.bound.least(), time.now);
        self.lead(time);
    }

    /// This replica has got its primary's data set.
    pub fn synced(&mut self) {
        self.inherited_bounds = Inherited::DataSet;
    }

    /// The primary has told what it promised: what it has handed out may not have arrived.
    pub fn inherit(&mut self, promise: Promise) {
        self.inherited = self.inherited.max(promise.fence);
        self.inherited_unix = self.inherited_unix.max(promise.unix);
        self.inherited_bounds = Inherited::Told(promise.bounds);
    }

    /// The state file should be written, though nobody waits for it.
    #[must_use]
    pub fn should_promise(&self, time: Time) -> bool {
        let told = self.told().is_some_and(|told| !self.bound.said().covers(told));
        let fence = self.following && !self.counter.allows(self.inherited);
        told || fence || self.counter.runs_low(time.unix) || self.bound.is_stale(time.now)
    }

    /// What to write into the state file, when these leases are `held`: when each ends, and the name
    /// of its key, the one that ends last first. It is going to be written now.
    pub fn next_promise(
        &mut self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        time: Time,
    ) -> Promise {
        let mut needed = Bounds::default();
        if let Some(quarantine) = &self.quarantine {
            needed = quarantine.left(time.now);
        }
        if let Some(told) = self.told() {
            needed = needed.join(told);
        } else if self.following {
            // One that its primary has not told yet does not know what it can forget.
            needed = needed.join(self.bound.said());
        }
        let held = left(held, time.now);
        let bounds = self.bound.renew(&needed, held, self.settings.usual_ttl, time.now);
        // A replica that starts again goes on above what it was told, too, whoever tells it first.
        let fence = self.counter.to_reserve(time, Fence(0)).max(self.inherited);
        self.ask(Promise { fence, unix: time.unix, bounds }, time)
    }

    /// What to write when this node, which leads and is not in quarantine, is shut down: exactly
    /// how things are.
    #[must_use]
    pub fn last_promise(
        &self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        time: Time,
    ) -> Promise {
        let bounds = self.held(held, time.now);
        Promise { fence: self.counter.last(), unix: time.unix, bounds }
    }

    /// How long these leases run.
    #[must_use]
    pub fn held(
        &self,
        held: impl Iterator<Item = (Deadline, impl AsRef<[u8]>)>,
        now: Instant,
    ) -> Bounds {
        let mut bounds = Bounds::default();
        add_held(&mut bounds, left(held, now), self.settings.usual_ttl, |_| Millis(0));
        bounds
    }

    /// It is written.
    pub fn promised(&mut self, promise: Promise) {
        self.counter.promised(promise.fence);
        self.bound.promise(promise.bounds);
        for key in core::mem::take(&mut self.unvouched) {
            self.put_off.serve(key);
        }
    }

    /// Whether the state file claims more than is true, so that nothing may be granted before it
    /// has been written again.
    pub fn doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }

    /// What the state file has to say before a lease can arrive from elsewhere. It is going to be
    /// written now. `None`: it says so, or somebody else decides.
    pub fn needs(
        &mut self,
        key: Key<'_>,
        fence: Fence,
        ttl: Millis,
        time: Time,
    ) -> Option<Promise> {
        if self.following || self.is_said(key, fence, ttl) {
            return None;
        }
        // It is nobody's, and is not refused.
        self.say_more(key, fence, ttl, None, time).ok()
    }

    /// Whether the state file vouches for a fence and a lease.
    fn is_said(&self, key: Key<'_>, fence: Fence, ttl: Millis) -> bool {
        self.counter.allows(fence) && self.bound.covers(key.name, ttl) && !self.in_doubt
    }

    fn say_more<'a>(
        &mut self,
        key: Key<'_>,
        fence: Fence,
        ttl: Millis,
        owner: Option<Owner>,
        time: Time,
    ) -> Result<Promise, Refusal<'a>> {
        let usual_ttl = self.settings.usual_ttl;
        let longer = Longer { key: KeyHash::of(key.name), ttl, owner, usual_ttl };
        let raised = self.bound.raise(longer, time.now);
        let bounds = raised.map_err(|TooManyLong| Refusal::TooManyLong { usual: usual_ttl })?;
        let fence = self.counter.to_reserve(time, fence);
        Ok(self.ask(Promise { fence, unix: time.unix, bounds }, time))
    }

    /// Whether the state file vouches for all that is known here.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.counter.allows(self.counter.last()) && self.bound.is_said()
    }

    /// What has been promised, for replicas. What this node may have forgotten counts, too: the state
    /// file need not say so yet, if the disk is full.
    #[must_use]
    pub fn promise(&self, time: Time) -> Promise {
        let mut bounds = self.bound.said().clone();
        if let Some(quarantine) = &self.quarantine {
            bounds = bounds.join(&quarantine.left(time.now));
            bounds.fit();
        }
        Promise { fence: self.counter.reserved(), unix: time.unix, bounds }
    }

    /// What of it is about leases.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        self.bound.said()
    }

    /// Whether the first fence of a new key is covered by the promise.
    #[must_use]
    pub fn is_vouched_for(&self, unix: u64) -> bool {
        let first = self.counter.first(unix);
        !self.in_doubt && self.bound.is_said() && first.is_none_or(|f| self.counter.allows(f))
    }

    /// The quarantine, if there is one.
    #[must_use]
    pub fn in_quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    /// Whether it is not over yet, for keys of which nothing else is known.
    #[must_use]
    pub fn is_in_quarantine(&self, now: Instant) -> bool {
        self.has_quarantine(|quarantine| !quarantine.until.is_over(now))
    }

    /// Whether it is not over yet for some key.
    #[must_use]
    pub fn may_have_forgotten(&self, now: Instant) -> bool {
        self.has_quarantine(|quarantine| !quarantine.last().is_over(now))
    }

    fn has_quarantine(&self, is_on: impl FnOnce(&Quarantine) -> bool) -> bool {
        self.settings.quarantine != Policy::Off && self.quarantine.as_ref().is_some_and(is_on)
    }

    /// When a quarantine has to be looked at.
    pub(super) fn quarantine_wakes(&self) -> Option<Deadline> {
        let off = self.settings.quarantine == Policy::Off;
        self.quarantine.as_ref().map(|all| if off { Deadline(0) } else { all.next() })
    }

    /// Whether no key at all is granted.
    pub(super) fn refuses_all(&self) -> bool {
        self.quarantine.as_ref().is_some_and(Quarantine::is_for_all)
    }

    /// Ends a quarantine that is over, or that the operator does not want. Waiters may get their locks
    /// now.
    pub(super) fn look_at_quarantine(&mut self, now: Instant) {
        let Some(quarantine) = &mut self.quarantine else { return };
        let was_for_all = quarantine.is_for_all();
        if quarantine.pass(now) || self.settings.quarantine == Policy::Off {
            if was_for_all {
                self.places.pace.look(now, true);
            }
            if !self.may_have_forgotten(now) {
                self.quarantine = None;
            }
            self.serve_all_later();
        }
    }

    /// How much longer the key is in quarantine, and why.
    pub(super) fn kept_back(&self, key: Key<'_>, now: Instant) -> Option<(Cause, Millis)> {
        let quarantine = self.quarantine.as_ref()?;
        let end = quarantine.of(key.name);
        (!end.is_over(now)).then(|| (quarantine.cause, end.left(now)))
    }

    /// Refuses in quarantine.
    pub(super) fn refuse_in_quarantine<'a>(
        &self,
        key: Key<'_>,
        now: Instant,
    ) -> Result<(), Refusal<'a>> {
        match self.kept_back(key, now) {
            Some((cause, left)) if !self.following => Err(Refusal::Quarantine { cause, left }),
            _ => Ok(()),
        }
    }

    /// Makes sure that the state file vouches for a fence and a lease that are to be granted. Most
    /// often it does; else it is written first. `owner`: for whom, if not for who asks now.
    pub(super) fn vouch<'a, H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        (fence, ttl): (Fence, Millis),
        owner: Option<Owner>,
        time: Time,
    ) -> Result<(), Refusal<'a>> {
        if !self.following && !self.is_said(key, fence, ttl) {
            let owner = owner.unwrap_or_else(|| host.owner());
            let promise = self.say_more(key, fence, ttl, Some(owner), time)?;
            if !host.promise(&promise) {
                return Err(Refusal::NotDurable);
            }
            self.in_doubt = false;
            self.promised(promise);
        }
        self.bound.saw(key.name, ttl, self.settings.usual_ttl);
        Ok(())
    }

    /// The next fence, vouched for like the lease that goes with it. It is not handed out yet.
    pub(super) fn next_fence<'a, H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        (proposal, ttl): (Option<Fence>, Millis),
        owner: Option<Owner>,
        time: Time,
    ) -> Result<Fence, Refusal<'a>> {
        let slot = Slot::of(key.name);
        let fence = self.counter.next(slot, time.unix, proposal).ok_or(Refusal::Exhausted)?;
        self.vouch(host, key, (fence, ttl), owner, time)?;
        self.counter.raise(slot, fence);
        Ok(fence)
    }

    fn told(&self) -> Option<&Bounds> {
        match &self.inherited_bounds {
            Inherited::Told(bounds) => Some(bounds),
            _ => None,
        }
    }

    fn ask(&mut self, promise: Promise, time: Time) -> Promise {
        self.counter.asked(promise.fence, time);
        self.bound.asked(&promise.bounds);
        promise
    }

    fn quarantine(&mut self, cause: Cause, bounds: &Bounds, now: Instant) {
        if let Some(length) = self.settings.quarantine.length(bounds) {
            self.quarantine = Quarantine::begin(self.quarantine.take(), cause, &length, now);
        }
    }

    fn serve_all_later(&mut self) {
        let waits = |(db, names): (&u32, &super::Queues)| -> Vec<KeyBuf> {
            names.keys().map(|name| Key { db: *db, name }.to_owned()).collect()
        };
        let keys: Vec<Vec<KeyBuf>> = self.queues.iter().map(waits).collect();
        keys.into_iter().flatten().for_each(|key| self.put_off.serve(key));
    }
}

/// How long these leases run from now on. Rounded down, by less than a millisecond: no server dies
/// and starts again that fast.
fn left<N: AsRef<[u8]>>(
    held: impl Iterator<Item = (Deadline, N)>,
    now: Instant,
) -> impl Iterator<Item = (Millis, N)> {
    held.map(move |(end, name)| (end.left(now), name))
}
