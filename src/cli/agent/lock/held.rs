//! A lock that is held, from its grant to its release or its loss.

use std::sync::Arc;

use dlock_client::{Error, Guard, Loss, LossReason, Mode};
use dlock_core::{Millis, Reason};
use futures_util::future::OptionFuture;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::figures::{Counted, Figures};
use super::super::handover::Entry;
use super::super::lease::stretched;
use super::super::limits::{FAREWELL, ORDER_PATIENCE};
use super::super::refusal::{self, NO_QUORUM};
use super::super::reply::Reply;
use super::super::tie::Bond;
use super::order::{Acquisition, Done, Inbox, Lock, Order, ReplyTo, end_of};

/// A lock that is held. Dropping it releases the lock.
pub struct Held {
    pub guard: Guard,
    mode: Mode,
    /// The connection that ends it.
    pub bond: Option<Bond>,
    /// Set if its turn came while its caller was away: the end of the lease, unless the caller asks again.
    pub alone_until: Option<Instant>,
    _counted: Counted,
}

/// The end of a lock that was held, with the order that was not carried out.
pub enum Over {
    /// Left done.
    Done(Option<Order>),
    /// Released or lost.
    Free(Option<Order>),
}

/// Keeps the lock until it is released or lost. The first order is an earlier one.
pub async fn keep(
    lock: &Lock,
    mut held: Box<Held>,
    first: Option<Order>,
    inbox: &mut Inbox,
) -> Over {
    let mut next = first;
    loop {
        if let Some(order) = next.take() {
            held = match held.carry_out(lock, order).await {
                Ok(held) => held,
                Err(over) => return over,
            };
        }
        let untied = held.bond.as_ref().map(|bond| bond.tie.ended.wait());
        let alone = held.alone_until.map(sleep_until);
        tokio::select! {
            biased;
            loss = held.guard.lost() => {
                return held.lost(lock, &loss, None);
            }
            order = inbox.recv() => match order {
                None => return Over::Free(None),
                order => next = order,
            },
            Some(()) = OptionFuture::from(untied) => return Over::Free(None),
            Some(()) = OptionFuture::from(alone) => return Over::Free(None),
        }
    }
}

impl Held {
    pub fn new(guard: Guard, mode: Mode, figures: &Figures) -> Box<Held> {
        let _counted = Counted::new(&figures.held);
        Box::new(Held { guard, mode, bond: None, alone_until: None, _counted })
    }

    async fn carry_out(mut self: Box<Self>, lock: &Lock, order: Order) -> Result<Box<Held>, Over> {
        match order {
            Order::Acquire(ask) => return self.again(lock, ask).await,
            Order::Release { done, reply } => return self.release(lock, done, reply).await,
            // Each takes a round trip or more, and no client waits for it.
            Order::Extend { reply, .. } | Order::Check { reply } if reply.is_gone() => {}
            Order::Extend { ttl, reply } => match self.extend(ttl).await {
                Ok(()) => {
                    self.alone_until = self.alone_until.map(|end| end.max(end_of(ttl)));
                    reply.answer(Reply::Int(1));
                }
                Err((_, Some(loss))) => {
                    return Err(self.lost(lock, &loss, Some(Order::Extend { ttl, reply })));
                }
                Err((refused, None)) => reply.answer(refused),
            },
            Order::Check { reply } => tokio::select! {
                biased;
                loss = self.guard.lost() => {
                    return Err(self.lost(lock, &loss, Some(Order::Check { reply })));
                }
                checked = self.checked(lock) => reply.answer(checked),
            },
            Order::Leave => {
                // While its caller is away, a turn with RENEW has no holder.
                if self.bond.is_some() || !self.guard.is_renewed() {
                    self.leave(lock).await;
                }
                return Err(Over::Free(None));
            }
        }
        Ok(self)
    }

    /// Leaves the lock to the end of its lease, because its holder may be at work. Hands a plain lease over.
    async fn leave(self, lock: &Lock) {
        let entry = self.entry(lock);
        // A node that hangs may take too long. The entry is a hint: the next agent confirms it.
        let detached = timeout(FAREWELL - ORDER_PATIENCE, self.guard.detach());
        if !matches!(detached.await, Ok(Err(_))) && self.bond.is_none() {
            lock.hand_over(entry);
        }
    }

    /// Answers a holder that asks again: with the same fence, and a lease of the newly requested length.
    async fn again(
        mut self: Box<Self>,
        lock: &Lock,
        ask: Box<Acquisition>,
    ) -> Result<Box<Held>, Over> {
        // Each takes a round trip, and one client can leave thousands behind.
        if ask.reply.is_gone() {
            return Ok(self);
        }
        let (held, asked) = (self.mode, &ask.terms);
        let refused = if held != asked.mode {
            Some(Reply::error(Reason::OtherMode { held, asked: asked.mode }))
        } else if self.guard.is_renewed() != asked.renew {
            Some(Reply::error(OTHER_END))
        } else {
            match self.extend(asked.ttl).await {
                Ok(()) => None,
                Err((_, Some(loss))) => {
                    return Err(self.lost(lock, &loss, Some(Order::Acquire(ask))));
                }
                Err((refused, None)) => Some(refused),
            }
        };
        let Acquisition { bond, reply, .. } = *ask;
        if let Some(refused) = refused {
            reply.answer(refused);
            return Ok(self);
        }
        (self.bond, self.alone_until) = (bond, None);
        reply.answer(Reply::number(self.guard.fence()));
        Ok(self)
    }

