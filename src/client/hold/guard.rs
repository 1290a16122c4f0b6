//! A lock that is held.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dlock_core::limits::MAX_META;
use dlock_core::words::Instant;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock;
use crate::key::Key;
use crate::options::{check_exclusive, check_longest, check_window};
use crate::report::error::{Error, Loss, LossReason};
use crate::report::{Release, Report};
use crate::shared::Shared;
use crate::shared::background::Busy;
use crate::token::Token;

/// A lock that is held. The client renews it in the background until it is released or dropped, unless
/// [`Lock::unrenewed`](crate::Lock::unrenewed) was asked for.
///
/// A task of tokio releases a dropped lock: await [`Client::close`](crate::Client::close) before the runtime ends.
///
/// Validity ends with time: [`check`](Guard::check) before work that must not be done twice, await
/// [`lost`](Guard::lost) beside long work, and pass [`fence`](Guard::fence) to each resource that
/// can refuse a smaller one.
#[must_use = "a lock is released when its guard is dropped"]
pub struct Guard {
    view: Arc<View>,
    orders: mpsc::UnboundedSender<Order>,
    loss: watch::Receiver<Option<Loss>>,
    shared: Arc<Shared>,
    /// True once released or detached: dropping the guard has no effect.
    done: bool,
}

/// The guard's view of the lock; the keeper updates it.
pub(crate) struct View {
    pub(crate) key: Key,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) is_exclusive: bool,
    pub(crate) renews: bool,
    /// Time of the guard's creation.
    pub(crate) since: Instant,
    /// End of the validity, as a moment of the clock; 0 once the lock is lost, and [`BEING_LEFT_DONE`] while it
    /// is being left done.
    pub(crate) until: AtomicU64,
    /// The lease, in milliseconds.
    pub(crate) ttl: AtomicU64,
    /// Limit of the hold: the lock ends then, renewed or not.
    pub(crate) limit: Option<Instant>,
}

/// A guard's orders to its keeper.
pub(crate) enum Order {
    /// Renew now, for at least this long.
    Extend(Duration, oneshot::Sender<Result<(), Error>>),
    /// Release, and answer when a majority of the nodes has answered.
    Release(oneshot::Sender<Result<Release, Loss>>, Busy),
    /// The guard is dropped: release.
    Drop(Busy),
    /// Leave the lock done until then, with this outcome.
    Done(Instant, Vec<u8>, oneshot::Sender<Result<(), Loss>>),
    /// Stop without a release. The answer is the end of the validity.
    Detach(oneshot::Sender<Result<Instant, Loss>>, Busy),
}

/// A lock that this client does not renew: another process extends and releases it by its token.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The lock.
    pub key: Key,
    /// Token to extend and release it.
    pub token: Token,
    /// Fence of the lock.
    pub fence: u64,
    /// Time until the validity ends.
    pub valid_for: Duration,
}

impl Guard {
    pub(crate) fn new(
        view: Arc<View>,
        orders: mpsc::UnboundedSender<Order>,
        loss: watch::Receiver<Option<Loss>>,
        shared: Arc<Shared>,
    ) -> Guard {
        Guard { view, orders, loss, shared, done: false }
    }

