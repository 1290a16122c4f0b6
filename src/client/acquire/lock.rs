//! A lock that is wanted: what it is asked for with, and how long to wait for it.

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

/// A lock that is wanted. Nothing is sent before one of the methods that wait is called.
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
        };
        Lock { shared, wanted }
    }

    /// The lease: if this process vanishes, the lock is free again after this time. While the
    /// guard lives it is renewed, each time a third of it has passed. 30 seconds by default.
    pub fn ttl(mut self, ttl: Duration) -> Lock {
        self.wanted.ttl = ttl;
        self
    }

    /// For readers: any number of them hold it together, but nobody else.
    pub fn shared(mut self) -> Lock {
        self.wanted.mode = Mode::Shared;
        self
    }

    /// A semaphore: so many hold it together. All of them must say the same number. On a single
    /// node only: over several nodes, more could hold it.
    pub fn limit(mut self, permits: u16) -> Lock {
        self.wanted.mode = Mode::Limit(permits);
        self
    }

    /// The lock ends when the connection does: at once when this process vanishes, but also when
    /// the network hiccups. The guard is lost then as soon as the system knows that the connection
    /// is; where a network fails in silence, that may be later than the node noticed.
    pub fn ephemeral(mut self) -> Lock {
        self.wanted.ephemeral = true;
        self
    }

    /// Shown to whoever asks who holds the lock. At most 1024 bytes.
    pub fn meta(mut self, meta: impl Into<String>) -> Lock {
        self.wanted.meta = meta.into();
        self
    }

    /// The lock is lost after this time, however well it is renewed. Others get it when the guard is
    /// dropped or released, or when the last lease has ended.
    pub fn max_hold(mut self, max_hold: Duration) -> Lock {
        self.wanted.max_hold = Some(max_hold);
        self
    }

    /// Acquires the lock, and waits for it without limit.
    ///
    /// # Errors
    /// When no majority of the nodes can be used, or they refuse.
    pub async fn acquire(self) -> Result<Guard, Error> {
        self.check()?;
        driver::acquire(self.shared, self.wanted, Some(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for it for at most `wait`.
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

    /// Acquires the lock, does the work and releases. If the lock is lost, the work is dropped
    /// where it stands.
    ///
    /// # Errors
    /// As [`acquire`](Lock::acquire); and [`RunError::Lost`] when the lock was lost before the
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

    fn check(&self) -> Result<(), Error> {
        let Wanted { key, ttl, mode, meta, max_hold, .. } = &self.wanted;
        let several = self.shared.nodes.len() > 1;
        check_key(key)?;
        check_ttl(*ttl)?;
        if meta.len() > MAX_META {
            return usage(format!("meta may have {MAX_META} bytes, not {}", meta.len()));
        }
        if max_hold.is_some_and(|max| max.is_zero()) {
            return usage("the longest hold must be more than nothing".to_owned());
        }
        match mode {
            Mode::Limit(0) => usage("a semaphore has at least one permit".to_owned()),
            Mode::Limit(_) if several => usage(
                "a semaphore works on a single node only: over several nodes, permits would not \
                 add up"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

pub(crate) fn check_key(key: &Key) -> Result<(), Error> {
    if key.as_bytes().is_empty() {
        usage("a lock needs a name; the key is empty".to_owned())
    } else {
        Ok(())
    }
}

pub(crate) fn check_ttl(ttl: Duration) -> Result<(), Error> {
    let most = Duration::from_millis(MAX_TTL_CEILING);
    if (SHORTEST_TTL..=most).contains(&ttl) {
        return Ok(());
    }
    usage(format!("a lease must be from 10 ms to 49 days long, not {ttl:?}"))
}

fn usage(text: String) -> Result<(), Error> {
    Err(Error::Usage(text))
}

const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// Shorter ones are over, or nearly, when the answer comes.
const SHORTEST_TTL: Duration = Duration::from_millis(10);
