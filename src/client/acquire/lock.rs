//! A lock's options, and the ways to acquire it.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::limits::{MAX_META, MAX_TTL_CEILING, MAX_WAIT};
use dlock_core::words::Mode;

use crate::acquire::driver;
use crate::hold::guard::Guard;
use crate::key::Key;
use crate::report::error::{Error, RunError};
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
        let wanted = Wanted {
            key,
            ttl: DEFAULT_TTL,
            mode: Mode::Exclusive,
            ephemeral: false,
            meta: String::new(),
            max_hold: None,
            renews: true,
        };
        Lock { shared, wanted }
    }

    /// Sets the lease: if this process dies, the lock is free again after this time. While the guard lives,
    /// the client renews the lease each time a third of it has passed. The default is 30 seconds.
    pub fn ttl(mut self, ttl: Duration) -> Lock {
        self.wanted.ttl = ttl;
        self
    }

    /// Asks for a shared lock, for readers: any number of readers hold it together, and no writer beside
    /// them.
    pub fn shared(mut self) -> Lock {
        self.wanted.mode = Mode::Shared;
        self
    }

    /// Asks for a permit of a semaphore: up to `permits` clients hold it together. All of them must give the
    /// same number. A semaphore works on a single node only: over several nodes, more clients could hold it.
    pub fn limit(mut self, permits: u16) -> Lock {
        self.wanted.mode = Mode::Limit(permits);
        self
    }

    /// Ties the lock to the connection: the lock ends at once when this process dies, but also when the
    /// network fails for a moment. The guard is lost as soon as the operating system reports the end of the
    /// connection. Where a network fails silently, the node may know that earlier.
    pub fn ephemeral(mut self) -> Lock {
        self.wanted.ephemeral = true;
        self
    }

    /// Sets a text about the holder, which anybody who inspects the lock sees. The limit is 1024 bytes.
    pub fn meta(mut self, meta: impl Into<String>) -> Lock {
        self.wanted.meta = meta.into();
        self
    }

    /// Limits the time for which the lock is held: after this time it is lost, even if every renewal
    /// succeeds. Others get the lock when the guard is dropped or released, or when the last lease has ended.
    pub fn max_hold(mut self, max_hold: Duration) -> Lock {
        self.wanted.max_hold = Some(max_hold);
        self
    }

    /// Asks for one lease without renewal: the lock ends with the lease, unless its guard
    /// [extends](Guard::extend) or releases it before.
    pub fn unrenewed(mut self) -> Lock {
        self.wanted.renews = false;
        self
    }

    /// Acquires the lock, and waits without limit until it is free.
    ///
    /// # Errors
    /// Fails when no majority of the nodes can be used, or they refuse.
    pub async fn acquire(self) -> Result<Guard, Error> {
        self.check()?;
        driver::acquire(self.shared, self.wanted, Some(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for at most `wait`.
    ///
    /// # Errors
    /// [`Error::Held`] when the time is over; and as [`acquire`](Lock::acquire).
    pub async fn acquire_within(self, wait: Duration) -> Result<Guard, Error> {
        self.check()?;
        let wait = wait.min(Duration::from_millis(MAX_WAIT));
        driver::acquire(self.shared, self.wanted, (!wait.is_zero()).then_some(wait)).await
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// [`Error::Held`] when it is not; and as [`acquire`](Lock::acquire).
    pub async fn try_acquire(self) -> Result<Guard, Error> {
        self.check()?;
        driver::acquire(self.shared, self.wanted, None).await
    }

    /// Acquires the lock, does the work, and releases the lock. If the lock is lost, the future of the
    /// work is dropped.
    ///
    /// # Errors
    /// Fails as [`acquire`](Lock::acquire); and [`RunError::Lost`] when the lock was lost before the
    /// work was done.
    pub async fn run<T>(self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, RunError> {
        let guard = self.acquire().await?;
        let done = tokio::select! {
            biased;
            loss = guard.lost() => return Err(loss.into()),
            done = work(&guard) => done,
        };
        guard.release().await?;
        Ok(done)
    }

    /// Checks the options. Acquiring checks them, too.
    ///
    /// # Errors
    /// [`Error::Usage`], which names the wrong option.
    pub fn check(&self) -> Result<(), Error> {
        let Wanted { key, ttl, mode, meta, max_hold, .. } = &self.wanted;
        let several = self.shared.nodes.len() > 1;
        check_key(key)?;
        check_ttl(*ttl)?;
        if meta.len() > MAX_META {
            return usage(format!(
                "meta must be at most {MAX_META} bytes long, not {}",
                meta.len()
            ));
        }
        if max_hold.is_some_and(|max| max.is_zero()) {
            return usage("max_hold must be longer than zero".to_owned());
        }
        match mode {
            Mode::Limit(0) => usage("a semaphore (limit) needs at least one permit".to_owned()),
            Mode::Limit(_) if several => usage(
                "a semaphore (limit) works on a single node only: over several nodes, more clients \
                 could hold it than it has permits"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
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

fn wrong_ttl(ttl: Duration) -> Result<(), Error> {
    let given = if ttl == Duration::MAX { "without end".to_owned() } else { format!("{ttl:?}") };
    usage(format!("a lease (ttl) must be between 10 ms and 49 days long, not {given}"))
}

fn usage(text: String) -> Result<(), Error> {
    Err(Error::Usage(text))
}

const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// A shorter lease is over, or nearly so, when the answer arrives.
const SHORTEST_TTL: Duration = Duration::from_millis(10);
