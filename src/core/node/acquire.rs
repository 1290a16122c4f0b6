//! ACQUIRE: granted, denied, or queued.

use super::{Node, Place};
use crate::command::Refusal;
use crate::command::acquire::Acquire;
use crate::fence::Slot;
use crate::host::{Answer, Effect, Host, Memory};
use crate::limits::MAX_HOLDERS;
use crate::lock::{Asker, Crowd, Found, Grant, Held, Renewal};
use crate::queue::Waiter;
use crate::words::{ClientId, Deadline, Fence, Key, Lease, Mode, Time, WaiterId};

/// What an ACQUIRE comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// It holds.
    Granted(Fence),
    /// It does not, and is not going to wait.
    Denied,
    /// It waits; the answer comes through [`Answers::answer`](crate::Answers::answer).
    Waiting(WaiterId),
}

impl Node {
    /// Takes the lock for `client`, or queues it.
    ///
    /// # Errors
    /// When the request contradicts what there is, or a limit is reached. Nothing has changed
    /// then.
    pub fn acquire<'a, H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'a>,
        client: ClientId,
        time: Time,
    ) -> Result<Acquired, Refusal<'a>> {
        self.check_proposal(ask.fence, time)?;
        self.look_at_quarantine(time.now);
        self.freshen(host, key, ask.token, time);
        self.serve(host, key, time);
        let slot = Slot::of(key.name);
        let found = host.find(key);
        if let Some((mode, grant)) = found.mode().zip(found.grant(ask.token)) {
            let renewal = renewal(mode, grant, ask, client, time)?;
            if ask.meta.len() > grant.meta.len() {
                check_memory(host)?;
            }
            self.vouch(host, renewal.fence, ask.ttl, time)?;
            return Ok(self.ask_again(host, key, mode, ask.token, renewal));
        }
        check_mode(&found, ask.mode)?;
        let mut refused = self.refuse_in_quarantine(time.now);
        if refused.is_ok() && self.queue(key).is_none() && found.admits(ask.mode) {
            self.counter.raise(slot, found.top());
            check_memory(host)?;
            match self.next_fence(host, slot, ask.fence, ask.ttl, time) {
                Ok(fence) => {
                    let lease = Lease::begin(time.now, ask.ttl);
                    let Acquire { token, ephemeral, meta, .. } = *ask;
                    let grant = Grant { token, fence, lease, client, ephemeral, meta };
                    self.grant(host, key, ask.mode, grant, None);
                    return Ok(Acquired::Granted(fence));
                }
                // Whoever wants to wait waits for the disk, too.
                Err(Refusal::NotDurable) => refused = Err(Refusal::NotDurable),
                Err(refusal) => return Err(refusal),
            }
        }
        if ask.wait.is_none() || !host.may_block() {
            return refused.map(|()| Acquired::Denied);
        }
        self.wait(host, key, ask, client, time)
    }

    /// Stores a new holder and tells of it.
    pub(super) fn grant<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        mode: Mode,
        grant: Grant<'_>,
        waited: Option<u64>,
    ) {
        self.spare(key, grant.token);
        store(host, key, mode, grant);
        if grant.ephemeral && grant.client != ClientId::UNKNOWN {
            let place = Place::of(key, grant.token, grant.client);
            self.ephemeral.entry(grant.client).or_default().insert(place);
        }
        host.tell(key, Effect::Granted { mode, grant, waited });
    }

    pub(super) fn check_proposal<'a>(
        &self,
        fence: Option<Fence>,
        time: Time,
    ) -> Result<(), Refusal<'a>> {
        match fence {
            Some(fence) if !self.following && self.is_too_far(fence, time.unix) => {
                let most = self.counter.farthest(time.unix).0;
                Err(Refusal::TooFar { given: fence.0, most })
            }
            _ => Ok(()),
        }
    }

    /// The same token asks while it holds: a retry, most likely, by somebody who never got the
    /// first answer. It gets that answer.
    fn ask_again<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        mode: Mode,
        token: &[u8],
        renewal: Renewal<'_>,
    ) -> Acquired {
        self.forget_ephemeral(host, key, token);
        self.spare(key, token);
        renew(host, key, mode, token, renewal);
        if let Some(Asker { client, ephemeral: true, .. }) = renewal.asker
            && client != ClientId::UNKNOWN
        {
            self.ephemeral.entry(client).or_default().insert(Place::of(key, token, client));
        }
        let fence = renewal.fence;
        let Renewal { lease, asker, .. } = renewal;
        let Asker { client, ephemeral, meta } =
            asker.unwrap_or(Asker { client: ClientId::UNKNOWN, ephemeral: false, meta: b"" });
        let grant = Grant { token, fence, lease, client, ephemeral, meta };
        host.tell(key, Effect::Renewed { mode, grant });
        Acquired::Granted(fence)
    }

    fn wait<'a, H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Acquire<'a>,
        client: ClientId,
        time: Time,
    ) -> Result<Acquired, Refusal<'a>> {
        let in_queue = self.queue(key).is_some_and(|queue| queue.get(ask.token).is_some());
        if !in_queue && self.waiting.len() as u64 >= self.settings.max_waiters {
            return Err(Refusal::TooManyWaiters(self.settings.max_waiters));
        }
        let id = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        let until = ask.wait.filter(|wait| wait.0 > 0).map(|ms| Deadline::after(time.now, ms));
        let waiter = Waiter {
            id,
            token: ask.token.into(),
            mode: ask.mode,
            ttl: ask.ttl,
            proposal: ask.fence,
            client,
            ephemeral: ask.ephemeral,
            meta: ask.meta.into(),
            since: time.now,
            until,
        };
        self.waiting.insert(id, Place::of(key, ask.token, client));
        self.waits.extend(until.map(|end| (end, id)));
        let names = self.queues.entry(key.db).or_default();
        if !names.contains_key(key.name) {
            names.insert(key.name.into(), crate::queue::Queue::default());
        }
        if let Some(old) = names.get_mut(key.name).and_then(|queue| queue.join(waiter)) {
            self.unlist(&old);
            host.answer(old.id, Answer::Replaced);
        }
        // It may be the first, and grantable by now: a token that takes its old place may ask
        // for less than before; and a foreign lock's expiry has to be watched.
        self.serve(host, key, time);
        Ok(Acquired::Waiting(id))
    }
}

