//! A lock that is held.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dlock_core::words::Instant;
use tokio::sync::{mpsc, oneshot, watch};

use crate::acquire::lock::check_longest;
use crate::clock;
use crate::key::Key;
use crate::report::error::{Error, Loss, LossReason};
use crate::report::{Release, Report};
use crate::shared::Shared;
use crate::shared::background::Busy;
use crate::token::Token;

/// A lock that is held, and renewed in the background until it is released or dropped; or not renewed, if
/// that was wanted ([`Lock::unrenewed`](crate::Lock::unrenewed)).
///
/// Validity is a matter of time: [`check`](Guard::check) before work that must not be
/// done twice, await [`lost`](Guard::lost) beside work that takes long, and pass
/// [`fence`](Guard::fence) on to whatever can refuse a smaller one.
#[must_use = "a lock is released when its guard is dropped"]
pub struct Guard {
    view: Arc<View>,
    orders: mpsc::UnboundedSender<Order>,
    loss: watch::Receiver<Option<Loss>>,
    shared: Arc<Shared>,
    /// Released or detached: dropping it does nothing more.
    done: bool,
}

/// What the guard sees of the lock that its keeper keeps.
pub(crate) struct View {
    pub(crate) key: Key,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    pub(crate) is_exclusive: bool,
    pub(crate) renews: bool,
    /// The end of the validity, as a moment of the clock; 0 once it is over for good.
    pub(crate) until: AtomicU64,
    /// The lease, in milliseconds.
    pub(crate) ttl: AtomicU64,
    /// When it ends, renewed or not.
    pub(crate) limit: Option<Instant>,
}

/// What a guard tells its keeper.
pub(crate) enum Order {
    /// Renew now, for at least this long.
    Extend(Duration, oneshot::Sender<Result<(), Error>>),
    /// Release, and say so when a majority has answered.
    Release(oneshot::Sender<Result<Release, Loss>>, Busy),
    /// The guard is dropped: release.
    Drop(Busy),
    /// Leave the lock alone from now on.
    /// Says until when the lock is valid.
    Detach(oneshot::Sender<Instant>, Busy),
}

/// A lock that this client does not renew: another process extends and releases it by its token.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The lock.
    pub key: Key,
    /// What to extend and to release it with.
    pub token: Token,
    /// Its fence.
    pub fence: u64,
    /// How long it is valid, from now.
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

    /// The token, by which the nodes know this holder. It is a secret: whoever knows it can release the
    /// lock.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.view.token
    }

    /// The number of this acquisition: larger than that of any earlier one of the same lock.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.view.fence
    }

    /// The fence, for whoever shows it to what refuses a smaller one.
    ///
    /// # Errors
    /// When the lock is shared or has permits: its holders have different fences at the same time.
    pub fn exclusive_fence(&self) -> Result<u64, Error> {
        if self.view.is_exclusive {
            return Ok(self.fence());
        }
        let why = "only the fence of an exclusive lock says who is late: holders of a shared one have \
                   different fences at the same time";
        Err(Error::Usage(why.to_owned()))
    }

    /// The token, for whoever shows it to the server that has the lock, as DLOCK.GUARD does.
    ///
    /// # Errors
    /// When there is more than one node: no single one knows whether the lock is held.
    pub fn token_of_one_node(&self) -> Result<&Token, Error> {
        if self.shared.nodes.len() == 1 {
            return Ok(self.token());
        }
        let why = "one of several nodes does not know whether the lock is held; use `fenced`";
        Err(Error::Usage(why.to_owned()))
    }

    /// Whether the lease is renewed until the lock is released.
    #[must_use]
    pub fn is_renewed(&self) -> bool {
        self.view.renews
    }

    /// How much longer the lock is certainly held without another renewal; zero once it is lost.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        clock::left(self.view.until())
    }

    /// Whether the lock is certainly held at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// The same, with the reason why it is not.
    ///
    /// # Errors
    /// When the lock is not certainly held at this moment.
    pub fn check(&self) -> Result<(), Loss> {
        if self.is_valid() {
            return Ok(());
        }
        let told = self.loss.borrow().clone();
        Err(told.unwrap_or_else(|| self.view.over()))
    }

    /// The lease, for which each renewal is made.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.view.ttl.load(Ordering::Relaxed))
    }

    /// Resolves when the lock is lost, and says why. Any number of futures can wait for this, one after
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
            // The runtime of the keeper has ended, so nobody renews the lock.
            clock::sleep_until(Some(view.until())).await;
            view.over()
        }
    }

    /// Renews the lease now, with this length or the present one, whichever is longer. Later renewals
    /// use that length, too. Waits until a majority has renewed the lease; the lease is renewed even if
    /// the future is dropped at once.
    ///
    /// # Errors
    /// When the lock is lost before that, when no majority accepts so long a lease, or when no node could.
    /// In the other cases than the first the lock is held as before.
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

    /// Releases the lock. Waits until a majority of the nodes has answered, or until the time for an
    /// answer is over; the rest goes on in the background. The lock is released even if the future is
    /// dropped at once.
    ///
    /// A node that does not answer, or refuses in passing (it loads its data, say, or lacks replicas), is asked
    /// again until it has released the lock, or the lease has ended. The answer says which nodes those are.
    ///
    /// # Errors
    /// When the lock was lost before.
    pub fn release(mut self) -> impl Future<Output = Result<Release, Loss>> + Send {
        let (sender, done) = oneshot::channel();
        self.done = true;
        let order = Order::Release(sender, self.shared.background.busy());
        // If the keeper has ended, the order is dropped here, and `done` says so at once.
        self.order(order);
        async move {
            match done.await {
                Ok(outcome) => outcome,
                Err(_) => Err(self.view.over()),
            }
        }
    }

    /// Hands the lock over to another process: this client neither renews nor releases it any more. Waits
    /// until all nodes that answer have the lock, for at most twice as long as a node may take. The lock is
    /// handed over even if the future is dropped at once.
    pub fn detach(mut self) -> impl Future<Output = Lease> + Send {
        let (sender, done) = oneshot::channel();
        self.done = true;
        let order = Order::Detach(sender, self.shared.background.busy());
        self.order(order);
        async move {
            let until = done.await.unwrap_or_else(|_| self.view.until());
            let View { key, token, fence, .. } = &*self.view;
            let valid_for = clock::left(until);
            Lease { key: key.clone(), token: *token, fence: *fence, valid_for }
        }
    }

    /// Whether the keeper hears of it.
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

    /// Its time is over, and the keeper has not said so yet, or never will.
    fn over(&self) -> Loss {
        let is_limit = self.limit.is_some_and(|limit| clock::now() >= limit);
        self.loss(if is_limit { LossReason::MaxHold } else { self.lapsed(Vec::new()) })
    }

    /// The lease is over, and nobody has renewed it.
    pub(crate) fn lapsed(&self, nodes: Vec<Report>) -> LossReason {
        if self.renews { LossReason::NotRenewed { nodes } } else { LossReason::Expired }
    }

    pub(crate) fn loss(&self, why: LossReason) -> Loss {
        Loss { key: self.key.clone(), fence: self.fence, why }
    }
}

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
