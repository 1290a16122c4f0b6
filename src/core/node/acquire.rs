//! ACQUIRE: granted, denied, or queued.

use super::{Node, ephemeral};
use crate::command::acquire::Acquire;
use crate::limits::{MAX_HOLDERS, MAX_WAITERS, WAITERS_OF_ALL};
use crate::lock::queue::{Asks, Presence, Queue, Waiter};
use crate::lock::{Crowd, Found, Grant, Holders};
use crate::node::host::{Effect, Host, Memory, WaitOutcome};
use crate::reason::Reason;
use crate::words::{ClientId, Deadline, Fence, Key, Lease, Mode, Owner, Time, WaiterId};

/// The result of an ACQUIRE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The token holds the lock.
    Granted(Fence),
    /// The token does not hold the lock, and does not wait.
    Denied,
    /// The request waits; the answer comes through [`Answers::answer`](crate::Answers::answer).
    Waiting(WaiterId),
}

impl Node {
    /// Takes the lock for `client`, or queues it.
    ///
    /// # Errors
    /// Fails if the request contradicts the present holders, or a limit is reached. Then nothing has
    /// changed.
    pub fn acquire<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
        client: ClientId,
        time: Time,
    ) -> Result<Acquired, Reason> {
        self.durable.counter.look(time);
        self.check_ttl(ask.ttl)?;
        self.check_proposal(ask.fence)?;
        if self.final_tokens.has(key, ask.token, time.now) {
            return Err(Reason::Final);
        }
        self.look_at_quarantine(time.now);
        self.expire_due(host, key, ask.token, time);
        self.serve(host, key, time);
        let found = host.find(key);
        if found.grant(ask.token).is_some() {
            return self.ask_again(host, key, ask, client, time);
        }
        let is_done = matches!(found, Found::Done { .. });
        let found = unless_done(found, ask.again)?;
        check_mode(&found, ask.mode)?;
        let mut refused = self.refuse_in_quarantine(time.now);
        let queue = self.waiting.queue(key);
        let may = refused.is_ok() && self.shut_until(key, time.now).is_none();
        if may && Queue::is_next(queue, ask.token, ask.mode, &found) {
            self.durable.counter.learn(key.name, found.top(), false);
            self.check_memory(host)?;
            match self.next_fence(host, key, (ask.fence, ask.ttl), None, time) {
                Ok(fence) => {
                    if is_done {
                        host.remove(key);
                    }
                    self.grant_at_once(host, key, ask, client, fence, time);
                    return Ok(Acquired::Granted(fence));
                }
                // A request with WAIT waits for the disk, too.
                Err(Reason::NotDurable) => refused = Err(Reason::NotDurable),
                Err(reason) => return Err(reason),
            }
        }
        if is_done || ask.wait.is_none() || !host.may_block() {
            if ask.keep.is_none() {
                refused?;
            }
            self.poll(host, key, ask, client, time)?;
            refused?;
            self.observed.hot.denied(key, time.now);
            return Ok(Acquired::Denied);
        }
        self.wait(host, key, ask, client, time)
    }

    /// Renews the grant of the token that asks, which holds the lock.
    fn ask_again<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
        client: ClientId,
        time: Time,
    ) -> Result<Acquired, Reason> {
        // The data set may be older than the crash: the grant's lease may have ended, and another client may
        // have held the lock since.
        self.refuse_in_quarantine(time.now)?;
        let found = host.find(key);
        let Some((mode, grant)) = found.mode().zip(found.grant(ask.token)) else {
            return Ok(Acquired::Denied);
        };
        let new = renewed(mode, &grant, ask, client, time)?;
        let (before, was_ephemeral) = (grant.client, grant.ephemeral);
        if new.meta.len() > grant.meta.len() || new.ephemeral && !was_ephemeral {
            self.check_memory(host)?;
        }
        self.vouch(host, (new.fence, ask.ttl), time)?;
        self.unmark_ephemeral(key, ask.token, before, was_ephemeral);
        self.mark_ephemeral(key, &new);
        self.renew(host, key, mode, new, before == ClientId::AWAY, time);
        Ok(Acquired::Granted(new.fence))
    }

    /// Grants the lock to the token that asks, which is next and may have a place.
    fn grant_at_once<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
        client: ClientId,
        fence: Fence,
        time: Time,
    ) {
        let lease = Lease::begin(time.now, ask.ttl);
        let place = self.take_out(key, ask.token, time.now);
        let waited = place.as_ref().map(|place| time.now.since(place.since));
        let had_place = place.is_some();
        replaced(host, place);
        let Acquire { token, meta, .. } = *ask;
        let (client, ephemeral) = speaks(client, ask.ephemeral, !ask.turn);
        let grant = Grant { token, fence, lease, client, ephemeral, meta };
        self.grant(host, key, ask.mode, grant, waited);
        if had_place {
            self.serve(host, key, time);
        }
    }

    /// Ends a request that did not get the lock and has not waited. With KEEP its token has a place from now
    /// on; without KEEP it has none.
    fn poll<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
        client: ClientId,
        time: Time,
    ) -> Result<(), Reason> {
        if ask.keep.is_none() && self.waiting.waiter(key, ask.token).is_none() {
            return Ok(());
        }
        if ask.keep.is_some() {
            self.check_turn(host, key, ask)?;
        }
        let owner = host.owner();
        let id = self.enlist(host, key, ask, (client, owner), time);
        self.depart(id, time.now);
        // If the token has lost a place, another waiter may be next.
        self.serve(host, key, time);
        Ok(())
    }

    /// Stores a new holder and reports it.
    pub(super) fn grant<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        mode: Mode,
        grant: Grant<'_>,
        waited: Option<u64>,
    ) {
        store(host, key, mode, grant);
        self.mark_ephemeral(key, &grant);
        self.observed.hot.granted(key, waited);
        host.tell(key, Effect::Granted { mode, grant, waited });
    }

    /// Refuses a request if locks take all the memory that they may. Holders and waiters keep their memory:
    /// each had room when it came.
    pub(super) fn check_memory<H: Host>(&self, host: &mut H) -> Result<(), Reason> {
        let Memory { used, most } = host.memory();
        if used + self.memory() < most { Ok(()) } else { Err(Reason::TooManyLocks { most }) }
    }

    pub(super) fn check_proposal(&self, fence: Option<Fence>) -> Result<(), Reason> {
        match fence {
            Some(fence) if !self.is_following() && self.durable.is_too_far(fence) => {
                let most = self.durable.counter.farthest().0;
                Err(Reason::TooFar { given: fence.0, most })
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that there is room for a fence that has to be stored for its own key. Returns its owner.
    pub(super) fn make_room<H: Host>(
        &self,
        host: &mut H,
        key: Key<'_>,
        fence: Fence,
        owner: Option<Owner>,
    ) -> Result<Owner, Reason> {
        if self.is_following() || !self.durable.counter.needs_room(key.name, fence) {
            return Ok(Owner::default());
        }
        let owner = owner.unwrap_or_else(|| host.owner());
        match self.durable.counter.has_room(key.name, owner) {
            true => Ok(owner),
            false => {
                Err(Reason::TooManyAhead { given: fence.0, most: self.durable.counter.shared() })
            }
        }
    }

    /// Stores a holder's new grant and reports it.
    pub(super) fn renew<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        mode: Mode,
        grant: Grant<'_>,
        was_away: bool,
        time: Time,
    ) {
        if mode == Mode::Exclusive {
            host.renew_one(key, grant);
            host.forget_expiry(key);
        } else {
            store(host, key, mode, grant);
        }
        host.tell(key, Effect::Renewed { mode, grant });
        if was_away {
            self.serve(host, key, time);
        }
    }

    fn mark_ephemeral(&mut self, key: Key<'_>, grant: &Grant<'_>) {
        if grant.ephemeral && grant.client != ClientId::UNKNOWN {
            self.ephemeral.add(key, grant.token, grant.client);
        }
    }

    fn wait<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
        client: ClientId,
        time: Time,
    ) -> Result<Acquired, Reason> {
        self.check_turn(host, key, ask)?;
        let owner = host.owner();
        let there = self.waiting.queue(key).and_then(|queue| queue.get(ask.token));
        // The same token on another connection does not count twice.
        let waits = there.is_some_and(|there| there.is_present() && there.owner == owner);
        if !waits && !self.waiting.shares.have_room(owner, 1, MAX_WAITERS * WAITERS_OF_ALL) {
            return Err(Reason::TooManyWaiters);
        }
        let id = self.enlist(host, key, ask, (client, owner), time);
        // The request may be the first, and grantable by now: a token at its old place may ask for less than
        // before; and a foreign lock's expiry must be watched.
        self.serve(host, key, time);
        Ok(Acquired::Waiting(id))
    }

    /// Refuses a request that would wait if locks take all the memory that they may, and its turn would take
    /// more than the holder frees. So a turn, which may come at any moment, is never refused, and a lock passes
    /// from holder to waiter even when memory is full.
    fn check_turn<H: Host>(
        &self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
    ) -> Result<(), Reason> {
        let Err(full) = self.check_memory(host) else { return Ok(()) };
        let Acquire { token, mode, meta, .. } = *ask;
        let counted = |Waiter { asks, .. }: &Waiter| {
            asks.mode == mode && asks.meta.len() >= meta.len() && asks.ephemeral >= ask.ephemeral
        };
        if self.waiting.waiter(key, token).is_some_and(counted) {
            return Ok(());
        }
        let given_back = match host.find(key) {
            Found::Held(Holders::One(grant)) => {
                takes(key, grant.token, grant.meta, grant.ephemeral)
            }
            Found::Held(Holders::Many(crowd)) => crowd.size() as u64,
            _ => 0,
        };
        let is_even = is_even(takes(key, token, meta, ask.ephemeral), given_back);
        if mode == Mode::Exclusive && is_even { Ok(()) } else { Err(full) }
    }

    /// Puts a request into the queue: at the end, or at its token's place. A token has one request, the newest,
    /// which replaces an earlier one in every respect.
    fn enlist<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'_>,
        (client, owner): (ClientId, Owner),
        time: Time,
    ) -> WaiterId {
        let id = self.waiting.new_id();
        let until = ask.wait.filter(|wait| wait.0 > 0).map(|ms| Deadline::after(time.now, ms));
        let waiter = Waiter {
            id,
            token: ask.token.into(),
            asks: Asks {
                mode: ask.mode,
                ttl: ask.ttl,
                proposal: ask.fence,
                client,
                ephemeral: ask.ephemeral,
                meta: ask.meta.into(),
                keep: ask.keep,
                wants_turn: ask.turn && ask.keep.is_some(),
            },
            since: time.now,
            owner,
            presence: Presence::Waiting { until },
        };
        self.charge(key, time.now);
        let new = self.waiting.queue(key).is_none();
        let new = new.then(|| Queue::at(key, time.now));
        let old = self.waiting.join(key, waiter, new);
        replaced(host, old);
        id
    }
}

