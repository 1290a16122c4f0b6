//! A lock that is wanted: the agent asks the nodes for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_client::{Error, Guard, LockOptions, Notice, Patience};
use dlock_core::Millis;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::time::{Instant, sleep_until};

use super::super::figures::Counted;
use super::super::lease::stretched;
use super::super::refusal;
use super::super::reply::Reply;
use super::super::tie::Bond;
use super::held::Held;
use super::order::{Acquisition, Inbox, Lock, Order, ReplyTo, Terms, end_of};

/// A lock that is wanted.
struct Wanted {
    acquisition: BoxFuture<'static, Result<Guard, Error>>,
    outage: Outage,
    terms: Terms,
    /// True if it asks the nodes until it is dropped; false if it asks them once.
    waits: bool,
    asker: Option<Asker>,
    /// End of the request's wait; without a request, end of its place.
    due: Option<Instant>,
}

/// The present outage, if there is one: no majority answers. It ends with the acquisition at the latest.
type Outage = Arc<Mutex<Option<(Reply, Counted)>>>;

/// A request that has no reply yet.
struct Asker {
    reply: ReplyTo,
    since: Instant,
    /// Counts it while it waits.
    _waits: Option<Counted>,
    keep: Option<Millis>,
    bond: Option<Bond>,
}

/// The lock is not held, and this order was not carried out.
type NotHeld = Option<Order>;

/// Acquires the lock, and serves its orders meanwhile.
pub async fn acquire(
    lock: &Lock,
    ask: Acquisition,
    inbox: &mut Inbox,
) -> Result<Box<Held>, NotHeld> {
    let mut wanted = Wanted::new(lock, ask);
    loop {
        let due = wanted.due;
        let gone = wanted.asker.as_mut().map(|asker| asker.reply.gone());
        tokio::select! {
            biased;
            acquired = &mut wanted.acquisition => match acquired {
                Ok(guard) => return wanted.won(lock, guard).await.ok_or(None),
                Err(error) => wanted.failed(lock, &error)?,
            },
            order = inbox.recv() => wanted.order(lock, order.ok_or(None)?)?,
            Some(()) = OptionFuture::from(gone) => {
                let keep = wanted.asker.take().and_then(|asker| asker.keep);
                wanted.stay(lock, keep)?;
            }
            Some(()) = OptionFuture::from(due.map(sleep_until)) => wanted.is_over(lock)?,
        }
    }
}

impl Wanted {
    fn new(lock: &Lock, ask: Acquisition) -> Wanted {
        let (outage, waits) = (Outage::default(), ask.wait.is_some());
        Wanted {
            acquisition: acquisition(lock, &ask.terms, waits, &outage),
            outage,
            terms: ask.terms.clone(),
            waits,
            due: end_of_wait(&ask),
            asker: Some(Asker::of(lock, ask)),
        }
    }

    fn is_over(&mut self, lock: &Lock) -> Result<(), NotHeld> {
        match self.asker {
            Some(_) => self.not_yet(lock),
            None => Err(None),
        }
    }

    /// Takes the granted lock. `None`: it was given back, because no majority extends it.
    async fn won(self, lock: &Lock, guard: Guard) -> Option<Box<Held>> {
        let Terms { ttl, mode, .. } = self.terms;
        let mut held = Held::new(guard, mode, &lock.common.figures);
        let Some(asker) = self.asker else {
            held.alone_until = Some(end_of(ttl));
            return Some(held);
        };
        // After a long wait the lease is a short one, and the lease of an earlier request may end before this
        // request's ttl. A reply is for the whole ttl.
        let whole = Duration::from_millis(ttl.0);
        if held.guard.valid_for() < whole - asker.since.elapsed().min(whole / 10)
            && let Err((reply, _)) = held.extend(ttl).await
        {
            asker.reply.answer(reply);
            return None;
        }
        asker.reply.answer(Reply::number(held.guard.fence()));
        held.bond = asker.bond;
        Some(held)
    }

    fn failed(&mut self, lock: &Lock, error: &Error) -> Result<(), NotHeld> {
        let asker = self.asker.take().ok_or(None)?;
        asker.reply.answer(refusal::of_lease(error, self.terms.ttl));
        let may_pass = matches!(error, Error::Held { .. }) || error.may_pass();
        self.waits = false;
        self.stay(lock, asker.keep.filter(|_| may_pass))
    }

