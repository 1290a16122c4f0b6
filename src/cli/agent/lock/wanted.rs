//! A lock that is wanted: the agent asks the nodes for it.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::operator::Attempt;
use dlock_client::{Error, Guard, LockOptions, Patience};
use dlock_core::{Millis, Reason};
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::super::figures::Counted;
use super::super::limits::LOOK_AFTER;
use super::super::refusal;
use super::super::reply::Reply;
use super::super::tie::Tie;
use super::held::{Held, extend, unheard};
use super::{Ask, Lock, Order, State, Terms, answer, end_of, stretched};

/// The lock is wanted.
pub(super) struct Wanted {
    acquired: Acquired,
    terms: Terms,
    /// True if it asks the nodes until it is dropped: the place is kept, whatever the limit of a wait.
    has_place: bool,
    asker: Option<Asker>,
    /// End of the place while nobody asks.
    away_until: Option<Instant>,
    /// Time at which to look if the caller holds the lock by another agent.
    look_at: Option<Instant>,
    look: Option<BoxFuture<'static, Result<Option<Attempt>, Error>>>,
}

type Acquired = BoxFuture<'static, Result<Guard, Error>>;

/// A request that has no reply yet.
struct Asker {
    reply: oneshot::Sender<Reply>,
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
            acquired: self.acquire(&ask.terms, patience),
            terms: ask.terms.clone(),
            has_place: waits && ask.keep.is_some(),
            look_at: waits.then(|| Instant::now() + LOOK_AFTER),
            look: None,
            away_until: None,
            asker: Some(self.asker(ask)),
        }))
    }

    fn acquire(&self, terms: &Terms, wait: Patience) -> Acquired {
        let Terms { ttl, mode, again, renew, caller, .. } = terms.clone();
        let options =
            LockOptions { ttl: stretched(ttl), wait, mode, renew, ..LockOptions::default() };
        let mut lock = self.agent.client.lock(&self.name.key).options(options).on_behalf_of(caller);
        if let Some(fence) = again {
            lock = lock.again_after(fence);
        }
        Box::pin(lock.acquire())
    }

    /// A request of a connection.
    fn asker(&self, ask: Ask) -> Asker {
        Asker {
            until: ask.wait.filter(|wait| wait.0 > 0).map(end_of),
            keep: ask.keep,
            tie: ask.tie,
            waits: ask.wait.map(|_| Counted::new(&self.agent.figures.waiting)),
            reply: ask.reply,
        }
    }

    pub(super) async fn wanted(&mut self, mut wanted: Box<Wanted>) -> State {
        let due = wanted.due();
        let Wanted { acquired, asker, look, .. } = &mut *wanted;
        let gone = asker.as_mut().map(|asker| asker.reply.closed());
        tokio::select! {
            biased;
            acquired = acquired => match acquired {
                Ok(guard) => self.won(wanted, guard).await,
                Err(error) => self.failed(wanted, &error).await,
            },
            order = self.inbox.recv() => match order {
                Some(order) => self.order_while_wanted(wanted, order).await,
                None => State::Idle,
            },
            Some(()) = OptionFuture::from(gone) => self.stay_or_go(wanted),
            Some(found) = OptionFuture::from(look.as_mut()) => self.looked(wanted, found).await,
            Some(()) = OptionFuture::from(due.map(sleep_until)) => self.due_while_wanted(wanted),
        }
    }

    async fn won(&mut self, mut wanted: Box<Wanted>, guard: Guard) -> State {
        self.agent.outages.end(&self.name.key);
        self.agent.losses.forget(&self.name);
        self.agent.finished.forget(&self.name);
        let asker = wanted.asker.take();
        let mut held = Held::new(guard, wanted.terms, wanted.away_until, &self.agent.figures);
        let Some(asker) = asker else { return State::Held(held) };
        // A lease that waited long is a short one. What the caller is told must outlive this process, unless it ends
        // with the connection.
        let ttl = Duration::from_millis(held.terms.ttl.0);
        if !held.terms.renew
            && held.guard.valid_for() < ttl - ttl / 10
            && let Err((reply, _)) = extend(&held.guard, held.terms.ttl).await
        {
            answer(asker.reply, reply);
            return State::Idle;
        }
        held.ties(asker.tie);
        match asker.reply.send(Reply::number(held.guard.fence())) {
            Ok(()) => State::Held(held),
            Err(_) => unheard(held, asker.keep),
        }
    }

    async fn failed(&mut self, mut wanted: Box<Wanted>, error: &Error) -> State {
        self.agent.outages.end(&self.name.key);
        let Some(asker) = wanted.asker.take() else { return State::Idle };
        if let Error::Held { holder: Some(holder), .. } = error
            && wanted.terms.caller.is_holder(holder)
            && let Some(fence) = self.joined(&wanted.terms).await
        {
            answer(asker.reply, fence);
            return State::Idle;
        }
        answer(asker.reply, refusal::reply(error));
        let may_pass = matches!(error, Error::Held { .. }) || error.may_pass();
        match asker.keep {
            Some(keep) if may_pass => self.take_place(wanted, keep),
            _ => State::Idle,
        }
    }

    /// The fence of the lock that the caller holds by another agent.
    async fn joined(&self, terms: &Terms) -> Option<Reply> {
        let found = self.extended_elsewhere(terms.ttl, Reply::number).await;
        found.ok().flatten().filter(|found| matches!(found, Reply::Int(_)))
    }

    /// Queues for a caller that does not wait, but asks again.
    fn take_place(&self, mut wanted: Box<Wanted>, keep: Millis) -> State {
        wanted.acquired = self.acquire(&wanted.terms, Patience::Forever);
        wanted.has_place = true;
        wanted.look_at = None;
        wanted.away_until = Some(end_of(keep));
        State::Wanted(wanted)
    }

    /// Ends a request without the lock. Its place may stay.
    fn not_yet(&self, mut wanted: Box<Wanted>) -> State {
        if let Some(asker) = &mut wanted.asker {
            asker.answer(self.agent.outages.of(&self.name.key).map_or(Reply::Null, Reply::Error));
        }
        self.stay_or_go(wanted)
    }

    /// Forgets a request, whose place may stay.
    fn stay_or_go(&self, mut wanted: Box<Wanted>) -> State {
        let keep = wanted.asker.take().and_then(|asker| asker.keep);
        match keep {
            Some(keep) if wanted.has_place => {
                wanted.away_until = Some(end_of(keep));
                State::Wanted(wanted)
            }
            Some(keep) => self.take_place(wanted, keep),
            None => {
                self.agent.outages.end(&self.name.key);
                State::Idle
            }
        }
    }

    async fn looked(
        &mut self,
        mut wanted: Box<Wanted>,
        found: Result<Option<Attempt>, Error>,
    ) -> State {
        wanted.look = None;
        if let Ok(Some(Attempt { fence: Some(_), .. })) = found
            && let Some(fence) = self.joined(&wanted.terms).await
            && let Some(asker) = wanted.asker.take()
        {
            answer(asker.reply, fence);
            return State::Idle;
        }
        State::Wanted(wanted)
    }

    fn due_while_wanted(&mut self, mut wanted: Box<Wanted>) -> State {
        let now = Instant::now();
        if wanted.look_at.is_some_and(|at| at <= now) {
            let (client, name) = (self.agent.client.clone(), Arc::clone(&self.name));
            wanted.look_at = None;
            wanted.look =
                Some(Box::pin(async move { client.attempt_of(&name.key, &name.token).await }));
            return State::Wanted(wanted);
        }
        let is_over = |end: Option<Instant>| end.is_some_and(|end| end <= now);
        match &wanted.asker {
            None if is_over(wanted.away_until) => State::Idle,
            Some(asker) if wanted.has_place && is_over(asker.until) => self.not_yet(wanted),
            _ => State::Wanted(wanted),
        }
    }

    async fn order_while_wanted(&mut self, mut wanted: Box<Wanted>, order: Order) -> State {
        match order {
            Order::Acquire(ask) => self.ask_again(wanted, *ask),
            Order::Leave => State::Idle,
            release @ Order::Release(_) => {
                if let Some(asker) = &mut wanted.asker {
                    asker.answer(Reply::Null);
                }
                drop(wanted);
                self.agent.outages.end(&self.name.key);
                self.elsewhere(release).await;
                State::Idle
            }
            other => {
                self.elsewhere(other).await;
                State::Wanted(wanted)
            }
        }
    }

    /// The same token asks once more: the new request takes the place of the old one.
    fn ask_again(&mut self, mut wanted: Box<Wanted>, ask: Ask) -> State {
        let is_poll = ask.wait.is_none();
        match &mut wanted.asker {
            Some(asker) if asker.waits.is_some() && is_poll => {
                answer(ask.reply, Reply::Null);
                return State::Wanted(wanted);
            }
            Some(asker) => asker.answer(Reply::error(REPLACED)),
            None => {}
        }
        let of = |terms: &Terms| (terms.mode, terms.again, terms.renew);
        let is_same = of(&wanted.terms) == of(&ask.terms);
        if !wanted.has_place || !is_same {
            drop(wanted);
            return self.want(ask);
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

impl Asker {
    /// Answers, and leaves the rest of the request.
    fn answer(&mut self, reply: Reply) {
        let (spent, _) = oneshot::channel();
        answer(std::mem::replace(&mut self.reply, spent), reply);
    }
}

const REPLACED: &str =
    "REPLACED this token asked again on another connection, which waits in its place now";
