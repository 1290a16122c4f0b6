//! A lock's options, and the ways to acquire it.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::limits::{MAX_DONE_FOR, MAX_META, MAX_TTL_CEILING};
#[cfg(feature = "operator")]
use dlock_core::words::Fence;
use dlock_core::words::{Mode, Patience};

use crate::acquire::driver;
use crate::hold::guard::Guard;
use crate::key::Key;
use crate::report::error::{Error, RunError};
use crate::report::notice::Listener;
#[cfg(feature = "operator")]
use crate::report::notice::Notice;
use crate::shared::Shared;
use crate::traffic::request::Wanted;

/// The options of a lock, in the library and in everything that is built on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOptions {
    /// The lease: if this process crashes, the lock is free again after this time. While the guard exists,
    /// the client renews the lease each time a third of it has passed.
    pub ttl: Duration,
    /// Limit of the wait for the lock.
    pub wait: Patience,
    /// Exclusive; shared, for readers: any number of readers hold the lock together, without a writer; or one of
    /// so many permits of a semaphore. A semaphore works on a single node only: over several nodes, more clients
    /// could hold it.
    pub mode: Mode,
    /// A text about the holder, shown by every inspection of the lock: at most 1024 bytes.
    pub meta: String,
    /// Limit of the hold: after this time the lock is lost, even if every renewal succeeds. The next
    /// holder gets the lock when the guard is dropped or released, or when the last lease has ended.
    pub max_hold: Option<Duration>,
    /// True takes the lock even if its last holder [left it done](Guard::done). If that fails over several
    /// nodes, some may have dropped their completion records already, and another client may do the work
    /// again.
    pub again: bool,
    /// False asks for one lease without renewal: the lock ends with the lease, unless its guard
    /// [extends](Guard::extend) or releases it before.
    pub renew: bool,
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        LockOptions {
            ttl: LockOptions::DEFAULT_TTL,
            wait: Patience::Forever,
            mode: Mode::Exclusive,
            meta: String::new(),
            max_hold: None,
            again: false,
            renew: true,
        }
    }
}

impl LockOptions {
    /// The default lease.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

    /// Checks the options, for a client of this many nodes.
    fn check(&self, nodes: usize) -> Result<(), Error> {
        check_ttl(self.ttl)?;
        check_meta("meta", self.meta.as_bytes())?;
        if self.max_hold.is_some_and(|max| max.is_zero()) {
            return usage("max_hold must be longer than zero".to_owned());
        }
        match self.mode {
            Mode::Limit(0) => usage("a semaphore (limit) needs at least one permit".to_owned()),
            Mode::Limit(_) if nodes > 1 => usage(
                "a semaphore (limit) works on a single node only: over several nodes, more clients \
                 could hold it than it has permits"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

/// A lock and its options. Nothing is sent until one of the methods that acquire it is called.
#[must_use = "a lock is not held before it is acquired"]
#[derive(Clone)]
pub struct Lock {
    pub(super) shared: Arc<Shared>,
    pub(super) wanted: Wanted,
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

    /// Does not ask the nodes for the holder if the acquisition fails.
    #[cfg(feature = "operator")]
    pub fn without_holder(mut self) -> Lock {
        self.wanted.names_holder = false;
        self
    }

    /// Sets a listener for the outages of this acquisition alone. The listener of the
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
        driver::acquire(self).await
    }

    /// Acquires the lock, and waits for at most `wait`.
    ///
    /// # Errors
    /// Fails as [`acquire`](Lock::acquire).
    pub async fn acquire_within(self, wait: Duration) -> Result<Guard, Error> {
        driver::acquire(self.wait(wait)).await
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// [`Error::Held`] when the lock is not free; otherwise as [`acquire`](Lock::acquire).
    pub async fn try_acquire(self) -> Result<Guard, Error> {
        driver::acquire(self.wait(Patience::Try)).await
    }

    /// Acquires the lock, does the work, and releases the lock. If the lock is lost, the future of the
    /// work is dropped.
    ///
    /// # Errors
    /// Fails as [`acquire`](Lock::acquire); and [`RunError::Lost`] when the lock was lost before the
    /// work was done.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, RunError> {
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
    ) -> Result<Result<T, E>, RunError> {
        self.check_once(window)?;
        let guard = self.acquire().await?;
        let result = guard.during(work(&guard)).await?;
        if result.is_ok() {
            guard.done(window, "").await?;
        }
        guard.release().await?;
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

pub(crate) fn check_key(key: &Key) -> Result<(), Error> {
    if key.as_bytes().is_empty() {
        usage("the key is empty; a lock needs a name".to_owned())
    } else {
        Ok(())
    }
}

pub(crate) fn check_ttl(ttl: Duration) -> Result<(), Error> {
    if ttl < SHORTEST_TTL { wrong_ttl(ttl) } else { check_longest(ttl) }
}

/// Fails if no node could grant a lease of this length.
pub(crate) fn check_longest(ttl: Duration) -> Result<(), Error> {
    if ttl > Duration::from_millis(MAX_TTL_CEILING) { wrong_ttl(ttl) } else { Ok(()) }
}

/// Fails if a lock cannot be done for this long.
pub(crate) fn check_window(window: Duration) -> Result<(), Error> {
    if (Duration::from_millis(1)..=LONGEST_WINDOW).contains(&window) {
        return Ok(());
    }
    usage(format!("a lock is done for at least 1 ms and at most 400 days, not {window:?}"))
}

/// Fails if a lock of this kind cannot be left done.
pub(crate) fn check_exclusive(is_exclusive: bool) -> Result<(), Error> {
    if is_exclusive {
        return Ok(());
    }
    usage("only an exclusive lock can be left done".to_owned())
}

pub(crate) fn check_meta(what: &str, meta: &[u8]) -> Result<(), Error> {
    if meta.len() <= MAX_META {
        return Ok(());
    }
    usage(format!("{what} must be at most {MAX_META} bytes long, not {}", meta.len()))
}

fn wrong_ttl(ttl: Duration) -> Result<(), Error> {
    usage(format!("a lease (ttl) must be between 10 ms and 49 days long, not {}", given(ttl)))
}

/// The words for a length of time that is refused.
pub(crate) fn given(length: Duration) -> String {
    if length == Duration::MAX { "without end".to_owned() } else { format!("{length:?}") }
}

fn usage(text: String) -> Result<(), Error> {
    Err(Error::Usage(text))
}

/// A shorter lease would end about when the answer arrives.
const SHORTEST_TTL: Duration = Duration::from_millis(10);
const LONGEST_WINDOW: Duration = Duration::from_millis(MAX_DONE_FOR);
