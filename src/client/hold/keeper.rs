//! The task that keeps a held lock: renews it, notices its loss, and releases it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dlock_core::quorum::{self, Claim, Hold, State};
use dlock_core::words::{Instant, Mode};
use futures_util::future::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::{Instrument, debug, debug_span};

use crate::clock;
use crate::hold::guard::{BEING_LEFT_DONE, Guard, Order, View};
use crate::key::Key;
use crate::report::code::NOT_DURABLE;
use crate::report::error::{Error, Loss, LossReason};
use crate::report::notice::Notice;
use crate::report::{Release, Report};
use crate::shared::Shared;
use crate::shared::background::Busy;
use crate::traffic::request::Wanted;
use crate::traffic::{Heard, Traffic};

/// Starts the keeper of an acquired lock.
pub(crate) fn start(mut hold: Hold, traffic: Traffic, claim: Claim) -> Guard {
    let Wanted { key, options, .. } = &*traffic.wanted;
    let since = clock::now();
    let limit = options.end_of_a_hold(since);
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
        since,
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
        loss,
        extensions: VecDeque::new(),
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
    loss: watch::Sender<Option<Loss>>,
    /// The extension under way, and those that wait for its end: the nodes are asked for one length at a time.
    extensions: VecDeque<(Duration, Extended)>,
    /// The callers of [`Guard::done`].
    finishers: Vec<oneshot::Sender<Result<(), Loss>>>,
    /// True if this task was paused until the validity had ended.
    paused: bool,
}

type Extended = oneshot::Sender<Result<(), Error>>;
type Releasing = oneshot::Sender<Result<Release, Loss>>;
type Detaching = oneshot::Sender<Result<Instant, Loss>>;

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

impl Keeper {
    async fn keep(mut self, mut inbox: Inbox) {
        loop {
            if self.show() {
                // Boxed, because it is rare, and would make the task of each lock larger.
                return Box::pin(self.end(inbox)).await;
            }
            let order = tokio::select! {
                biased;
                order = inbox.recv() => order,
                () = self.next() => continue,
            };
            self.note_pause();
            match order {
                Some(Order::Extend(ttl, done)) => self.extend(ttl, done),
                Some(Order::Done(end, outcome, done)) => self.finish(end, outcome, done),
                Some(Order::Release(done, busy)) => return self.release(Some(done), busy).await,
                Some(Order::Drop(busy)) => return self.release(None, busy).await,
                Some(Order::Detach(done, busy)) => return self.detach(done, busy).await,
                None => return self.traffic.finish().await,
            }
        }
    }

    /// Waits for the next event at the nodes.
    async fn next(&mut self) {
        let due = self.hold.wake();
        tokio::select! {
            biased;
            heard = self.traffic.next() => {
                self.note_pause();
                self.hear(heard, clock::now());
            }
            () = clock::sleep_until(due) => {
                self.note_pause();
                self.hold.tick(clock::now());
            }
        }
    }

    /// Records a pause of this process that prevented a renewal. Any timer is a little late; a delay by a
    /// good part of the lease means a pause.
    fn note_pause(&mut self) {
        if let (State::Held(claim), Some(due)) = (self.hold.state(), self.hold.wake()) {
            let (now, lease) = (clock::now(), self.hold.ttl().0 * 1_000);
            let is_over = self.view.renews && now >= claim.until;
            self.paused = is_over && now.since(due) > FAR_TOO_LATE.min(lease / 4);
        }
    }