    /// The lock.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.view.key
    }

    /// The token of this holder at the nodes. It is a secret: any client that has it can release the lock.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.view.token
    }

    /// The number of this acquisition: larger than the fence of any earlier one of the same lock.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.view.fence
    }

    /// True if the client renews the lease until the lock is released.
    #[must_use]
    pub fn is_renewed(&self) -> bool {
        self.view.renews
    }

    /// Time until the validity ends if no renewal succeeds; zero once the lock is lost.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        clock::left(self.view.until())
    }

    /// Time since the lock was acquired, on a clock that goes on while the machine sleeps.
    #[cfg(feature = "operator")]
    #[must_use]
    pub fn held_for(&self) -> Duration {
        Duration::from_micros(clock::now().since(self.view.since))
    }

    /// True if the lock is certainly held at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// Returns the reason if the lock is not certainly held at this moment.
    ///
    /// # Errors
    /// Fails when the lock is not certainly held at this moment.
    pub fn check(&self) -> Result<(), Loss> {
        if self.is_valid() {
            return Ok(());
        }
        let told = self.loss.borrow().clone();
        Err(told.unwrap_or_else(|| self.view.over()))
    }

    /// The length of lease that it asks for. A node may grant a shorter one.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.view.ttl.load(Ordering::Relaxed))
    }

    /// Resolves when the lock is lost, with the reason. Any number of futures can wait for this, one after
    /// the other or at the same time.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let (mut loss, view) = (self.loss.clone(), Arc::clone(&self.view));
        async move {
            loop {
                if let Some(loss) = &*loss.borrow_and_update() {
                    return loss.clone();
                }
                if loss.changed().await.is_err() {
                    break;
                }
            }
            // The keeper's runtime has ended, so the lock is not renewed.
            clock::sleep_until(Some(view.until())).await;
            view.over()
        }
    }

    /// Renews the lease now, and from then on, with the longer of this length and the present one. Waits
    /// until a majority has renewed the lease. The lease is renewed even if the future is dropped at
    /// once.
    ///
    /// # Errors
    /// Fails when the lock is lost before that, when no majority accepts a lease of this length, or when no
    /// node could. In the last two cases the lock is held as before.
    pub fn extend(&self, ttl: Duration) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (sender, done) = oneshot::channel();
        let checked = check_longest(ttl);
        let asked = checked.is_ok() && self.order(Order::Extend(ttl, sender));
        let lost = self.lost();
        async move {
            checked?;
            if asked && let Ok(outcome) = done.await {
                return outcome;
            }
            Err(lost.await.into())
        }
    }

    /// Leaves the lock done, for a job that runs once a window, on one of several hosts. Until `window` after this
    /// guard's acquisition every request for the lock fails at once with [`Error::Done`], with the time left and the
    /// first 1,024 bytes of the `outcome`. From this call on the guard is not valid. Waits until a majority of the
    /// nodes has answered; requests are repeated until the lease has ended. The lock is left done even if the future
    /// is dropped at once.
    ///
    /// If the window is over by now, the lock is free once the guard is released or dropped. A lock that was left
    /// done before stays as it is.
    ///
    /// # Errors
    /// [`Error::Usage`] when the lock is shared or has permits, or the window is too long; then it is held as
    /// before. Also fails when the lock was lost before, no majority can be reached, or too many nodes refuse: then
    /// another client may do the work again.
    pub fn done<O: Into<String>>(
        &self,
        window: Duration,
        outcome: O,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<O> {
        self.done_until(self.view.since, window, outcome.into().into_bytes())
    }

    /// As [`done`](Guard::done), but the time counts from now, as in DLOCK.RELEASE, and the outcome may be any
    /// bytes.
    ///
    /// # Errors
    /// Fails as [`done`](Guard::done).
    #[cfg(feature = "operator")]
    pub fn done_for(
        &self,
        time: Duration,
        outcome: Vec<u8>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.done_until(clock::now(), time, outcome)
    }

    /// Leaves the lock done until `window` after `since`.
    fn done_until(
        &self,
        since: Instant,
        window: Duration,
        mut outcome: Vec<u8>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        // A text for people must not decide whether the work counts as done.
        let is_whole = |end: &usize| outcome.get(*end).is_none_or(|byte| byte & 0xc0 != 0x80);
        outcome.truncate((0..=MAX_META).rev().find(is_whole).unwrap_or_default());
        let checked = check_window(window).and_then(|()| check_exclusive(self.view.is_exclusive));
        let (sender, done) = oneshot::channel();
        let order = Order::Done(since.later(window), outcome, sender);
        let asked = checked.is_ok() && self.order(order);
        let lost = self.lost();
        async move {
            checked?;
            match done.await {
                Ok(outcome) if asked => Ok(outcome?),
                _ => Err(lost.await.into()),
            }
        }
    }

    /// Awaits the work, unless the lock is lost before. A lock that the work has left done is not lost.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Loss> {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            loss = self.lost() => match loss.why {
                // Released: the window was over.
                LossReason::Done | LossReason::Released => {}
                _ => return Err(loss),
            },
            done = &mut work => return Ok(done),
        }
        Ok(work.await)
    }

    /// Releases the lock. Waits until a majority of the nodes has answered, or until the node time-out; the
    /// rest goes on in the background. The lock is released even if the future is dropped at once.
    ///
    /// A node may not answer, or refuse for the moment because it loads its data or lacks replicas. The client
    /// repeats the request until such a node has released the lock, or the lease has ended; for ten minutes
    /// longer at a node that hangs, because it may grant the lock when it goes on. Without a majority the result
    /// names the nodes that have not released the lock.
    ///
    /// A lock that was left [done](Guard::done) stays so, and one that is being left done becomes so in the background.
    ///
    /// # Errors
    /// Fails when the lock was lost before.
    pub fn release(mut self) -> impl Future<Output = Result<Release, Loss>> + Send {
        let (sender, done) = oneshot::channel();
        self.done = true;
        let order = Order::Release(sender, self.shared.background.busy());
        // If the keeper has ended, the order is dropped here, and `done` resolves at once.
        self.order(order);
        async move {
            match done.await {
                Ok(outcome) => outcome,
                Err(_) => Err(self.view.over()),
            }
        }
    }

    /// Hands the lock over to another process: this client stops renewing it, and does not release it.
    /// Waits until all nodes that answer have the lock, for at most two node time-outs. The lock is
    /// handed over even if the future is dropped at once.
    ///
    /// # Errors
    /// Fails when the lock was lost before that, or is being left [done](Guard::done); then it is released.
    pub fn detach(mut self) -> impl Future<Output = Result<Lease, Loss>> + Send {
        let (sender, done) = oneshot::channel();
        self.done = true;
        let order = Order::Detach(sender, self.shared.background.busy());
        self.order(order);
        async move {
            let until = done.await.unwrap_or_else(|_| Err(self.view.over()))?;
            let View { key, token, fence, .. } = &*self.view;
            let valid_for = clock::left(until);
            Ok(Lease { key: key.clone(), token: *token, fence: *fence, valid_for })
        }
    }

    /// Sends an order. Returns false if the keeper has ended.
    fn order(&self, order: Order) -> bool {
        self.orders.send(order).is_ok()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.orders.send(Order::Drop(self.shared.background.busy()));
        }
    }
}

impl View {
    pub(crate) fn until(&self) -> Instant {
        Instant(self.until.load(Ordering::Acquire))
    }

    /// The loss when the lease has run out, or the lock is being left done, and the keeper has not reported
    /// it.
    pub(crate) fn over(&self) -> Loss {
        let is_limit = self.limit.is_some_and(|limit| clock::now() >= limit);
        self.loss(match is_limit {
            true => LossReason::MaxHold,
            false if self.until() == Instant(0) => LossReason::Released,
            false if self.until() == BEING_LEFT_DONE => LossReason::Done,
            false => self.lapsed(Vec::new()),
        })
    }

    /// The reason when the lease has run out without a renewal.
    pub(crate) fn lapsed(&self, nodes: Vec<Report>) -> LossReason {
        if self.renews { LossReason::NotRenewed { nodes } } else { LossReason::Expired }
    }

    pub(crate) fn loss(&self, why: LossReason) -> Loss {
        Loss { key: self.key.clone(), fence: self.fence, why }
    }
}

/// The end of the validity of a lock that is being left done.
pub(crate) const BEING_LEFT_DONE: Instant = Instant(1);

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.view.key)
            .field("token", &self.view.token)
            .field("fence", &self.view.fence)
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
