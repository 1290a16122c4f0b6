//! The task that keeps a held lock: renews it, notices its loss, and releases it.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dlock_core::quorum::{self, Claim, Hold, State};
use dlock_core::words::{Instant, Millis, Mode};
use futures_util::future::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::{Instrument, debug, debug_span};

use crate::clock;
use crate::hold::guard::{BEING_LEFT_DONE, Guard, Order, View};
use crate::report::Release;
use crate::report::error::{Error, Loss, LossReason};
use crate::report::notice::Notice;
use crate::shared::Shared;
use crate::shared::background::Busy;
use crate::traffic::request::Wanted;
use crate::traffic::{Heard, Traffic};

/// Starts the keeper of an acquired lock.
pub(crate) fn start(mut hold: Hold, traffic: Traffic, claim: Claim) -> Guard {
    let Wanted { key, options, .. } = &*traffic.wanted;
    let limit = options.end_of_a_hold(clock::now());
    limit.into_iter().for_each(|limit| hold.limit(limit));
    if !options.renew {
        hold.stop_renewing();
    }
    let until = limit.map_or(claim.until, |limit| claim.until.min(limit));
    let view = Arc::new(View {
        key: key.clone(),
        token: traffic.token(),
        fence: claim.fence.0,
        is_exclusive: options.mode == Mode::Exclusive,
        renews: options.renew,
        since: clock::now(),
        until: AtomicU64::new(until.0),
        ttl: AtomicU64::new(hold.ttl().0),
        limit,
    });
    let (orders, inbox) = mpsc::unbounded_channel();
    let ended = options.renew.then(|| traffic.shared.ended.subscribe());
    let inbox = Inbox { orders: inbox, ended, shared: Arc::clone(&traffic.shared) };
    let (loss, heard) = watch::channel(None);
    let shared = Arc::clone(&traffic.shared);
    let guard = Guard::new(Arc::clone(&view), orders, heard, shared);
    let keeper = Keeper {
        hold,
        traffic,
        view,
        first: None,
        loss,
        extensions: Vec::new(),
        finishers: Vec::new(),
        paused: false,
    };
    // The acquisition ends where the hold begins, so this span is not a part of the acquisition's.
    let (key, fence) = (&keeper.view.key, keeper.view.fence);
    let span = debug_span!(parent: None, "hold", %key, fence, otel.kind = "client", db.system.name = "redis");
    // Boxed, because a task is moved several times before it begins, and when it ends.
    tokio::spawn(Box::pin(keeper.keep(inbox)).instrument(span));
    guard
}

struct Keeper {
    hold: Hold,
    traffic: Traffic,
    view: Arc<View>,
    /// First request that was sent to keep the lock. Answers to earlier ones belong to the acquisition.
    first: Option<u32>,
    loss: watch::Sender<Option<Loss>>,
    /// Callers that wait for a renewal of at least this length, at this time or later.
    extensions: Vec<(Millis, Instant, Extended)>,
    /// The callers of [`Guard::done`].
    finishers: Vec<oneshot::Sender<Result<(), Loss>>>,
    /// True if this task was paused until the validity had ended.
    paused: bool,
}

type Extended = oneshot::Sender<Result<(), Error>>;
type Releasing = oneshot::Sender<Result<Release, Loss>>;

/// The guard's orders.
struct Inbox {
    orders: mpsc::UnboundedReceiver<Order>,
    /// The end of the program; `None` for a lease without renewal, which goes on to its end.
    ended: Option<watch::Receiver<()>>,
    shared: Arc<Shared>,
}

impl Inbox {
    /// Returns the next order; `None` once the guard is gone. The end of the program drops the guard.
    async fn recv(&mut self) -> Option<Order> {
        let Some(ended) = &mut self.ended else { return self.orders.recv().await };
        tokio::select! {
            biased;
            order = self.orders.recv() => order,
            Ok(()) = ended.changed() => Some(Order::Drop(self.shared.background.busy())),
        }
    }
}

