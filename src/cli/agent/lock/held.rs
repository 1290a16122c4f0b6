//! A lock that is held, from its grant to its release or its loss.

use std::sync::Arc;

use dlock_client::{Error, Guard, Loss, LossReason, Mode};
use dlock_core::{Millis, Reason};
use futures_util::future::OptionFuture;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, sleep_until, timeout};

use super::super::figures::{Counted, Figures};
use super::super::handover::Entry;
use super::super::lease::stretched;
use super::super::limits::ORDER_PATIENCE;
use super::super::refusal::{self, NO_QUORUM};
use super::super::reply::Reply;
use super::super::tie::{Bond, Tie};
use super::order::{
    Acquisition, Done, Ephemeral, Inbox, Lock, Order, Release, ReplyTo, Terms, end_of,
};

/// A lock that is held. Dropping it releases the lock.
pub struct Held {
    pub guard: Guard,
    pub terms: Terms,
    /// The connection that ends it.
    bond: Option<Bond>,
    /// End of a lease that should be renewed for a connection, but has none: the caller was away at its turn.
    alone_until: Option<Instant>,
    /// Set until the reply to the first request is written, or another request extends the lock.
    hears: Option<oneshot::Receiver<()>>,
    /// True if the lock stays when that reply cannot be written: the request had KEEP.
    keeps: bool,
    /// True if a reply for it was sent to a client, or is on its way.
    is_told: bool,
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
        let untied = held.bond.as_ref().map(|bond| bond.0.ended());
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
            Some(heard) = OptionFuture::from(held.hears.as_mut()) => match heard {
                Ok(()) => held.hears = None,
                Err(_) if held.keeps => held.is_alone(),
                Err(_) => return Over::Free(None),
            },
            Some(()) = OptionFuture::from(untied) => return Over::Free(None),
            Some(()) = OptionFuture::from(alone) => return Over::Free(None),
        }
    }
}

impl Held {
    pub fn new(guard: Guard, terms: Terms, figures: &Figures) -> Box<Held> {
        Box::new(Held {
            guard,
            terms,
            bond: None,
            alone_until: None,
            hears: None,
            keeps: false,
            is_told: false,
            _counted: Counted::new(&figures.held),
        })
    }

    /// A lock that an earlier process has granted and handed over.
    pub fn handed_over(guard: Guard, terms: Terms, figures: &Figures) -> Box<Held> {
        let mut held = Held::new(guard, terms, figures);
        held.is_told = true;
        held
    }

    /// Notes that the reply for the grant is on its way, and the tie that ends the lock.
    pub fn is_granted(&mut self, hears: oneshot::Receiver<()>, keeps: bool, tie: Option<Arc<Tie>>) {
        (self.hears, self.keeps, self.is_told) = (Some(hears), keeps, true);
        self.bond = tie.map(Bond::of);
    }

    /// Notes a grant without a request to answer: the token holds the lock for one lease.
    pub fn is_alone(&mut self) {
        (self.hears, self.is_told, self.bond) = (None, false, None);
        self.alone_until =
            (self.terms.ephemeral == Ephemeral::Renewed).then(|| end_of(self.terms.ttl));
    }

    async fn carry_out(mut self: Box<Self>, lock: &Lock, order: Order) -> Result<Box<Held>, Over> {
        match order {
            Order::Acquire(ask) => return self.again(lock, ask).await,
            Order::Release(release) => return self.release(lock, release).await,
            // Each takes a round trip or more, and no client waits for it.
            Order::Extend { reply, .. } | Order::Check { reply } if reply.is_gone() => {}
            Order::Extend { ttl, reply } => match self.extend(ttl).await {
                Ok(()) => {
                    self.hears = None;
                    self.is_told = true;
                    self.alone_until = self.alone_until.map(|end| end.max(end_of(ttl)));
                    reply.answer(Reply::Int(1));
                }
                Err((_, Some(loss))) => {
                    return Err(self.lost(lock, &loss, Some(Order::Extend { ttl, reply })));
                }
                Err((refused, None)) => reply.answer(refused),
            },
            Order::Check { reply } => {
                let checked = self.checked(lock).await;
                self.is_told |= matches!(checked, Reply::Int(_));
                reply.answer(checked);
            }
            Order::Leave => match &self.bond {
                // The connection ends first, and then the lock with it.
                Some(Bond(tie)) => tie.lose(),
                None => {
                    let is_unheard = |hears: &mut oneshot::Receiver<()>| {
                        hears.try_recv() == Err(TryRecvError::Closed)
                    };
                    let is_told = self.is_told && !self.hears.as_mut().is_some_and(is_unheard);
                    if is_told && self.terms.ephemeral == Ephemeral::No {
                        let entry = self.entry(lock);
                        if self.guard.detach().await.is_ok() {
                            lock.hand_over(entry);
                        }
                    }
                    return Err(Over::Free(None));
                }
            },
        }
        Ok(self)
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
        let (held, asked) = (&self.terms, &ask.terms);
        let refused = if held.mode != asked.mode {
            Some(Reply::error(Reason::OtherMode { held: held.mode, asked: asked.mode }))
        } else if held.ephemeral != asked.ephemeral {
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
        let Acquisition { terms, tie, reply, .. } = *ask;
        if let Some(refused) = refused {
            reply.answer(refused);
            return Ok(self);
        }
        self.terms.close = terms.close;
        (self.hears, self.is_told, self.alone_until) = (None, true, None);
        self.bond = tie.map(Bond::of);
        reply.answer(Reply::number(self.guard.fence()));
        Ok(self)
    }

    async fn release(mut self: Box<Self>, lock: &Lock, asked: Release) -> Result<Box<Held>, Over> {
        let Release { done, reply } = asked;
        if done.is_some() && self.terms.mode != Mode::Exclusive {
            reply.answer(Reply::error(Reason::NotAlone));
            return Ok(self);
        }
        if let Some(done) = done {
            return self.finish(lock, done, reply).await;
        }
        self.bond = None;
        let was_held = self.guard.release().await.is_ok();
        reply.answer(Reply::Int(was_held.into()));
        Err(Over::Free(None))
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
        // A DONE was answered late.
        if matches!(loss.why, LossReason::Done) {
            return Over::Done(order);
        }
        if self.is_told {
            lock.tell_loss(loss);
        }
        if let Some(Bond(tie)) = self.bond.as_ref().filter(|_| self.terms.close) {
            tie.lose();
        }
        Over::Free(order)
    }

    /// The lock, for the next process.
    fn entry(&self, lock: &Lock) -> Entry {
        let guard = &self.guard;
        Entry {
            name: Arc::clone(&lock.name),
            owner: lock.owner,
            token: *guard.token(),
            fence: guard.fence(),
            is_shared: self.terms.mode == Mode::Shared,
            end: Entry::end_in(guard.valid_for()),
        }
    }
}

const NOT_EXTENDED: &str = "no majority of the nodes has answered; the lease so far ends within";
const UNFINISHED: &str =
    "no majority of the nodes has answered; they are asked again until the lease ends, for";
const BEING_LEFT_DONE: &str =
    "the lock is being left done, and no majority of the nodes has answered yet";
const OTHER_END: &str = "OTHERMODE this token holds the lock, and its two requests differ in EPHEMERAL or RENEW; \
                         release it first";
