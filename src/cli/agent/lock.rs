//! One caller's lock, from the first request to the last.
//!
//! A task for each pair of key and token, whichever connections ask: so a place is kept when a connection has
//! ended, and a token that asks again finds its lock.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use dlock_client::operator::{Attempt, Caller};
use dlock_client::{Error, Guard, LockOptions, Loss, LossReason, Mode, Patience};
use dlock_core::limits::MAX_TTL_CEILING;
use dlock_core::quorum::{Rules, Sound};
use dlock_core::{Fence, Millis, Owner, Reason};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::Agent;
use super::figures::Counted;
use super::limits::{LOOK_AFTER, MARK_AFTER, ORDER_PATIENCE};
use super::refusal::{self, NO_QUORUM};
use super::reply::Reply;
use super::table::Name;
use super::tie::Tie;

/// A caller's lock.
pub struct Lock {
    pub agent: Arc<Agent>,
    pub name: Arc<Name>,
    /// The user who asked first, whose share of the room it takes.
    pub owner: Owner,
    pub inbox: mpsc::UnboundedReceiver<Order>,
}

/// An order of a connection.
pub enum Order {
    Acquire(Box<Ask>),
    Release(Release),
    Extend {
        ttl: Millis,
        reply: oneshot::Sender<Reply>,
    },
    Check {
        reply: oneshot::Sender<Reply>,
    },
    /// The client had gone when it was told that it has the lock.
    Unheard {
        keep: Option<Millis>,
    },
    /// The agent ends. What a caller knows of is left to its lease.
    Leave,
}

/// A request to give the lock up.
pub struct Release {
    pub is_final: bool,
    /// The terms, if the lock is to be done and not free.
    pub done: Option<Done>,
    pub reply: oneshot::Sender<Reply>,
}

/// The terms on which a lock is done.
pub struct Done {
    pub time: Duration,
    /// The caller's words about the outcome, and who it is.
    pub outcome: Vec<u8>,
}

/// A request for the lock. The connection drops the receiver of the reply when the client has gone.
pub struct Ask {
    pub terms: Terms,
    pub wait: Option<Millis>,
    pub keep: Option<Millis>,
    /// The connection with which the lock ends, if it does.
    pub tie: Option<Arc<Tie>>,
    /// True if the connection ends with the lock.
    pub close: bool,
    pub reply: oneshot::Sender<Reply>,
}

/// The terms of a lock.
#[derive(Clone)]
pub struct Terms {
    pub ttl: Millis,
    pub mode: Mode,
    /// The lock is taken though it is done, by a mark with at most this fence.
    pub again: Option<Fence>,
    /// True if the lease is renewed until the connection ends.
    pub renew: bool,
    pub caller: Caller,
}

enum State {
    Idle,
    Asking(Box<Asking>),
    Held(Box<Held>),
}

/// The lock is wanted.
struct Asking {
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
    close: bool,
    /// Set if it waits.
    waits: Option<Counted>,
}

/// The lock is held.
struct Held {
    guard: Guard,
    terms: Terms,
    tie: Option<Arc<Tie>>,
    close: bool,
    /// End of a grant of which nobody has heard: its caller was away.
    away_until: Option<Instant>,
    /// Time at which to mark it as told.
    mark_at: Option<Instant>,
    /// The marking, once it has begun. Its result names the nodes at which it may arrive late.
    marking: Option<JoinHandle<Vec<usize>>>,
    /// True if nothing was asked since it was granted.
    is_new: bool,
    _counted: Counted,
}

enum Asked {
    Done(Result<Guard, Error>),
    Order(Option<Order>),
    /// The client has gone.
    Gone,
    Looked(Result<Option<Attempt>, Error>),
    Due,
}

enum Keeping {
    Order(Option<Order>),
    Lost(Loss),
    Untied,
    Due,
}

impl Lock {
    pub async fn run(mut self) {
        let mut state = State::Idle;
        loop {
            state = match state {
                State::Idle => {
                    let table = &self.agent.table;
                    match table.next_or_leave(&self.name, self.owner, &mut self.inbox) {
                        Some(order) => self.idle(order).await,
                        None => return,
                    }
                }
                State::Asking(asking) => self.asking(asking).await,
                State::Held(held) => self.held(held).await,
            };
        }
    }