    fn extend(&mut self, ttl: Duration, done: Extended) {
        if self.finishes() {
            return drop(done.send(Err(self.view.over().into())));
        }
        self.extensions.push_back((ttl, done));
        if self.extensions.len() == 1 {
            self.hold.extend(clock::millis(ttl), clock::now());
        }
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

    /// Answers the caller of the extension under way, and begins the next one.
    fn tell_extended(&mut self) {
        while let Some(outcome) = self.hold.extended() {
            let Some((ttl, done)) = self.extensions.pop_front() else { return };
            let _ = done.send(outcome.map_err(|limit| {
                let (key, nodes) = (self.view.key.clone(), self.traffic.reports());
                let limit = Duration::from_millis(limit.0);
                refusal(key, (ttl, limit), self.traffic.shared.majority(), nodes)
            }));
            if let Some((ttl, _)) = self.extensions.front() {
                self.hold.extend(clock::millis(*ttl), clock::now());
            }
        }
    }

    async fn detach(mut self, done: Detaching, busy: Busy) {
        if !self.finishes() && !self.settle().await {
            let until = self.view.until();
            self.lose(LossReason::Detached);
            let _ = done.send(Ok(until));
            self.traffic.finish().await;
            return drop(busy);
        }
        self.has_none(done, busy).await;
    }

    /// There is no lock to hand over.
    async fn has_none(self, done: Detaching, busy: Busy) {
        let loss = self.outcome().err().unwrap_or_else(|| self.view.over());
        let _ = done.send(Err(loss));
        self.release(None, busy).await;
    }

    /// Waits for a short time until each node that answers has confirmed the lock: without an answer its state
    /// is unknown. Returns true if the lock is lost.
    async fn settle(&mut self) -> bool {
        let timeout = self.traffic.timeout;
        let mut patience = pin!(sleep(timeout * 2));
        self.hold.hand_on(clock::millis(timeout), clock::now());
        loop {
            if self.show() || self.hold.is_settled() {
                return !matches!(self.hold.state(), State::Held(_));
            }
            tokio::select! {
                biased;
                () = self.next() => {}
                () = &mut patience => return self.show(),
            }
        }
    }

    fn hear(&mut self, heard: Heard, now: Instant) {
        match heard {
            Heard::CutOff(node) => self.hold.cut_off(node, now),
            Heard::Back(node) => self.hold.is_back(node, now),
            Heard::Reply(reply) => {
                self.hold.sent(reply.node, reply.id, reply.sent);
                self.hold.answer(reply.node, reply.id, reply.answer, now);
            }
        }
    }

    /// Shows the present state to the guard, and sends the requests that follow. Returns true if the lock is lost.
    fn show(&mut self) -> bool {
        let is_lost = self.publish();
        self.send();
        is_lost
    }

    fn send(&mut self) {
        while let Some(send) = self.hold.poll() {
            debug!(key = %self.view.key, node = send.node, ask = ?send.ask, "keeps");
            self.traffic.send(send);
        }
    }

    fn publish(&mut self) -> bool {
        match self.hold.state() {
            State::Held(claim) => {
                // While the lock is being left done the guard is not valid: another client may take it by
                // AGAIN.
                let until = if self.finishes() { BEING_LEFT_DONE } else { claim.until };
                self.view.until.store(until.0, Ordering::Release);
                let ttl = self.hold.ttl().0;
                self.traffic.set_lease(Duration::from_millis(ttl));
                self.view.ttl.store(ttl, Ordering::Relaxed);
                self.tell_extended();
                // The next extension may have begun too late.
                !matches!(self.hold.state(), State::Held(_)) && self.publish()
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
        for finisher in self.finishers.drain(..) {
            let _ = finisher.send(but_done(Err(loss.clone())));
        }
        debug!(key = %loss.key, fence = loss.fence, why = %loss.why, "not held any more");
        self.view.until.store(0, Ordering::Release);
        for (_, done) in self.extensions.drain(..) {
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
            let Some(order) = order else { return self.traffic.finish().await };
            match order {
                Order::Extend(_, done) => drop(done.send(self.outcome().map_err(Error::from))),
                Order::Done(_, _, done) => drop(done.send(but_done(self.outcome()))),
                Order::Release(done, busy) => return self.release(Some(done), busy).await,
                Order::Drop(busy) => return self.release(None, busy).await,
                Order::Detach(done, busy) => return self.has_none(done, busy).await,
            }
        }
    }

    /// Waits until the lock is left done, or lost. The caller of a release waits for at most one node time-out.
    async fn finished(&mut self, done: &mut Option<Releasing>) {
        let mut patience = pin!(sleep(self.traffic.timeout));
        while !self.show() {
            tokio::select! {
                biased;
                () = self.next() => {}
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
        while let Some(heard) = self.traffic.hear().now_or_never() {
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
        if outcome.is_ok() {
            self.lose(LossReason::Released);
        }
        if was_held && !release.is_free {
            self.tell_not_released(&release);
        }
        if let Some(done) = done {
            let _ = done.send(but_done(outcome).map(|()| release));
        }
        self.traffic.finish().await;
        drop(busy);
    }

    fn tell_not_released(&self, release: &Release) {
        let (key, shared) = (self.view.key.clone(), &self.traffic.shared);
        let (needed, of) = (shared.majority(), shared.nodes.len());
        let Release { left, within, .. } = release.clone();
        shared.listener.tell(&Notice::NotReleased { key, needed, of, left, within });
    }

    /// The loss, if there is one.
    fn outcome(&self) -> Result<(), Loss> {
        self.loss.borrow().clone().map_or(Ok(()), Err)
    }
}

/// The error of an extension that is refused. Nodes that cannot write their state file now may accept it later.
fn refusal(
    key: Key,
    (ttl, limit): (Duration, Duration),
    needed: usize,
    nodes: Vec<Report>,
) -> Error {
    if nodes.iter().any(|report| report.state.code() == Some(NOT_DURABLE)) {
        return Error::NoQuorum { key, needed, nodes };
    }
    Error::TooLong { key, ttl, limit, nodes }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::NodeState;

    #[test]
    fn an_extension_that_a_full_disk_refuses_is_not_blamed_on_a_setting() {
        for (text, may_pass) in [("NOTDURABLE the disk is full", true), ("TOOLONG 9 ms", false)] {
            let state = NodeState::Refused(text.to_owned());
            let nodes = vec![Report { node: "a".to_owned(), state }];
            let error = refusal("job".into(), (LONG, LONG / 2), 1, nodes);
            assert_eq!(
                (error.may_pass(), error.to_string().contains("max-ttl")),
                (may_pass, !may_pass)
            );
        }
    }

    const LONG: Duration = Duration::from_secs(60);
}