/// Events that wake the keeper.
enum Event {
    Order(Option<Order>),
    Heard(Heard),
    Due,
}

impl Keeper {
    async fn keep(mut self, mut inbox: Inbox) {
        loop {
            self.send();
            if self.publish() {
                // Boxed, because it is rare, and would make the task of each lock larger.
                return Box::pin(self.end(inbox)).await;
            }
            let due = self.hold.wake();
            let event = tokio::select! {
                biased;
                order = inbox.recv() => Event::Order(order),
                heard = self.traffic.next() => Event::Heard(heard),
                () = clock::sleep_until(due) => Event::Due,
            };
            let now = clock::now();
            self.note_pause(due, now);
            match event {
                Event::Order(Some(Order::Extend(ttl, done))) => self.extend(ttl, done),
                Event::Order(Some(Order::Done(end, outcome, done))) => {
                    self.finish(end, outcome, done);
                }
                Event::Order(Some(Order::Release(done, busy))) => {
                    return self.release(Some(done), busy).await;
                }
                Event::Order(Some(Order::Drop(busy))) => return self.release(None, busy).await,
                Event::Order(Some(Order::Detach(done, busy))) => {
                    return self.detach(done, busy).await;
                }
                Event::Order(None) => return self.traffic.finish(),
                Event::Heard(heard) => self.hear(heard, now),
                Event::Due => self.hold.tick(now),
            }
        }
    }

    /// Records a pause of this process that prevented a renewal. Any timer is a little late; a delay by a
    /// good part of the lease means a pause.
    fn note_pause(&mut self, due: Option<Instant>, now: Instant) {
        if let (State::Held(claim), Some(due)) = (self.hold.state(), due) {
            let far_too_late = FAR_TOO_LATE.min(self.hold.ttl().0 * 1_000 / 4);
            let is_over = self.view.renews && now >= claim.until;
            self.paused = is_over && now.since(due) > far_too_late;
        }
    }

    fn send(&mut self) {
        while let Some(send) = self.hold.poll() {
            debug!(key = %self.view.key, node = send.node, ask = ?send.ask, "keeps");
            self.first.get_or_insert(send.id);
            self.traffic.send(send);
        }
    }

    fn extend(&mut self, ttl: Duration, done: Extended) {
        if self.finishes() {
            return drop(done.send(Err(self.view.over().into())));
        }
        let (now, ttl) = (clock::now(), clock::millis(ttl));
        self.hold.extend(ttl, now);
        self.extensions.push((ttl, now, done));
    }

    /// True while the lock is being left done: the guard is not valid.
    fn finishes(&self) -> bool {
        !self.finishers.is_empty()
    }

    /// Leaves the lock done until then. When that is over by now, it is released.
    fn finish(&mut self, end: Instant, outcome: Vec<u8>, done: oneshot::Sender<Result<(), Loss>>) {
        self.finishers.push(done);
        if self.finishers.len() > 1 {
            return;
        }
        let now = clock::now();
        self.hold.tick(now);
        self.traffic.outcome = outcome;
        let left = clock::left(end);
        if left.is_zero() {
            return self.hold.release();
        }
        self.hold.finish(clock::millis(left), now);
    }

    /// Answers callers that wait for a longer lease: granted, or refused.
    fn tell_extended(&mut self) {
        let (hold, traffic) = (&self.hold, &self.traffic);
        for (ttl, since, done) in mem::take(&mut self.extensions) {
            if hold.is_renewed(ttl, since) {
                let _ = done.send(Ok(()));
            } else if hold.ttl() < ttl {
                let (key, nodes) = (self.view.key.clone(), traffic.reports());
                let (ttl, limit) = (Duration::from_millis(ttl.0), hold.longest());
                let limit = Duration::from_millis(limit.0);
                let _ = done.send(Err(Error::TooLong { key, ttl, limit, nodes }));
            } else {
                self.extensions.push((ttl, since, done));
            }
        }
    }