/// Answers an earlier request of the token that asks, if one waits.
fn replaced<H: Host>(host: &mut H, old: Option<Waiter>) {
    if let Some(old) = old.filter(Waiter::is_present) {
        host.answer(old.id, WaitOutcome::Replaced);
    }
}

/// The grant of a holder that asks again: the same fence, and a lease that never becomes shorter. Most likely
/// its client never received the first reply, and tries again: it gets the same reply.
fn renewed<'a>(
    held: Mode,
    grant: &Grant<'_>,
    ask: &Acquire<'a>,
    client: ClientId,
    time: Time,
) -> Result<Grant<'a>, Reason> {
    if !held.is_like(ask.mode) {
        return Err(Reason::OtherMode { held, asked: ask.mode });
    }
    let lease = grant.lease.extended_to(time.now, ask.ttl);
    let is_back = grant.client != ClientId::AWAY || !ask.turn;
    let (client, ephemeral) = speaks(client, ask.ephemeral, is_back);
    let Acquire { token, meta, .. } = *ask;
    Ok(Grant { token, fence: grant.fence, lease, client, ephemeral, meta })
}

/// The connection of a grant, and true if the grant ends with it. A token that got the lock with TURN is away
/// until it asks without TURN, even if it did not wait: it has not asked the other nodes yet.
pub(super) fn speaks(client: ClientId, ephemeral: bool, is_back: bool) -> (ClientId, bool) {
    if is_back { (client, ephemeral) } else { (ClientId::AWAY, false) }
}

