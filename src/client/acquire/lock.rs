//! A lock, and the ways to acquire it.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "operator")]
use dlock_core::words::Fence;
use dlock_core::words::{Mode, Patience};

use crate::acquire::driver;
use crate::hold::guard::Guard;
use crate::key::Key;
use crate::options::{LockOptions, check_exclusive, check_key, check_window};
use crate::report::error::Error;
#[cfg(feature = "operator")]
use crate::report::notice::{Listener, Notice};
use crate::shared::Shared;
use crate::traffic::request::Wanted;

/// A lock and its options. Nothing is sent until one of the methods that acquire it is called.
#[must_use = "a lock is not held before it is acquired"]
#[derive(Clone)]
pub struct Lock {
    shared: Arc<Shared>,
    wanted: Wanted,
}

impl Lock {
    pub(crate) fn new(shared: Arc<Shared>, key: Key) -> Lock {
        let options = LockOptions::default();
        Lock { shared, wanted: Wanted::new(key, options) }
    }

    /// Sets all options at once. Each of the next methods sets one.
    pub fn options(mut self, options: LockOptions) -> Lock {
        self.wanted.options = options;
        self
    }

    /// Sets the [lease](LockOptions::ttl). The default is 30 seconds.
    pub fn ttl(mut self, ttl: Duration) -> Lock {
        self.wanted.options.ttl = ttl;
        self
    }

    /// Sets the limit of the [wait](LockOptions::wait) in [`acquire`](Lock::acquire) and [`run`](Lock::run).
    /// By default there is none; a [`Duration`] of zero is no wait.
    pub fn wait(mut self, wait: impl Into<Patience>) -> Lock {
        self.wanted.options.wait = wait.into();
        self
    }

    /// Asks for a [shared](LockOptions::mode) lock, for readers.
    pub fn shared(mut self) -> Lock {
        self.wanted.options.mode = Mode::Shared;
        self
    }

    /// Asks for a permit of a [semaphore](LockOptions::mode) that has this many.
    pub fn limit(mut self, permits: u16) -> Lock {
        self.wanted.options.mode = Mode::Limit(permits);
        self
    }

    /// Sets a [text about the holder](LockOptions::meta).
    pub fn meta(mut self, meta: impl Into<String>) -> Lock {
        self.wanted.options.meta = meta.into();
        self
    }

    /// Sets the [limit of the hold](LockOptions::max_hold).
    pub fn max_hold(mut self, max_hold: Duration) -> Lock {
        self.wanted.options.max_hold = Some(max_hold);
        self
    }

    /// Takes the lock even if its last holder [left it done](Guard::done).
    pub fn again(mut self) -> Lock {
        self.wanted.options.again = true;
        self
    }

    /// Asks for [one lease without renewal](LockOptions::renew).
    pub fn unrenewed(mut self) -> Lock {
        self.wanted.options.renew = false;
        self
    }

    /// Takes the lock even if a holder with this fence, or an earlier one, left it done.
    #[cfg(feature = "operator")]
    pub fn again_after(mut self, fence: Fence) -> Lock {
        self.wanted.again = Some(fence);
        self
    }

    /// Does not ask the nodes for the holder if another client has the lock.
    #[cfg(feature = "operator")]
    pub fn without_holder(mut self) -> Lock {
        self.wanted.names_holder = false;
        self
    }

    /// Sets a listener for the outages of this acquisition alone, also short ones. The listener of the
    /// [client](crate::ClientBuilder::notify) is called, too.
    #[cfg(feature = "operator")]
    pub fn notify(mut self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Lock {
        self.wanted.listener = Listener::new(listener);
        self
    }

    /// Acquires the lock, and waits until it is free: without limit, or as long as [`wait`](Lock::wait)
    /// says.
    ///
    /// # Errors
    /// [`Error::Held`] when the time is over; [`Error::Done`] at once. Also fails when no majority of the nodes can
    /// be used, or they refuse.
    pub async fn acquire(self) -> Result<Guard, Error> {
        self.check()?;
        driver::acquire(self.shared, self.wanted).await
    }

    /// Acquires the lock, and waits for at most `wait`.
    ///
    /// # Errors
    /// Fails as [`acquire`](Lock::acquire).
    pub async fn acquire_within(self, wait: Duration) -> Result<Guard, Error> {
        self.wait(wait).acquire().await
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// [`Error::Held`] when the lock is not free; otherwise as [`acquire`](Lock::acquire).
    pub async fn try_acquire(self) -> Result<Guard, Error> {
        self.wait(Patience::Try).acquire().await
    }

    /// Acquires the lock, does the work, and releases the lock. If the lock is lost, the future of the
    /// work is dropped.
    ///
    /// # Errors
    /// Fails as [`acquire`](Lock::acquire); and [`Error::Lost`] when the lock was lost before the
    /// work was done.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.acquire().await?;
        let result = guard.during(work(&guard)).await?;
        guard.release().await?;
        Ok(result)
    }

    /// Runs a job once per window: acquires the lock, does the work, and leaves the lock [done](Guard::done)
    /// until `window` after it was acquired, if the work succeeds. If the work fails, the lock is released,
    /// so that another client may try.
    ///
    /// # Errors
    /// Fails as [`run`](Lock::run); with [`Error::Done`] when the work of this window has been done already.
    pub async fn run_once<T, E>(
        self,
        window: Duration,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<Result<T, E>, Error> {
        self.check_once(window)?;
        let guard = self.acquire().await?;
        let result = guard.during(work(&guard)).await?;
        if result.is_ok() {
            guard.done(window, "").await?;
            guard.release().await?;
        } else {
            // The work's own error says more than a loss of the lock.
            let _ = guard.release().await;
        }
        Ok(result)
    }

    /// Checks a window for [`run_once`](Lock::run_once), which checks it, too.
    ///
    /// # Errors
    /// [`Error::Usage`] when a lock cannot be left done for this long, or this one is shared or has permits.
    pub fn check_once(&self, window: Duration) -> Result<(), Error> {
        check_window(window)?;
        check_exclusive(self.wanted.options.mode == Mode::Exclusive)
    }

    /// Checks the options. Acquiring checks them, too.
    ///
    /// # Errors
    /// [`Error::Usage`], which names the wrong option.
    pub fn check(&self) -> Result<(), Error> {
        check_key(&self.wanted.key)?;
        self.wanted.options.check(self.shared.nodes.len())
    }
}