    async fn release(
        self: Box<Self>,
        lock: &Lock,
        done: Option<Done>,
        reply: ReplyTo,
    ) -> Result<Box<Held>, Over> {
        if done.is_some() && self.mode != Mode::Exclusive {
            reply.answer(Reply::error(Reason::NotAlone));
            return Ok(self);
        }
        if let Some(done) = done {
            return self.finish(lock, done, reply).await;
        }
        let Held { guard, bond, alone_until, .. } = *self;
        let released = guard.release().await;
        reply.answer(Reply::Int(released.is_ok().into()));
        Err(match released {
            Ok(_) => Over::Free(None),
            Err(loss) => lost(lock, &loss, bond.as_ref(), alone_until, None),
        })
    }

    /// Leaves the lock done. Without an answer of a majority the reply is an error, and the request is repeated
    /// until the lease ends.
    async fn finish(
        self: Box<Self>,
        lock: &Lock,
        Done { time, outcome }: Done,
        reply: ReplyTo,
    ) -> Result<Box<Held>, Over> {
        let left = self.guard.valid_for();
        match timeout(ORDER_PATIENCE, self.guard.done_for(time, outcome)).await {
            Ok(Ok(())) => {
                reply.answer(Reply::Int(1));
                return Err(Over::Done(None));
            }
            Ok(Err(Error::Lost(loss))) => {
                let over = self.lost(lock, &loss, None);
                reply.answer(refusal::not_done(&loss));
                return Err(over);
            }
            Ok(Err(error)) => reply.answer(refusal::reply(&error)),
            Err(_) => {
                let left = left.as_millis();
                let text = format!("{NO_QUORUM} {UNFINISHED} {left} ms");
                reply.answer(Reply::Error(text));
            }
        }
        Ok(self)
    }

    /// Answers a CHECK. The lock may have been broken, so a majority has to confirm that the token holds it. The
    /// guard shows that it did so without a gap: a node that forgot the lease and granted it again has another fence.
    async fn checked(&self, lock: &Lock) -> Reply {
        let guard = &self.guard;
        if !guard.is_valid() {
            return Reply::Null;
        }
        match lock.common.client.is_held_by(guard.key(), guard.token()).await {
            Ok(true) if guard.is_valid() => Reply::number(guard.fence()),
            Ok(_) => Reply::Null,
            Err(error) => refusal::reply(&error),
        }
    }

    /// Extends the lease, with a limit of the wait: no majority may answer. Fails with the reply to an ACQUIRE, and
    /// the loss if the lock is lost.
    pub async fn extend(&self, ttl: Millis) -> Result<(), (Reply, Option<Loss>)> {
        match timeout(ORDER_PATIENCE, self.guard.extend(stretched(ttl))).await {
            Ok(Ok(())) => Ok(()),
            // The outcome is not known before the nodes have answered.
            Ok(Err(Error::Lost(loss))) if matches!(loss.why, LossReason::Done) => {
                Err((Reply::error(format_args!("{NO_QUORUM} {BEING_LEFT_DONE}")), None))
            }
            Ok(Err(Error::Lost(loss))) => {
                Err((Reply::error(format_args!("{NO_QUORUM} {loss}")), Some(loss)))
            }
            Ok(Err(error)) => Err((refusal::of_lease(&error, ttl), None)),
            Err(_) => {
                let left = self.guard.valid_for().as_millis();
                Err((Reply::error(format_args!("{NO_QUORUM} {NOT_EXTENDED} {left} ms")), None))
            }
        }
    }

    /// Reports a loss. The order was not carried out.
    fn lost(&self, lock: &Lock, loss: &Loss, order: Option<Order>) -> Over {
        lost(lock, loss, self.bond.as_ref(), self.alone_until, order)
    }

    /// The lock, for the next process.
    fn entry(&self, lock: &Lock) -> Entry {
        let guard = &self.guard;
        Entry {
            name: Arc::clone(&lock.name),
            owner: lock.owner,
            token: *guard.token(),
            fence: guard.fence(),
            is_shared: self.mode == Mode::Shared,
            end: Entry::end_in(guard.valid_for()),
        }
    }
}

/// Reports a loss.
fn lost(
    lock: &Lock,
    loss: &Loss,
    bond: Option<&Bond>,
    alone_until: Option<Instant>,
    order: Option<Order>,
) -> Over {
    // A DONE was answered late.
    if matches!(loss.why, LossReason::Done) {
        return Over::Done(order);
    }
    // No client was told of a lock without its caller.
    if alone_until.is_none() {
        lock.tell_loss(loss);
    }
    if let Some(bond) = bond.filter(|bond| bond.close) {
        bond.tie.lost.set();
    }
    Over::Free(order)
}

const NOT_EXTENDED: &str = "no majority of the nodes has answered; the lease so far ends within";
const UNFINISHED: &str =
    "no majority of the nodes has answered; they are asked again until the lease ends, for";
const BEING_LEFT_DONE: &str =
    "the lock is being left done, and no majority of the nodes has answered yet";
const OTHER_END: &str =
    "OTHERMODE this token holds the lock, and its two requests differ in RENEW; release it first";