    /// Ends a request without the lock. Its place may be kept.
    fn not_yet(&mut self, lock: &Lock) -> Result<(), NotHeld> {
        let Some(asker) = self.asker.take() else { return Ok(()) };
        asker.reply.answer(match &*present(&self.outage) {
            Some((reply, _)) => reply.clone(),
            None => Reply::Null,
        });
        self.stay(lock, asker.keep)
    }

    /// Goes on without a request, if its place is kept: its caller asks again.
    fn stay(&mut self, lock: &Lock, keep: Option<Millis>) -> Result<(), NotHeld> {
        let keep = keep.ok_or(None)?;
        if !self.waits {
            self.waits = true;
            // The outage of the request before may be over.
            self.outage = Outage::default();
            self.acquisition = acquisition(lock, &self.terms, true, &self.outage);
        }
        self.due = Some(end_of(keep));
        Ok(())
    }

    fn order(&mut self, lock: &Lock, order: Order) -> Result<(), NotHeld> {
        match order {
            Order::Acquire(ask) => return self.ask_again(lock, ask),
            Order::Leave => return Err(None),
            Order::Release { .. } => {
                if let Some(asker) = self.asker.take() {
                    asker.reply.answer(Reply::Null);
                }
                return Err(Some(order));
            }
            Order::Extend { reply, .. } => reply.answer(Reply::Int(0)),
            Order::Check { reply } => reply.answer(Reply::Null),
        }
        Ok(())
    }

    /// Replaces the old request of this token by the new one.
    fn ask_again(&mut self, lock: &Lock, ask: Box<Acquisition>) -> Result<(), NotHeld> {
        let waits = ask.wait.is_some();
        if let Some(asker) = self.asker.take() {
            asker.reply.answer(Reply::error(REPLACED));
        }
        // Each process has a META of its own.
        let of = |terms: &Terms| (terms.ttl, terms.mode, terms.again, terms.renew);
        if of(&self.terms) != of(&ask.terms) || (waits && !self.waits) {
            return Err(Some(Order::Acquire(ask)));
        }
        self.due = end_of_wait(&ask);
        self.asker = Some(Asker::of(lock, *ask));
        if self.waits && !waits { self.not_yet(lock) } else { Ok(()) }
    }
}

impl Asker {
    /// A request of a connection.
    fn of(lock: &Lock, ask: Acquisition) -> Asker {
        Asker {
            since: Instant::now(),
            _waits: ask.wait.map(|_| Counted::new(&lock.common.figures.waiting)),
            keep: ask.keep,
            bond: ask.bond,
            reply: ask.reply,
        }
    }
}

/// The end of a request's wait, if it waits and there is one.
fn end_of_wait(ask: &Acquisition) -> Option<Instant> {
    ask.wait.filter(|wait| wait.0 > 0).map(end_of)
}

/// Asks the nodes for the lock.
fn acquisition(
    lock: &Lock,
    terms: &Terms,
    waits: bool,
    outage: &Outage,
) -> BoxFuture<'static, Result<Guard, Error>> {
    let Terms { ttl, mode, again, renew, meta } = terms.clone();
    let wait = if waits { Patience::Forever } else { Patience::Try };
    let options =
        LockOptions { ttl: stretched(ttl), wait, mode, renew, meta, ..LockOptions::default() };
    let (outage, count) = (Arc::downgrade(outage), Arc::clone(&lock.common.figures.outages));
    let asked = lock.common.client.lock(&lock.name.key).options(options).without_holder();
    let asked = asked.notify(move |notice| {
        let Some(outage) = outage.upgrade() else { return };
        match notice {
            Notice::Outage { needed, nodes, .. } => {
                let reply = refusal::no_quorum(*needed, nodes);
                *present(&outage) = Some((reply, Counted::new(&count)));
            }
            Notice::Back { .. } => *present(&outage) = None,
            _ => {}
        }
    });
    let asked = match again {
        Some(fence) => asked.again_after(fence),
        None => asked,
    };
    Box::pin(asked.acquire())
}

fn present(outage: &Mutex<Option<(Reply, Counted)>>) -> MutexGuard<'_, Option<(Reply, Counted)>> {
    outage.lock().unwrap_or_else(PoisonError::into_inner)
}

const REPLACED: &str = "REPLACED the same token asked again, and its newest request counts; use one token for each acquisition";
