//! A lock that is held, from its grant to its release or its loss.

use std::sync::Arc;

use dlock_client::{Error, Guard, Loss, LossReason, Mode};
use dlock_core::{Millis, Reason};
use futures_util::future::OptionFuture;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::figures::{Counted, Figures};
use super::super::limits::{MARK_AFTER, ORDER_PATIENCE};
use super::super::refusal::{self, NO_QUORUM};
use super::super::reply::Reply;
use super::super::tie::Tie;
use super::{
    Ask, Done, Inbox, Lock, Order, Release, ReplyTo, State, Terms, answer, end_of, stretched,
};

/// The lock is held.
pub(super) struct Held {
    pub(super) guard: Guard,
    pub(super) terms: Terms,
    tie: Option<Arc<Tie>>,
    /// End of a grant of which nobody has heard: its caller was away.
    away_until: Option<Instant>,
    /// Time at which to tell the nodes that its caller has been told.
    mark_at: Option<Instant>,
    is_marked: bool,
    /// True if its caller has heard of it by a later request than the one that took it.
    is_heard: bool,
    _counted: Counted,
}

impl Lock {
    pub(super) async fn held(&self, mut held: Box<Held>, inbox: &mut Inbox) -> State {
        let due = held.away_until.into_iter().chain(held.mark_at).min();
        let untied = held.tie.as_deref().map(Tie::ended);
        tokio::select! {
            biased;
            // First: another agent may have extended the lock, and a request is then answered by what nodes show.
            loss = held.guard.lost() => self.lost(*held, &loss),
            order = inbox.recv() => match order {
                Some(order) => self.order_while_held(held, order).await,
                // Dropping the guard releases the lock.
                None => State::Idle,
            },
            Some(()) = OptionFuture::from(untied) => State::Idle,
            Some(()) = OptionFuture::from(due.map(sleep_until)) => match held.away_until {
                None => {
                    (held.mark_at, held.is_marked) = (None, true);
                    held.guard.mark_stood();
                    State::Held(held)
                }
                Some(_) => State::Idle,
            },
        }
    }

    async fn order_while_held(&self, mut held: Box<Held>, order: Order) -> State {
        match order {
            Order::Acquire(ask) => return self.renew(held, *ask).await,
            Order::Release(release) => return self.release(held, release).await,
            Order::Extend { ttl, reply } => match extend(&held.guard, ttl).await {
                Ok(()) => {
                    held.note_heard();
                    answer(reply, Reply::Int(1));
                }
                // The caller may have taken it once more, by another agent.
                Err((_, Some(loss))) => {
                    let lost = self.lost(*held, &loss);
                    self.elsewhere(Order::Extend { ttl, reply }).await;
                    return lost;
                }
                Err((refused, None)) => {
                    held.note_heard();
                    answer(reply, refused);
                }
            },
            Order::Check { reply } => match self.checked(&held).await {
                Ok(Reply::Null) => self.elsewhere(Order::Check { reply }).await,
                Ok(fence) => {
                    held.note_heard();
                    answer(reply, fence);
                }
                Err(error) => answer(reply, refusal::reply(&error)),
            },
            // Once it is marked, it is given up only if the caller asks.
            Order::Unheard { keep } if !held.is_heard && !held.is_marked => {
                return unheard(held, keep);
            }
            Order::Unheard { .. } => {}
            Order::Leave => match &held.tie {
                // The connection ends first, and then the lock with it.
                Some(tie) => tie.lose(),
                None if held.is_told() => {
                    // The next process must know that its caller was told.
                    if !held.is_marked {
                        held.guard.mark_stood();
                    }
                    held.guard.detach().await;
                    return State::Idle;
                }
                None => return State::Idle,
            },
        }
        State::Held(held)
    }

    async fn release(&self, mut held: Box<Held>, asked: Release) -> State {
        let Release { is_final, done, reply } = asked;
        if done.is_some() && held.terms.mode != Mode::Exclusive {
            answer(reply, Reply::error(Reason::NotAlone));
            return State::Held(held);
        }
        if is_final {
            // Without room for it, a late ACQUIRE costs a lease at most.
            let _ = self.agent.finals.add(&self.name, self.owner);
        }
        if let Some(done) = done {
            return self.finish(held, done, reply).await;
        }
        held.untie();
        match held.guard.release().await {
            Ok(_) => answer(reply, Reply::Int(1)),
            // FINAL has been noted.
            Err(_) => {
                let again = Release { is_final: false, done: None, reply };
                self.elsewhere(Order::Release(again)).await;
            }
        }
        State::Idle
    }

    /// Leaves the lock done. Without an answer of a majority this goes on until the lease ends, and the reply is an
    /// error.
    async fn finish(
        &self,
        mut held: Box<Held>,
        Done { time, outcome }: Done,
        reply: ReplyTo,
    ) -> State {
        let left = held.guard.valid_for();
        let finishing = held.guard.done_for(time, outcome.clone());
        match timeout(ORDER_PATIENCE, finishing).await {
            Ok(Ok(())) => {
                self.note_finished();
                answer(reply, Reply::Int(1));
                held.untie();
                return State::Idle;
            }
            Ok(Err(Error::Lost(loss))) => {
                let lost = self.lost(*held, &loss);
                if matches!(loss.why, LossReason::Ended { .. }) {
                    let again =
                        Release { is_final: false, done: Some(Done { time, outcome }), reply };
                    self.elsewhere(Order::Release(again)).await;
                } else {
                    answer(reply, refusal::not_done(&loss));
                }
                return lost;
            }
            Ok(Err(error)) => answer(reply, refusal::reply(&error)),
            Err(_) => {
                let left = left.as_millis();
                answer(reply, Reply::error(format_args!("{NO_QUORUM} {UNFINISHED} {left} ms")));
            }
        }
        State::Held(held)
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
    async fn renew(&self, mut held: Box<Held>, ask: Ask) -> State {
        // Each takes a round trip, and one client can leave thousands behind.
        if ask.reply.sender.is_closed() {
            return State::Held(held);
        }
        held.is_heard = true;
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
            Err((_, Some(loss))) => {
                self.lost(*held, &loss);
                return self.want(ask);
            }
            Err((refused, None)) => {
                answer(ask.reply, refused);
                return State::Held(held);
            }
        }
        held.untie();
        held.terms.close = ask.terms.close;
        held.ties(ask.tie);
        answer(ask.reply, Reply::number(held.guard.fence()));
        State::Held(held)
    }