    async fn detach(mut self, done: oneshot::Sender<Instant>, busy: Busy) {
        if self.finishes() {
            // There is no lock to hand over.
            drop(done);
            self.finished(&mut None).await;
            return self.traffic.finish();
        }
        self.settle().await;
        if !self.publish() {
            let until = self.view.until();
            self.lose(LossReason::Detached);
            let _ = done.send(until);
        }
        self.traffic.finish();
        drop(busy);
    }

    /// Waits for a short time until each node that answers has confirmed the lock: without an answer its state
    /// is unknown.
    async fn settle(&mut self) {
        let (now, timeout) = (clock::now(), self.traffic.timeout);
        let end = now.later(timeout * 2);
        self.hold.hand_on(clock::millis(timeout), now);
        loop {
            self.send();
            if self.hold.is_settled() || !matches!(self.hold.state(), State::Held(_)) {
                return;
            }
            tokio::select! {
                biased;
                heard = self.traffic.next() => self.hear(heard, clock::now()),
                () = clock::sleep_until(Some(end)) => return,
            }
        }
    }

    fn hear(&mut self, heard: Heard, now: Instant) {
        match heard {
            Heard::CutOff(node) => self.hold.cut_off(node, now),
            Heard::Back(node) => self.hold.is_back(node, now),
            Heard::Reply(reply) => {
                if !reply.is_yes() && self.first.is_some_and(|first| reply.id >= first) {
                    let Shared { counts, nodes, .. } = &*self.traffic.shared;
                    let node = nodes.get(reply.node).map_or("", |node| node.name());
                    counts.not_renewed(node, &reply.state);
                }
                self.hold.sent(reply.node, reply.id, reply.sent);
                self.hold.answer(reply.node, reply.id, reply.answer, now);
            }
        }
    }

    /// Shows the present state to the guard. Returns true if the lock is lost.
    fn publish(&mut self) -> bool {
        match self.hold.state() {
            State::Held(claim) => {
                // While the lock is being left done the guard is not valid: another client may take it by
                // AGAIN.
                let until = if self.finishes() { BEING_LEFT_DONE } else { claim.until };
                self.view.until.store(until.0, Ordering::Release);
                self.view.ttl.store(self.hold.ttl().0, Ordering::Relaxed);
                self.tell_extended();
                false
            }
            State::Lost(why) => {
                let nodes = self.traffic.reports();
                self.lose(match why {
                    quorum::LossReason::NotRenewed if self.paused => LossReason::Paused,
                    quorum::LossReason::NotRenewed if self.extensions.is_empty() => {
                        self.view.lapsed(nodes)
                    }
                    quorum::LossReason::NotRenewed => LossReason::NotRenewed { nodes },
                    quorum::LossReason::Ended => LossReason::Ended { nodes },
                    quorum::LossReason::Limit => LossReason::MaxHold,
                    // The window ended before the work did.
                    quorum::LossReason::Released if self.finishes() => LossReason::Done,
                    quorum::LossReason::Released => LossReason::Released,
                    quorum::LossReason::Done => LossReason::Done,
                    quorum::LossReason::NotDone => LossReason::NotDone { nodes },
                });
                true
            }
        }
    }

    fn lose(&mut self, why: LossReason) {
        let loss = self.view.loss(why);
        let counts = &self.traffic.shared.counts;
        counts.held(self.view.since);
        let meant =
            matches!(loss.why, LossReason::Released | LossReason::Done | LossReason::Detached);
        if !meant {
            counts.lost(loss.why.name());
        }
        for finisher in self.finishers.drain(..) {
            let _ = finisher.send(but_done(Err(loss.clone())));
        }
        debug!(key = %loss.key, fence = loss.fence, why = %loss.why, "not held any more");
        self.view.until.store(0, Ordering::Release);
        for (_, _, done) in self.extensions.drain(..) {
            let _ = done.send(Err(loss.clone().into()));
        }
        self.loss.send_replace(Some(loss));
    }