    // --- neither held nor wanted ------------------------------------------------------------------

    async fn idle(&mut self, order: Order) -> State {
        match order {
            Order::Acquire(ask) => return self.begin(*ask),
            other => self.elsewhere(other).await,
        }
        State::Idle
    }

    /// A request of a connection.
    fn asker(&self, ask: Ask) -> Asker {
        let limit = ask.wait.filter(|wait| wait.0 > 0).map(|wait| Duration::from_millis(wait.0));
        Asker {
            until: limit.map(|limit| Instant::now() + limit),
            keep: ask.keep,
            tie: ask.tie,
            close: ask.close,
            waits: ask.wait.map(|_| Counted::new(&self.agent.figures.waiting)),
            reply: ask.reply,
        }
    }

    /// Answers for a token of which this agent knows nothing: a majority of the nodes may.
    async fn elsewhere(&self, order: Order) {
        match order {
            Order::Release(Release { is_final, done, reply }) => {
                if is_final && self.agent.finals.add(&self.name, self.owner).is_err() {
                    return answer(reply, Reply::error(Reason::TooManyFinals));
                }
                if let Some(done) = done {
                    let finished = self.finished_elsewhere(&done).await;
                    return answer(reply, self.said(finished, Reply::Int(0)));
                }
                let released = self.released_elsewhere().await;
                let released = released.map(|was_held| Reply::Int(was_held.into()));
                answer(reply, self.said(released, Reply::Int(0)));
            }
            Order::Extend { ttl, reply } => {
                let extended = self.extended_elsewhere(ttl).await;
                let extended = extended.map(|found| found.reply(Reply::Int(0), |_| Reply::Int(1)));
                answer(reply, self.said(extended, Reply::Int(0)));
            }
            Order::Check { reply } => {
                let held = self.held_elsewhere().await;
                let held = held.map(|found| found.reply(Reply::Null, Reply::number));
                answer(reply, self.said(held, Reply::Null));
            }
            Order::Acquire(_) | Order::Unheard { .. } | Order::Leave => {}
        }
    }

    /// The reply. Where no majority answers, a lock that was lost here is lost.
    fn said(&self, outcome: Result<Reply, Error>, if_lost: Reply) -> Reply {
        match outcome {
            Ok(reply) => reply,
            Err(Error::NoQuorum { .. }) if self.agent.losses.is_known(&self.name) => if_lost,
            Err(error) => refusal::reply(&error),
        }
    }

    async fn attempt(&self) -> Result<Option<Attempt>, Error> {
        self.agent.client.attempt_of(&self.name.key, &self.name.token).await
    }

    async fn released_elsewhere(&self) -> Result<bool, Error> {
        let Some(Attempt { name, .. }) = self.attempt().await? else { return Ok(false) };
        self.agent.client.release_attempt(&self.name.key, &name).await
    }

    async fn finished_elsewhere(&self, done: &Done) -> Result<Reply, Error> {
        let Some(attempt) = self.attempt().await? else { return Ok(Reply::Int(0)) };
        if attempt.fence.is_none() {
            return Ok(Reply::error(UNSETTLED));
        }
        let terms = (done.time, &*done.outcome);
        let done = self.agent.client.finish_attempt(&self.name.key, &attempt, terms).await?;
        Ok(Reply::Int(done.into()))
    }

    async fn held_elsewhere(&self) -> Result<Elsewhere, Error> {
        let Some(Attempt { name, fence }) = self.attempt().await? else {
            return Ok(Elsewhere::Nothing);
        };
        let Some(Fence(fence)) = fence else { return Ok(Elsewhere::Unsettled) };
        let holds = self.agent.client.check_attempt(&self.name.key, &name, Some(fence)).await?;
        Ok(if holds { Elsewhere::Held(fence) } else { Elsewhere::Nothing })
    }