    fn lost(&self, mut held: Held, loss: &Loss) -> State {
        // A DONE was answered late.
        let is_done = matches!(loss.why, LossReason::Done);
        if is_done {
            self.note_finished();
        }
        if held.is_known() && !is_done {
            self.agent.figures.count_loss(loss.why.name());
            self.agent.losses.tell(&self.name, self.owner, loss);
        }
        if let Some(tie) = held.tie.as_ref().filter(|_| held.terms.close && !is_done) {
            tie.lose();
        }
        // A lock whose caller was told is not released: another agent may have extended it. Of one that a majority has
        // not, the rest is.
        if held.is_told() && !matches!(loss.why, LossReason::Ended { .. }) {
            tokio::spawn(held.guard.detach());
        } else {
            held.untie();
        }
        State::Idle
    }
}

impl Held {
    pub(super) fn new(
        guard: Guard,
        terms: Terms,
        away_until: Option<Instant>,
        figures: &Figures,
    ) -> Box<Held> {
        let away_until = away_until.map(|end| end.min(end_of(terms.ttl)));
        Box::new(Held {
            guard,
            terms,
            tie: None,
            away_until,
            mark_at: None,
            is_marked: false,
            is_heard: false,
            _counted: Counted::new(&figures.held),
        })
    }

    /// Notes that its caller has been told, and the connection with which it ends, if it does.
    pub(super) fn ties(&mut self, tie: Option<Arc<Tie>>) {
        self.away_until = None;
        let needs_mark = !self.is_marked && tie.is_none();
        self.mark_at = needs_mark.then(|| Instant::now() + MARK_AFTER);
        tie.iter().for_each(|tie| tie.add_lock());
        self.tie = tie;
    }

    /// Notes that its caller has heard of it, by CHECK say, before it asks for it again: the lease is not given up before
    /// its end.
    fn note_heard(&mut self) {
        self.is_heard = true;
        match self.away_until {
            // The connection with which it ends is that of the next asking.
            Some(end) if self.terms.ephemeral => {
                self.away_until = Some(end.max(Instant::now() + self.guard.valid_for()));
            }
            Some(_) => self.ties(None),
            None => {}
        }
    }

    fn untie(&mut self) {
        if let Some(tie) = self.tie.take() {
            tie.remove_lock();
        }
    }

    /// True if its caller knows of it.
    fn is_known(&self) -> bool {
        self.away_until.is_none() || self.is_heard
    }

    /// True if its caller knows of it, and it does not end with a connection.
    fn is_told(&self) -> bool {
        self.is_known() && self.tie.is_none()
    }
}

/// A grant of which nobody has heard: it lasts as long as the place of its caller, and no longer than a lease.
pub(super) fn unheard(mut held: Box<Held>, keep: Option<Millis>) -> State {
    held.untie();
    // Dropping the guard releases the lock.
    let Some(keep) = keep else { return State::Idle };
    held.away_until = Some(end_of(keep.min(held.terms.ttl)));
    held.mark_at = None;
    State::Held(held)
}

/// Extends a lock, but does not wait without end: no majority may answer. Fails with the reply to an ACQUIRE, and the
/// loss if the lock is lost.
pub(super) async fn extend(guard: &Guard, ttl: Millis) -> Result<(), (Reply, Option<Loss>)> {
    match timeout(ORDER_PATIENCE, guard.extend(stretched(ttl))).await {
        Ok(Ok(())) => Ok(()),
        // That is not known before the nodes have answered.
        Ok(Err(Error::Lost(loss))) if matches!(loss.why, LossReason::Done) => {
            Err((Reply::error(format_args!("{NO_QUORUM} {BEING_LEFT_DONE}")), None))
        }
        Ok(Err(Error::Lost(loss))) => {
            Err((Reply::error(format_args!("{NO_QUORUM} {loss}")), Some(loss)))
        }
        Ok(Err(error)) => Err((refusal::of_lease(&error, ttl), None)),
        Err(_) => {
            let left = guard.valid_for().as_millis();
            Err((Reply::error(format_args!("{NO_QUORUM} {NOT_EXTENDED} {left} ms")), None))
        }
    }
}

const NOT_EXTENDED: &str = "no majority of the nodes has answered; the lease so far ends within";
const UNFINISHED: &str =
    "no majority of the nodes has answered; they are asked again until the lease ends, for";
const BEING_LEFT_DONE: &str =
    "the lock is being left done, and no majority of the nodes has answered yet";
pub(super) const OTHER_END: &str = "OTHERMODE this token holds the lock, and its two requests differ in EPHEMERAL \
                                    or RENEW; release it first";
