//! A lock that is wanted: the agent asks the nodes for it.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, LockOptions, Notice, Patience};
use dlock_core::{Millis, Reason};
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::time::{Instant, sleep_until};

use super::super::figures::Counted;
use super::super::limits::LOOK_AFTER;
use super::super::outage::Outage;
use super::super::refusal;
use super::super::reply::Reply;
use super::super::tie::Tie;
use super::held::{Held, extend, unheard};
use super::{Ask, Inbox, Lock, Order, ReplyTo, State, Terms, answer, end_of, stretched};

/// The lock is wanted.
pub(super) struct Wanted {
    acquisition: Acquisition,
    terms: Terms,
    /// True if it asks the nodes until it is dropped: the place is kept, whatever the limit of a wait.
    has_place: bool,
    asker: Option<Asker>,
    /// End of the place while nobody asks.
    away_until: Option<Instant>,
    /// Time at which to look if the caller holds the lock by another agent.
    look_at: Option<Instant>,
    /// Resolves with the reply, if the caller does.
    look: Option<BoxFuture<'static, Option<Reply>>>,
}

struct Acquisition {
    guard: BoxFuture<'static, Result<Guard, Error>>,
    outage: Arc<Outage>,
}

/// A request that has no reply yet.
struct Asker {
    reply: ReplyTo,
    since: Instant,
    /// The end of its wait; `None`: without limit.
    until: Option<Instant>,
    keep: Option<Millis>,
    tie: Option<Arc<Tie>>,
    /// Set if it waits.
    waits: Option<Counted>,
}

impl Lock {
    pub(super) fn want(&self, ask: Ask) -> State {
        if self.agent.finals.contains(&self.name) {
            answer(ask.reply, Reply::error(Reason::Final));
            return State::Idle;
        }
        let patience = match (ask.wait, ask.keep) {
            (None, _) => Patience::Try,
            (Some(Millis(0)), _) | (Some(_), Some(_)) => Patience::Forever,
            (Some(Millis(wait)), None) => Patience::Within(Duration::from_millis(wait)),
        };
        let waits = ask.wait.is_some();
        State::Wanted(Box::new(Wanted {
            acquisition: self.acquire(&ask.terms, patience),
            terms: ask.terms.clone(),
            has_place: waits && ask.keep.is_some(),
            look_at: waits.then(|| Instant::now() + LOOK_AFTER),
            look: None,
            away_until: None,
            asker: Some(self.asker(ask)),
        }))
    }

    fn acquire(&self, terms: &Terms, wait: Patience) -> Acquisition {
        let Terms { ttl, mode, again, renew, caller, .. } = terms.clone();
        let options =
            LockOptions { ttl: stretched(ttl), wait, mode, renew, ..LockOptions::default() };
        let outage = Outage::new(&self.agent.figures.outages);
        let told = Arc::downgrade(&outage);
        let tell = move |news: &Notice| told.upgrade().iter().for_each(|outage| outage.hear(news));
        let lock = self.agent.client.lock(&self.name.key).options(options).on_behalf_of(caller);
        let mut lock = lock.notify(tell);
        if let Some(fence) = again {
            lock = lock.again_after(fence);
        }
        Acquisition { guard: Box::pin(lock.acquire()), outage }
    }

    /// A request of a connection.
    fn asker(&self, ask: Ask) -> Asker {
        Asker {
            since: Instant::now(),
            until: ask.wait.filter(|wait| wait.0 > 0).map(end_of),
            keep: ask.keep,
            tie: ask.tie,
            waits: ask.wait.map(|_| Counted::new(&self.agent.figures.waiting)),
            reply: ask.reply,
        }
    }

    pub(super) async fn wanted(&self, mut wanted: Box<Wanted>, inbox: &mut Inbox) -> State {
        let due = wanted.due();
        let Wanted { acquisition, asker, look, .. } = &mut *wanted;
        let gone = asker.as_mut().map(|asker| asker.reply.sender.closed());
        tokio::select! {
            biased;
            acquired = &mut acquisition.guard => match acquired {
                Ok(guard) => self.won(wanted, guard).await,
                Err(error) => self.failed(wanted, &error).await,
            },
            order = inbox.recv() => match order {
                Some(order) => self.order_while_wanted(wanted, order).await,
                None => State::Idle,
            },
            Some(()) = OptionFuture::from(gone) => {
                let keep = wanted.asker.take().and_then(|asker| asker.keep);
                self.stay_or_go(wanted, keep)
            }
            Some(found) = OptionFuture::from(look.as_mut()) => self.looked(wanted, found),
            Some(()) = OptionFuture::from(due.map(sleep_until)) => self.due_while_wanted(wanted),
        }
    }

    async fn won(&self, mut wanted: Box<Wanted>, guard: Guard) -> State {
        self.agent.losses.lately.forget(&self.name);
        self.agent.finished.forget(&self.name);
        let asker = wanted.asker.take();
        let mut held = Held::new(guard, wanted.terms, wanted.away_until, &self.agent.figures);
        let Some(asker) = asker else { return State::Held(held) };
        // A lease that waited long is a short one, and one that an earlier request has asked for may end before that
        // which the caller counts from this request. What the caller is told must outlive this process, unless it ends
        // with the connection.
        let ttl = Duration::from_millis(held.terms.ttl.0);
        if !held.terms.renew
            && held.guard.valid_for() < ttl - asker.since.elapsed().min(ttl / 10)
            && let Err((reply, _)) = extend(&held.guard, held.terms.ttl).await
        {
            answer(asker.reply, reply);
            return State::Idle;
        }
        held.ties(asker.tie);
        match asker.reply.sender.send(Reply::number(held.guard.fence())) {
            Ok(()) => State::Held(held),
            Err(_) => unheard(held, asker.keep),
        }
    }