impl Place {
    pub(super) fn of(key: Key<'_>, token: &[u8], client: ClientId) -> Place {
        Place { key: key.to_owned(), token: token.into(), client }
    }
}

/// What a holder that asks again gets: the same fence, and a lease that never becomes shorter.
fn renewal<'a>(
    held: Mode,
    grant: Grant<'_>,
    ask: &Acquire<'a>,
    client: ClientId,
    time: Time,
) -> Result<Renewal<'a>, Refusal<'a>> {
    if held != ask.mode {
        return Err(Refusal::OtherMode { held, asked: ask.mode });
    }
    let lease = grant.lease.prolonged(time.now, ask.ttl);
    let asker = Asker { client, ephemeral: ask.ephemeral, meta: ask.meta };
    Ok(Renewal { lease, fence: grant.fence, asker: Some(asker) })
}

/// Whoever asks for more than locks may take is refused. Those who hold keep what they have, and
/// who waits comes after somebody who made room.
fn check_memory<'a, H: Host>(host: &mut H) -> Result<(), Refusal<'a>> {
    let Memory { used, most } = host.memory();
    if used < most { Ok(()) } else { Err(Refusal::TooManyLocks { most }) }
}

fn check_mode<'a>(found: &Found<'_>, asked: Mode) -> Result<(), Refusal<'a>> {
    match (found, asked) {
        (Found::WrongType, _) => Err(Refusal::WrongType),
        (Found::Held(Held::Many(crowd)), asked) => match (crowd.mode(), asked) {
            (Mode::Limit(held), Mode::Limit(asked)) if held != asked => {
                Err(Refusal::OtherLimit { held, asked })
            }
            (Mode::Shared, Mode::Shared) if crowd.len() >= MAX_HOLDERS => {
                Err(Refusal::TooManyHolders)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Adds the holder to what is at the key, which admits it.
pub(super) fn store<H: Host>(host: &mut H, key: Key<'_>, mode: Mode, grant: Grant<'_>) {
    if mode == Mode::Exclusive {
        host.put_one(key, grant);
    } else if let Found::Held(Held::Many(crowd)) = host.find(key) {
        crowd.add(grant);
        host.changed(key);
        host.forget_expiry(key);
    } else {
        let mut crowd = Crowd::new(mode);
        crowd.add(grant);
        host.put_many(key, crowd);
    }
}

/// Changes the holder that is there.
pub(super) fn renew<H: Host>(
    host: &mut H,
    key: Key<'_>,
    mode: Mode,
    token: &[u8],
    renewal: Renewal<'_>,
) {
    if mode == Mode::Exclusive {
        host.renew_one(key, renewal);
    } else if let Found::Held(Held::Many(crowd)) = host.find(key) {
        crowd.renew(token, &renewal);
        host.changed(key);
    }
    host.forget_expiry(key);
}
