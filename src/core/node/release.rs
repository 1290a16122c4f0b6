//! RELEASE, EXTEND, CHECK and BREAK.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Node;
use super::acquire::{is_even, takes};
use crate::command::extend::Extend;
use crate::command::release::{DoneFor, Release};
use crate::limits::MAX_DONE;
use crate::lock::done::{Done, NO_MAKER, Until, maker, units};
use crate::lock::{Found, Grant, Holders};
use crate::node::host::{Effect, Ending, Host, WaitOutcome};
use crate::node::who::number;
use crate::reason::Reason;
use crate::words::{ClientId, Fence, Key, Lease, Millis, Owner, Time};

impl Node {
    /// Releases the lock and hands it over. A token that waits leaves the queue instead.
    ///
    /// # Errors
    /// Fails if the key has another content.
    pub fn release<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Release<'_>,
        time: Time,
    ) -> Result<bool, Reason> {
        self.durable.counter.look(time);
        if matches!(host.find(key), Found::WrongType) {
            return Err(Reason::WrongType);
        }
        let token = ask.token;
        let mut owner = Owner::default();
        if let Some(terms) = &ask.done {
            self.expire_due(host, key, token, time);
            owner = self.check_done(host, key, token, terms, time)?;
        }
        self.note_final(key, ask, time.now);
        self.expire_due(host, key, token, time);
        if let Some(terms) = &ask.done
            && self.finish(host, key, token, (terms, owner), time)
        {
            return Ok(true);
        }
        let released = self.end(host, key, token, Ending::Released, time);
        if !released
            && let Some(waiter) = self.take_out(key, token, time.now)
            && waiter.is_present()
        {
            host.answer(waiter.id, WaitOutcome::Denied);
        }
        self.serve(host, key, time);
        Ok(released)
    }

    /// Extends the token's lease to `ttl` from now, if it holds; no lease gets shorter.
    ///
    /// # Errors
    /// Fails if the key has another content, the lease is too long, or the fence is too far ahead.
    pub fn extend<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Extend<'_>,
        client: ClientId,
        time: Time,
    ) -> Result<bool, Reason> {
        self.durable.counter.look(time);
        self.check_ttl(ask.ttl)?;
        self.look_at_quarantine(time.now);
        self.expire_due(host, key, ask.token, time);
        self.serve(host, key, time);
        let found = host.find(key);
        if matches!(found, Found::WrongType) {
            return Err(Reason::WrongType);
        }
        let grant = found.grant(ask.token).filter(|grant| !self.has_closed(grant));
        let Some((mode, grant)) = found.mode().zip(grant) else {
            // A token without a grant may have had one that the node has forgotten.
            self.refuse_in_quarantine(time.now)?;
            return Ok(false);
        };
        if ask.fence.is_some_and(|fence| grant.fence > fence) {
            return Ok(false);
        }
        // A fence granted by this node is not a proposal: its clock may have been set back since.
        let raised = ask.fence.filter(|fence| *fence > grant.fence);
        self.check_proposal(raised)?;
        // Only a client that has received this fence names it. Without one, or with a larger one, the client
        // may not have received this grant: its lease may have ended before the crash.
        if ask.fence != Some(grant.fence) {
            self.refuse_in_quarantine(time.now)?;
        }
        let was_away = grant.client == ClientId::AWAY;
        let (ephemeral, meta) = (grant.ephemeral, Box::from(grant.meta));
        // The grant belongs to this connection now, unless it ends with another one.
        let client = if ephemeral || self.is_following() { grant.client } else { client };
        let fence = ask.fence.unwrap_or(grant.fence);
        let lease = grant.lease.extended_to(time.now, ask.ttl);
        let is_longer = lease != grant.lease;
        // An unchanged lease needs no more of the state file.
        let longer = if is_longer { lease.ttl } else { Millis(1) };
        if self.is_following() {
            self.heard_of(key, fence, lease.ttl);
        } else if raised.is_some() {
            let owner = self.make_room(host, key, fence, None)?;
            self.vouch(host, (fence, longer), time)?;
            self.durable.counter.hand_out(key.name, fence, owner);
        } else if is_longer {
            self.vouch(host, (fence, longer), time)?;
        }
        let grant = Grant { token: ask.token, fence, lease, client, ephemeral, meta: &meta };
        self.renew(host, key, mode, grant, was_away, time);
        Ok(true)
    }

    /// Returns the fence of the token, if it holds the lock now. Changes no lock; the answer is about this
    /// moment only.
    ///
    /// # Errors
    /// Fails if the key has another content, or if a quarantine leaves open whether the token still holds it.
    pub fn check<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: &[u8],
        time: Time,
    ) -> Result<Option<Fence>, Reason> {
        let found = host.find(key);
        if matches!(found, Found::WrongType) {
            return Err(Reason::WrongType);
        }
        let holds =
            |grant: &Grant<'_>| !grant.lease.end.is_over(time.now) && !self.has_closed(grant);
        let fence = found.grant(token).filter(holds).map(|grant| grant.fence);
        self.refuse_in_quarantine(time.now)?;
        Ok(fence)
    }

    /// True if the grant ends with a connection, which has closed.
    fn has_closed(&self, grant: &Grant<'_>) -> bool {
        grant.ephemeral && self.ephemeral.has_closed(grant.client)
    }

    /// Ends every lease at the key, or the token's, and hands over. Returns the number of ended leases.
    ///
    /// # Errors
    /// Fails if the key has another content.
    pub fn break_lock<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: Option<&[u8]>,
        time: Time,
    ) -> Result<usize, Reason> {
        self.end_over(host, key, time, usize::MAX);
        let found = host.find(key);
        if matches!(found, Found::WrongType) {
            return Err(Reason::WrongType);
        }
        if let Found::Done { done, .. } = found {
            let is_meant = token.is_none_or(|token| done.by == number(token));
            if is_meant {
                host.remove_foreign(key);
                self.serve(host, key, time);
            }
            return Ok(usize::from(is_meant));
        }
        let tokens: Vec<Box<[u8]>> = match (token, found) {
            (Some(token), _) => [token.into()].into(),
            (None, Found::Held(Holders::One(grant))) => [grant.token.into()].into(),
            (None, Found::Held(Holders::Many(crowd))) => {
                crowd.grants().map(|grant| grant.token.into()).collect()
            }
            _ => Vec::new(),
        };
        let mut broken = |token: &[u8]| self.end(host, key, token, Ending::Broken, time);
        let count = tokens.iter().filter(|token| broken(token)).count();
        let there = token.and_then(|token| self.waiting.queue(key)?.get(token));
        let place = there.is_some_and(|waiter| !waiter.is_present());
        if place {
            token.and_then(|token| self.take_out(key, token, time.now));
        }
        self.serve(host, key, time);
        Ok(count + usize::from(place))
    }

    /// Checks if a token may leave a completion record. Returns the user that a fence far ahead counts for.
    fn check_done<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: &[u8],
        terms: &DoneFor<'_>,
        time: Time,
    ) -> Result<Owner, Reason> {
        let (granted, fits) = match host.find(key) {
            Found::Held(Holders::One(grant)) if grant.token == token => {
                let given_back = takes(key, token, grant.meta, false);
                (grant.fence, is_even(terms.meta.len() as u64, given_back))
            }
            Found::Held(Holders::Many(crowd)) if crowd.holder(token).is_some() => {
                return Err(Reason::NotAlone);
            }
            _ => return Ok(Owner::default()),
        };
        if self.is_following() {
            return Ok(Owner::default());
        }
        if host.done_by_user() + units(key.name.len(), terms.meta.len()) > MAX_DONE {
            return Err(Reason::TooManyDone);
        }
        // The record replaces the grant. Other users' locks must not keep a job from being done.
        if !fits {
            self.check_memory(host)?;
        }
        // The next holder gets a larger fence than the claim had, even if this node granted a smaller one.
        let Some(fence) = terms.fence.filter(|fence| *fence > granted) else {
            return Ok(Owner::default());
        };
        self.check_proposal(Some(fence))?;
        let owner = self.make_room(host, key, fence, None)?;
        self.vouch(host, (fence, Millis(1)), time)?;
        Ok(owner)
    }

    /// Makes the lock done, if the token holds it, and answers its waiters. True too if this token has already
    /// made it done: the reply to the first request may have been lost.
    fn finish<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: &[u8],
        (terms, owner): (&DoneFor<'_>, Owner),
        time: Time,
    ) -> bool {
        let grant = match host.find(key) {
            Found::Held(Holders::One(grant)) if grant.token == token => grant,
            Found::Done { done, .. } => return done.by == number(token),
            _ => return false,
        };
        let DoneFor { time: length, fence, meta } = *terms;
        let fence = fence.unwrap_or(grant.fence);
        let top = fence.max(grant.fence);
        if fence > grant.fence && !self.is_following() {
            self.durable.counter.hand_out(key.name, fence, owner);
        }
        let unix_ms = time.unix / 1000;
        let maker = if self.is_following() { NO_MAKER } else { maker(host.owner()) };
        let done = Done { by: number(token), fence, top, since: unix_ms, maker, meta };
        let until = Until { unix_ms: unix_ms.saturating_add(length.0), left: length };
        self.put_done(host, key, done, Some(until), time);
        true
    }

    /// Replaces the content of the key with a completion record.
    pub(super) fn put_done<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        done: Done<'_>,
        until: Option<Until>,
        time: Time,
    ) {
        let found = host.find(key);
        let (top, free) = (found.top(), matches!(found, Found::Free | Found::Over { .. }));
        let mut held = 0;
        if let Found::Held(Holders::One(grant)) = found {
            let Grant { token, client, ephemeral, lease, .. } = grant;
            held = time.now.since(lease.since);
            self.unmark_ephemeral(key, token, client, ephemeral);
        }
        if !free {
            host.remove(key);
        }
        self.pass_on(key, top.max(done.top));
        host.put_done(key, done, until);
        host.tell(key, Effect::Done { done, until, held });
        if !self.is_following() {
            let reason = Reason::Done { left: until.map(|until| until.left), fence: done.fence };
            self.dismiss(host, key, WaitOutcome::Refused(reason), time.now);
        }
    }

    /// Ends the token's grant, if it holds the lock.
    pub(super) fn end<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: &[u8],
        why: Ending,
        time: Time,
    ) -> bool {
        let (lease, fence) = match host.find(key) {
            Found::Held(Holders::One(grant)) if grant.token == token => {
                let Grant { client, ephemeral, lease, fence, .. } = grant;
                self.unmark_ephemeral(key, token, client, ephemeral);
                host.remove(key);
                (lease, fence)
            }
            Found::Held(Holders::Many(crowd)) => {
                let Some(holder) = crowd.remove(token) else { return false };
                let empty = crowd.is_empty();
                let Grant { client, ephemeral, lease, fence, .. } = holder.grant();
                self.unmark_ephemeral(key, token, client, ephemeral);
                settle(host, key, empty);
                (lease, fence)
            }
            _ => return false,
        };
        // Even if the lock was moved here from another key, the next holder gets a larger fence.
        self.durable.counter.learn(key.name, fence, self.is_following());
        host.tell(key, ended(token, why, lease, time));
        true
    }

    /// Ends the leases on the key that are over, at most `most`. Returns their number.
    pub(super) fn end_over<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        time: Time,
        most: usize,
    ) -> usize {
        if self.is_following() {
            return 0;
        }
        let mut count = 0;
        while count < most && host.first_end(key).is_some_and(|end| end.is_over(time.now)) {
            let token: Box<[u8]> = match host.find(key) {
                Found::Held(Holders::One(grant)) => grant.token.into(),
                Found::Held(Holders::Many(crowd)) => match crowd.first_over(time.now) {
                    Some(holder) => holder.grant().token.into(),
                    None => break,
                },
                _ => break,
            };
            self.end(host, key, &token, Ending::Expired, time);
            count += 1;
        }
        count
    }
}

/// Completes the removal of a member: an empty crowd is not a lock.
fn settle<H: Host>(host: &mut H, key: Key<'_>, empty: bool) {
    if empty {
        host.remove(key);
    } else {
        host.changed(key);
    }
}

fn ended(token: &[u8], why: Ending, lease: Lease, time: Time) -> Effect<'_> {
    Effect::Ended { token, why, held: time.now.since(lease.since) }
}