    async fn failed(&self, mut wanted: Box<Wanted>, error: &Error) -> State {
        let Some(asker) = wanted.asker.take() else { return State::Idle };
        if let Error::Held { holder: Some(holder), .. } = error
            && wanted.terms.caller.is_holder(holder)
            && let Some(said) = self.joined(&wanted.terms).await
        {
            answer(asker.reply, said);
            return State::Idle;
        }
        answer(asker.reply, refusal::of_lease(error, wanted.terms.ttl));
        let may_pass = matches!(error, Error::Held { .. }) || error.may_pass();
        match asker.keep {
            Some(keep) if may_pass => self.take_place(wanted, keep),
            _ => State::Idle,
        }
    }

    /// Queues for a caller that does not wait, but asks again.
    fn take_place(&self, mut wanted: Box<Wanted>, keep: Millis) -> State {
        wanted.acquisition = self.acquire(&wanted.terms, Patience::Forever);
        wanted.has_place = true;
        wanted.look_at = None;
        wanted.away_until = Some(end_of(keep));
        State::Wanted(wanted)
    }

    /// Ends a request without the lock. Its place may stay.
    fn not_yet(&self, mut wanted: Box<Wanted>) -> State {
        let Some(asker) = wanted.asker.take() else { return State::Wanted(wanted) };
        answer(asker.reply, wanted.acquisition.outage.reply());
        self.stay_or_go(wanted, asker.keep)
    }

    /// Goes on without a request, if its place is kept.
    fn stay_or_go(&self, mut wanted: Box<Wanted>, keep: Option<Millis>) -> State {
        match keep {
            Some(keep) if wanted.has_place => {
                wanted.away_until = Some(end_of(keep));
                State::Wanted(wanted)
            }
            Some(keep) => self.take_place(wanted, keep),
            None => State::Idle,
        }
    }

    fn looked(&self, mut wanted: Box<Wanted>, found: Option<Reply>) -> State {
        wanted.look = None;
        if let Some(said) = found
            && let Some(asker) = wanted.asker.take()
        {
            answer(asker.reply, said);
            return State::Idle;
        }
        State::Wanted(wanted)
    }

    fn due_while_wanted(&self, mut wanted: Box<Wanted>) -> State {
        let now = Instant::now();
        if wanted.look_at.is_some_and(|at| at <= now) {
            let (lock, terms) = (self.clone(), wanted.terms.clone());
            wanted.look_at = None;
            wanted.look = Some(Box::pin(async move { lock.joined(&terms).await }));
            return State::Wanted(wanted);
        }
        let is_over = |end: Option<Instant>| end.is_some_and(|end| end <= now);
        match &wanted.asker {
            None if is_over(wanted.away_until) => State::Idle,
            Some(asker) if wanted.has_place && is_over(asker.until) => self.not_yet(wanted),
            _ => State::Wanted(wanted),
        }
    }

    async fn order_while_wanted(&self, mut wanted: Box<Wanted>, order: Order) -> State {
        match order {
            Order::Acquire(ask) => self.ask_again(wanted, *ask),
            Order::Leave => State::Idle,
            release @ Order::Release(_) => {
                if let Some(asker) = wanted.asker.take() {
                    answer(asker.reply, Reply::Null);
                }
                drop(wanted);
                self.elsewhere(release).await;
                State::Idle
            }
            // Nodes may be slow to answer, and the turn may come meanwhile.
            other => {
                let lock = self.clone();
                tokio::spawn(async move { lock.elsewhere(other).await });
                State::Wanted(wanted)
            }
        }
    }

    /// The same token asks once more: the new request takes the place of the old one.
    fn ask_again(&self, mut wanted: Box<Wanted>, ask: Ask) -> State {
        let is_poll = ask.wait.is_none();
        if is_poll && wanted.asker.as_ref().is_some_and(|asker| asker.waits.is_some()) {
            answer(ask.reply, Reply::Null);
            return State::Wanted(wanted);
        }
        if let Some(asker) = wanted.asker.take() {
            answer(asker.reply, Reply::error(REPLACED));
        }
        let of = |terms: &Terms| (terms.mode, terms.again, terms.renew);
        let is_same = of(&wanted.terms) == of(&ask.terms);
        if !wanted.has_place || !is_same {
            drop(wanted);
            return self.want(ask);
        }
        if wanted.look.take().is_some() {
            // The former look would extend the lock by the former lease.
            wanted.look_at = Some(Instant::now());
        }
        wanted.terms = ask.terms.clone();
        wanted.away_until = None;
        wanted.asker = Some(self.asker(ask));
        if is_poll { self.not_yet(wanted) } else { State::Wanted(wanted) }
    }
}

impl Wanted {
    fn due(&self) -> Option<Instant> {
        let end = match &self.asker {
            Some(asker) => asker.until.filter(|_| self.has_place),
            None => self.away_until,
        };
        end.into_iter().chain(self.look_at).min()
    }
}

const REPLACED: &str =
    "REPLACED this token asked again on another connection, which waits in its place now";