    /// Extends the lock that the caller holds by another agent.
    async fn extended_elsewhere(&self, ttl: Millis) -> Result<Elsewhere, Error> {
        let Some(Attempt { name, fence }) = self.attempt().await? else {
            return Ok(Elsewhere::Nothing);
        };
        let Some(fence) = fence else { return Ok(Elsewhere::Unsettled) };
        let extended =
            self.agent.client.extend_attempt(&self.name.key, &name, fence, stretched(ttl)).await;
        match extended {
            Ok(Duration::ZERO) => Ok(Elsewhere::Unsettled),
            Ok(_) => Ok(Elsewhere::Held(fence.0)),
            Err(Error::Lost(_)) => Ok(Elsewhere::Nothing),
            Err(error) => Err(error),
        }
    }

    // --- wanted -----------------------------------------------------------------------------------

    fn begin(&self, ask: Ask) -> State {
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
        State::Asking(Box::new(Asking {
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
        let Terms { ttl, mode, again, renew, caller } = terms.clone();
        let options =
            LockOptions { ttl: stretched(ttl), wait, mode, renew, ..LockOptions::default() };
        let mut lock = self.agent.client.lock(&self.name.key).options(options).on_behalf_of(caller);
        if let Some(fence) = again {
            lock = lock.again_after(fence);
        }
        Box::pin(lock.acquire())
    }

    async fn asking(&mut self, mut asking: Box<Asking>) -> State {
        let due = asking.due();
        let Asking { acquired, asker, look, .. } = &mut *asking;
        let event = tokio::select! {
            biased;
            done = acquired => Asked::Done(done),
            order = self.inbox.recv() => Asked::Order(order),
            () = gone(asker) => Asked::Gone,
            looked = or_never(look.as_mut()) => Asked::Looked(looked),
            () = until(due) => Asked::Due,
        };
        match event {
            Asked::Done(Ok(guard)) => self.won(asking, guard).await,
            Asked::Done(Err(error)) => self.failed(asking, &error).await,
            Asked::Order(Some(order)) => self.order_while_asking(asking, order).await,
            Asked::Order(None) => State::Idle,
            Asked::Gone => self.stay_or_go(asking),
            Asked::Looked(found) => self.looked(asking, found).await,
            Asked::Due => self.due_while_asking(asking),
        }
    }

    async fn won(&mut self, mut asking: Box<Asking>, guard: Guard) -> State {
        self.agent.outages.end(&self.name.key);
        self.agent.losses.forget(&self.name);
        let (terms, asker) = (asking.terms.clone(), asking.asker.take());
        let mut held = Held {
            guard,
            terms,
            tie: None,
            close: false,
            away_until: asking.away_until,
            mark_at: None,
            marking: None,
            is_new: true,
            _counted: Counted::new(&self.agent.figures.held),
        };
        let Some(asker) = asker else { return State::Held(Box::new(held)) };
        // A lease that waited long is a short one. What the caller is told must outlive this process, unless it ends
        // with the connection.
        let ttl = Duration::from_millis(held.terms.ttl.0);
        if !held.terms.renew
            && held.guard.valid_for() < ttl - ttl / 10
            && let Err(error) = extend(&held.guard, held.terms.ttl).await
        {
            answer(asker.reply, error.reply());
            return State::Idle;
        }
        let (fence, keep) = (held.guard.fence(), asker.keep);
        held.ties(asker.tie, asker.close);
        match asker.reply.send(Reply::number(fence)) {
            Ok(()) => State::Held(Box::new(held)),
            Err(_) => unheard(Box::new(held), keep),
        }
    }

    async fn failed(&mut self, mut asking: Box<Asking>, error: &Error) -> State {
        self.agent.outages.end(&self.name.key);
        let Some(asker) = asking.asker.take() else { return State::Idle };
        if let Error::Held { holder: Some(holder), .. } = error
            && asking.terms.caller.is_holder(holder)
            && let Ok(Elsewhere::Held(fence)) = self.extended_elsewhere(asking.terms.ttl).await
        {
            answer(asker.reply, Reply::number(fence));
            return State::Idle;
        }
        answer(asker.reply, refusal::reply(error));
        let may_pass = matches!(error, Error::Held { .. }) || error.may_pass();
        match asker.keep {
            Some(keep) if may_pass => self.take_place(asking, keep),
            _ => State::Idle,
        }
    }

    /// Queues for a caller that does not wait, but asks again.
    fn take_place(&self, mut asking: Box<Asking>, keep: Millis) -> State {
        asking.acquired = self.acquire(&asking.terms, Patience::Forever);
        asking.has_place = true;
        asking.look_at = None;
        asking.away_until = Some(Instant::now() + Duration::from_millis(keep.0));
        State::Asking(asking)
    }

    /// Ends a request, whose place may stay.
    fn stay_or_go(&self, mut asking: Box<Asking>) -> State {
        let keep = asking.asker.take().and_then(|asker| asker.keep);
        match keep {
            Some(keep) if asking.has_place => {
                asking.away_until = Some(Instant::now() + Duration::from_millis(keep.0));
                State::Asking(asking)
            }
            Some(keep) => self.take_place(asking, keep),
            None => {
                self.agent.outages.end(&self.name.key);
                State::Idle
            }
        }
    }

    async fn looked(
        &mut self,
        mut asking: Box<Asking>,
        found: Result<Option<Attempt>, Error>,
    ) -> State {
        asking.look = None;
        if let Ok(Some(Attempt { fence: Some(_), .. })) = found
            && let Ok(Elsewhere::Held(fence)) = self.extended_elsewhere(asking.terms.ttl).await
            && let Some(asker) = asking.asker.take()
        {
            answer(asker.reply, Reply::number(fence));
            return State::Idle;
        }
        State::Asking(asking)
    }

    fn due_while_asking(&mut self, mut asking: Box<Asking>) -> State {
        let now = Instant::now();
        if asking.look_at.is_some_and(|at| at <= now) {
            let (client, name) = (self.agent.client.clone(), Arc::clone(&self.name));
            asking.look_at = None;
            asking.look =
                Some(Box::pin(async move { client.attempt_of(&name.key, &name.token).await }));
            return State::Asking(asking);
        }
        let is_over = |end: Option<Instant>| end.is_some_and(|end| end <= now);
        match &mut asking.asker {
            None if is_over(asking.away_until) => State::Idle,
            Some(asker) if asking.has_place && is_over(asker.until) => {
                let reply = self.agent.outages.of(&self.name.key).map_or(Reply::Null, Reply::Error);
                asker.answer(reply);
                self.stay_or_go(asking)
            }
            _ => State::Asking(asking),
        }
    }

    async fn order_while_asking(&mut self, mut asking: Box<Asking>, order: Order) -> State {
        match order {
            Order::Acquire(ask) => self.ask_again(asking, *ask),
            Order::Leave => State::Idle,
            release @ Order::Release(_) => {
                if let Some(asker) = &mut asking.asker {
                    asker.answer(Reply::Null);
                }
                drop(asking);
                self.agent.outages.end(&self.name.key);
                self.elsewhere(release).await;
                State::Idle
            }
            other => {
                self.elsewhere(other).await;
                State::Asking(asking)
            }
        }
    }

    /// The same token asks once more: the new request takes the place of the old one.
    fn ask_again(&mut self, mut asking: Box<Asking>, ask: Ask) -> State {
        let is_poll = ask.wait.is_none();
        match &mut asking.asker {
            Some(asker) if asker.waits.is_some() && is_poll => {
                answer(ask.reply, Reply::Null);
                return State::Asking(asking);
            }
            Some(asker) => asker.answer(Reply::error(REPLACED)),
            None => {}
        }
        let of = |terms: &Terms| (terms.mode, terms.again, terms.renew);
        let is_same = of(&asking.terms) == of(&ask.terms);
        if !asking.has_place || !is_same {
            drop(asking);
            return self.begin(ask);
        }
        asking.terms = ask.terms.clone();
        asking.away_until = None;
        let mut asker = self.asker(ask);
        if is_poll {
            let reply = self.agent.outages.of(&self.name.key).map_or(Reply::Null, Reply::Error);
            asker.answer(reply);
            asking.asker = Some(asker);
            return self.stay_or_go(asking);
        }
        asking.asker = Some(asker);
        State::Asking(asking)
    }

    // --- held -------------------------------------------------------------------------------------

    async fn held(&mut self, mut held: Box<Held>) -> State {
        let due = held.away_until.into_iter().chain(held.mark_at).min();
        let event = tokio::select! {
            biased;
            // First: another agent may have extended the lock, and a request is then answered by what nodes show.
            loss = held.guard.lost() => Keeping::Lost(loss),
            order = self.inbox.recv() => Keeping::Order(order),
            () = untied(held.tie.as_deref()) => Keeping::Untied,
            () = until(due) => Keeping::Due,
        };
        match event {
            Keeping::Order(Some(order)) => {
                let is_new = held.is_new && matches!(order, Order::Unheard { .. });
                held.is_new = is_new;
                self.order_while_held(held, order).await
            }
            Keeping::Lost(loss) => self.lost(*held, &loss),
            Keeping::Due if held.away_until.is_none() => {
                held.mark_at = None;
                let Terms { caller, mode, .. } = &held.terms;
                let marking = self.agent.client.mark_stood(&held.guard, caller, *mode);
                held.marking = Some(tokio::spawn(marking));
                State::Held(held)
            }
            // Dropping the guard releases the lock.
            Keeping::Order(None) | Keeping::Untied | Keeping::Due => State::Idle,
        }
    }

    async fn order_while_held(&mut self, held: Box<Held>, order: Order) -> State {
        match order {
            Order::Acquire(ask) => return self.renew(held, *ask).await,
            Order::Release(release) => return self.release(held, release).await,
            Order::Extend { ttl, reply } => match extend(&held.guard, ttl).await {
                Ok(()) => answer(reply, Reply::Int(1)),
                Err(NotExtended::Lost(loss)) => {
                    answer(reply, Reply::Int(0));
                    return self.lost(*held, &loss);
                }
                Err(error) => answer(reply, error.reply()),
            },
            Order::Check { reply } => {
                let fence = self.checked(&held).await;
                answer(reply, fence.unwrap_or_else(|error| refusal::reply(&error)));
            }
            // Once it is marked, it is given up only if the caller asks.
            Order::Unheard { keep } if held.is_new && held.marking.is_none() => {
                return unheard(held, keep);
            }
            Order::Unheard { .. } => {}
            Order::Leave if held.is_told() => {
                held.guard.detach().await;
                return State::Idle;
            }
            Order::Leave => return State::Idle,
        }
        State::Held(held)
    }

    async fn release(&self, mut held: Box<Held>, asked: Release) -> State {
        let Release { is_final, done, reply } = asked;
        if done.is_some() && held.terms.mode != Mode::Exclusive {
            answer(reply, Reply::error(Reason::NotAlone));
            return State::Held(held);
        }
        if is_final && self.agent.finals.add(&self.name, self.owner).is_err() {
            answer(reply, Reply::error(Reason::TooManyFinals));
            return State::Held(held);
        }
        if let Some(done) = done {
            return self.finish(held, done, reply).await;
        }
        held.untie();
        // A marking that arrives late would take the lock once more, for a moment.
        if let Some(marking) = held.marking.take() {
            let late = marking.await.unwrap_or_default();
            self.agent.client.release_late(&held.guard, &held.terms.caller, late);
        }
        let released = held.guard.release().await;
        answer(reply, Reply::Int(released.is_ok().into()));
        State::Idle
    }

    /// Leaves the lock done. Without an answer of a majority this goes on until the lease ends, and the reply is an
    /// error.
    async fn finish(
        &self,
        mut held: Box<Held>,
        Done { time, outcome }: Done,
        reply: oneshot::Sender<Reply>,
    ) -> State {
        let left = held.guard.valid_for();
        let finishing = held.guard.done_for(time, outcome);
        match timeout(ORDER_PATIENCE, finishing).await {
            Ok(Ok(())) => answer(reply, Reply::Int(1)),
            Ok(Err(Error::Lost(loss))) => {
                answer(reply, refusal::not_done(&loss));
                return self.lost(*held, &loss);
            }
            Ok(Err(error)) => {
                answer(reply, refusal::reply(&error));
                return State::Held(held);
            }
            Err(_) => {
                let left = left.as_millis();
                answer(reply, Reply::error(format_args!("{NO_QUORUM} {UNFINISHED} {left} ms")));
                return State::Held(held);
            }
        }
        held.untie();
        State::Idle
    }

    /// Another agent may have released it, so a majority has to say so, too. That it holds the lock, without a gap, is
    /// for the guard to say: a node that has forgotten the lease and gave it again has another fence.
    async fn checked(&self, held: &Held) -> Result<Reply, Error> {
        let guard = &held.guard;
        if !guard.is_valid() {
            return Ok(Reply::Null);
        }
        let name = held.terms.caller.name(guard.token());
        let holds = self.agent.client.check_attempt(guard.key(), &name, None).await?;
        Ok(if holds && guard.is_valid() { Reply::number(guard.fence()) } else { Reply::Null })
    }

    /// The holder asks again: the same fence, and a lease of the length that it now asks for.
    async fn renew(&mut self, mut held: Box<Held>, ask: Ask) -> State {
        let asked = ask.terms.mode;
        if held.terms.mode != asked {
            let why = Reason::OtherMode { held: held.terms.mode, asked };
            answer(ask.reply, Reply::error(why));
            return State::Held(held);
        }
        // A lock of which others were told does not end with a connection any more.
        let is_told = held.away_until.is_none();
        let is_other_tie = is_told && held.tie.is_some() != ask.tie.is_some();
        if is_other_tie || held.terms.renew != ask.terms.renew {
            answer(ask.reply, Reply::error(OTHER_END));
            return State::Held(held);
        }
        match extend(&held.guard, ask.terms.ttl).await {
            Ok(()) => {}
            Err(NotExtended::Lost(loss)) => {
                self.lost(*held, &loss);
                return self.begin(ask);
            }
            Err(error) => {
                answer(ask.reply, error.reply());
                return State::Held(held);
            }
        }
        let fence = held.guard.fence();
        held.untie();
        held.ties(ask.tie, ask.close);
        answer(ask.reply, Reply::number(fence));
        State::Held(held)
    }

    fn lost(&self, mut held: Held, loss: &Loss) -> State {
        // A DONE was answered late.
        let is_done = matches!(loss.why, LossReason::Done);
        if held.away_until.is_none() && !is_done {
            self.agent.figures.count_loss(loss.why.name());
            self.agent.losses.tell(&self.name, self.owner, loss);
        }
        if let Some(tie) = held.tie.as_ref().filter(|_| held.close && !is_done) {
            tie.lose();
        }
        // A lock whose caller was told is not released: another agent may have extended it.
        if held.is_told() {
            tokio::spawn(held.guard.detach());
        } else {
            held.untie();
        }
        State::Idle
    }
}

impl Asking {
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

impl Held {
    /// Notes that its caller has been told, and the connection with which it ends, if it does.
    fn ties(&mut self, tie: Option<Arc<Tie>>, close: bool) {
        self.away_until = None;
        let is_marked = self.marking.is_some() || tie.is_some();
        self.mark_at = (!is_marked).then(|| Instant::now() + MARK_AFTER);
        tie.iter().for_each(|tie| tie.add_lock());
        (self.tie, self.close) = (tie, close);
    }

    fn untie(&mut self) {
        if let Some(tie) = self.tie.take() {
            tie.remove_lock();
        }
    }

    /// True if its caller knows of it, and it does not end with a connection.
    fn is_told(&self) -> bool {
        self.away_until.is_none() && self.tie.is_none()
    }
}

/// A grant of which nobody has heard: it lasts as long as the place of its caller.
fn unheard(mut held: Box<Held>, keep: Option<Millis>) -> State {
    held.untie();
    // Dropping the guard releases the lock.
    let Some(keep) = keep else { return State::Idle };
    held.away_until = Some(Instant::now() + Duration::from_millis(keep.0));
    held.mark_at = None;
    State::Held(held)
}

/// The length to ask the nodes for, so that a lease certainly lasts `ttl`, whatever their clocks do.
fn stretched(ttl: Millis) -> Duration {
    let least = SHORTEST.max(ttl.0);
    // The drift of the longer lease is longer, too: by a hundredth each time.
    let longer = |length| least + Sound.drift(Millis(length)).div_ceil(1_000);
    let length = (0..6).fold(least, |length, _| longer(length));
    Duration::from_millis(length.min(MAX_TTL_CEILING))
}

/// A lock that the caller holds by another agent, as a majority of the nodes shows it.
enum Elsewhere {
    /// The caller holds it, with this fence.
    Held(u64),
    /// The agent that has taken it may still give it up.
    Unsettled,
    Nothing,
}

impl Elsewhere {
    fn reply(self, nothing: Reply, held: impl Fn(u64) -> Reply) -> Reply {
        match self {
            Elsewhere::Held(fence) => held(fence),
            Elsewhere::Unsettled => Reply::error(UNSETTLED),
            Elsewhere::Nothing => nothing,
        }
    }
}

/// The reason why a lease was not extended.
enum NotExtended {
    Lost(Loss),
    /// The lock is held as before.
    Refused(Error),
    /// No majority has answered yet. The lock is held for this long.
    Unanswered(Duration),
}

impl NotExtended {
    fn reply(&self) -> Reply {
        match self {
            NotExtended::Lost(loss) => Reply::error(format_args!("{NO_QUORUM} {loss}")),
            NotExtended::Refused(error) => refusal::reply(error),
            NotExtended::Unanswered(left) => Reply::error(format_args!(
                "{NO_QUORUM} no majority of the nodes has answered; the lock is held for {} ms more",
                left.as_millis()
            )),
        }
    }
}

/// Extends a lock, but does not wait without end: no majority may answer.
async fn extend(guard: &Guard, ttl: Millis) -> Result<(), NotExtended> {
    match timeout(ORDER_PATIENCE, guard.extend(stretched(ttl))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Error::Lost(loss))) => Err(NotExtended::Lost(loss)),
        Ok(Err(error)) => Err(NotExtended::Refused(error)),
        Err(_) => Err(NotExtended::Unanswered(guard.valid_for())),
    }
}

fn answer(to: oneshot::Sender<Reply>, reply: Reply) {
    // Whoever asked may have gone.
    let _ = to.send(reply);
}

/// Resolves when the client that waits for a reply has gone.
async fn gone(asker: &mut Option<Asker>) {
    match asker {
        Some(asker) => asker.reply.closed().await,
        None => pending().await,
    }
}

async fn or_never<T>(future: Option<impl Future<Output = T> + Unpin>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn untied(tie: Option<&Tie>) {
    match tie {
        Some(tie) => tie.ended().await,
        None => pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

/// The library has no shorter leases, in milliseconds.
const SHORTEST: u64 = 10;
const UNSETTLED: &str =
    "TRYAGAIN the agent that has taken this lock may still give it up; ask that agent, or again";
const UNFINISHED: &str =
    "no majority of the nodes has answered; they are asked again until the lease ends, for";
const REPLACED: &str =
    "REPLACED this token asked again on another connection, which waits in its place now";
const OTHER_END: &str = "OTHERMODE this token holds the lock, and its two requests differ in EPHEMERAL or RENEW; \
                         release it first";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_nodes_lasts_as_long_as_the_caller_was_told() {
        for ttl in [10, 11, 99, 1_000, 30_000, 86_400_000, 4_000_000_000] {
            let asked = u64::try_from(stretched(Millis(ttl)).as_millis()).unwrap();
            let certain = asked * 1_000 - Sound.drift(Millis(asked));
            assert!(certain >= ttl * 1_000, "{ttl}: {asked}");
            assert!(asked <= ttl + ttl / 98 + 4, "{ttl}: {asked}");
        }
        assert_eq!(stretched(Millis(MAX_TTL_CEILING)).as_millis(), u128::from(MAX_TTL_CEILING));
        assert!(stretched(Millis(1)).as_millis() >= 10);
    }
}