    /// Runs after a loss. Keeps the remaining leases until the guard is dropped, so that the next holder
    /// begins after this holder's work, or after the lease.
    async fn end(mut self, mut inbox: Inbox) {
        self.traffic.forget_requests();
        loop {
            let order = tokio::select! {
                order = inbox.recv() => order,
                // Earlier attempts are still released.
                _ = self.traffic.next() => continue,
            };
            let Some(order) = order else { return self.traffic.finish() };
            match order {
                Order::Extend(_, done) => drop(done.send(self.outcome().map_err(Error::from))),
                Order::Done(_, _, done) => drop(done.send(but_done(self.outcome()))),
                Order::Release(done, busy) => return self.release(Some(done), busy).await,
                Order::Drop(busy) => return self.release(None, busy).await,
                // There is no lock to hand over.
                Order::Detach(_, busy) => return self.release(None, busy).await,
            }
        }
    }

    /// Waits until the lock is left done, or lost. The caller of a release waits for at most one node time-out.
    async fn finished(&mut self, done: &mut Option<Releasing>) {
        let mut patience = pin!(sleep(self.traffic.timeout));
        loop {
            self.send();
            if self.publish() {
                return;
            }
            let due = self.hold.wake();
            tokio::select! {
                biased;
                heard = self.traffic.next() => self.hear(heard, clock::now()),
                () = clock::sleep_until(due) => self.hold.tick(clock::now()),
                () = &mut patience, if done.is_some() => {
                    let release = self.traffic.not_released(Duration::from_millis(self.hold.ttl().0));
                    self.tell_not_released(&release);
                    let _ = done.take().map(|done| done.send(Ok(release)));
                }
            }
        }
    }

    async fn release(mut self, mut done: Option<Releasing>, busy: Busy) {
        // A lock that is to be left done is not released before.
        if self.finishes() {
            self.finished(&mut done).await;
        }
        // A request needs no FINAL if its answer has arrived.
        while let Some(heard) = self.traffic.next().now_or_never() {
            self.hear(heard, clock::now());
        }
        // A lock that ended before its release was lost.
        self.hold.tick(clock::now());
        let was_held = matches!(self.hold.state(), State::Held(_));
        if !was_held && self.outcome().is_ok() {
            self.publish();
        }
        self.traffic.forget_requests();
        self.hold.release();
        self.send();
        // No caller waits for the end of a guard that was dropped.
        if done.is_none() && self.outcome().is_ok() {
            self.lose(LossReason::Released);
        }
        let (release, was_kept) = self.traffic.released().await;
        if done.is_some() && was_held && !was_kept {
            let nodes = self.traffic.reports();
            self.lose(LossReason::Ended { nodes });
        }
        let outcome = self.outcome();
        // Counts before the caller receives the outcome.
        if outcome.is_ok() {
            self.lose(LossReason::Released);
        }
        if was_held && !release.is_free {
            self.tell_not_released(&release);
        }
        if let Some(done) = done {
            let _ = done.send(but_done(outcome).map(|()| release));
        }
        self.traffic.finish();
        drop(busy);
    }

    fn tell_not_released(&self, release: &Release) {
        let Shared { listener, nodes, .. } = &*self.traffic.shared;
        listener.tell(&Notice::NotReleased {
            key: self.view.key.clone(),
            needed: self.traffic.shared.majority(),
            of: nodes.len(),
            left: release.left.clone(),
            within: release.within,
        });
    }

    /// The loss, if there is one.
    fn outcome(&self) -> Result<(), Loss> {
        self.loss.borrow().clone().map_or(Ok(()), Err)
    }
}

/// To its holder a lock that was left done is not lost.
fn but_done(outcome: Result<(), Loss>) -> Result<(), Loss> {
    match outcome {
        Err(loss) if matches!(loss.why, LossReason::Done) => Ok(()),
        outcome => outcome,
    }
}

/// A timer that is late by this much means a pause, in µs.
const FAR_TOO_LATE: u64 = 1_000_000;