/// The bytes that an exclusive grant takes for its texts.
pub(super) fn takes(key: Key<'_>, token: &[u8], meta: &[u8], ephemeral: bool) -> u64 {
    let entry = if ephemeral { ephemeral::size(key, token) } else { 0 };
    (token.len() + meta.len()) as u64 + entry
}

/// True if texts of these bytes take no more memory than is freed, or little more.
pub(super) fn is_even(takes: u64, given_back: u64) -> bool {
    takes.div_ceil(ABOUT_EVEN) <= given_back.div_ceil(ABOUT_EVEN)
}

/// Refuses a request for a lock that is done, unless it may take it again: then the key counts as free.
fn unless_done(found: Found<'_>, again: Option<Fence>) -> Result<Found<'_>, Reason> {
    match found {
        Found::Done { done, .. } if again.is_some_and(|again| done.fence <= again) => {
            Ok(Found::Over { top: done.top })
        }
        Found::Done { done, left } => Err(Reason::Done { left, fence: done.fence }),
        found => Ok(found),
    }
}

fn check_mode(found: &Found<'_>, asked: Mode) -> Result<(), Reason> {
    match (found, asked) {
        (Found::WrongType, _) => Err(Reason::WrongType),
        (Found::Held(Holders::Many(crowd)), Mode::Shared)
            if crowd.mode() == Mode::Shared && crowd.len() >= MAX_HOLDERS =>
        {
            Err(Reason::TooManyHolders)
        }
        _ => Ok(()),
    }
}

/// Adds the holder to the lock at the key, which admits it, or replaces its grant in a crowd.
pub(super) fn store<H: Host>(host: &mut H, key: Key<'_>, mode: Mode, grant: Grant<'_>) {
    if mode == Mode::Exclusive {
        host.put_one(key, grant);
    } else if let Found::Held(Holders::Many(crowd)) = host.find(key) {
        crowd.add(mode, grant);
        host.changed(key);
        host.forget_expiry(key);
    } else {
        let mut crowd = Crowd::new(mode);
        crowd.add(mode, grant);
        host.put_many(key, crowd);
    }
}

/// Tokens and texts take about the same memory if their lengths are in the same step of this many bytes.
const ABOUT_EVEN: u64 = 64;
