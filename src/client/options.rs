//! The options of a lock, and the checks of what a caller gives.

use std::time::Duration;

use dlock_core::limits::{MAX_DONE_FOR, MAX_META, MAX_TTL_CEILING};
use dlock_core::words::{Instant, Mode, Patience};

use crate::key::Key;
use crate::report::error::Error;

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
    /// True takes the lock even if its last holder [left it done](crate::Guard::done). If that fails over several
    /// nodes, some may have dropped their completion records already, and another client may do the work
    /// again.
    pub again: bool,
    /// False asks for one lease without renewal: the lock ends with the lease, unless its guard
    /// [extends](crate::Guard::extend) or releases it before.
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

    /// End of a hold that begins now, if it has a limit.
    pub(crate) fn end_of_a_hold(&self, now: Instant) -> Option<Instant> {
        self.max_hold.map(|max_hold| now.later(max_hold))
    }

    /// Checks the options, for a client of this many nodes.
    pub(crate) fn check(&self, nodes: usize) -> Result<(), Error> {
        check_ttl(self.ttl)?;
        check_meta(&self.meta)?;
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

fn check_meta(meta: &str) -> Result<(), Error> {
    if meta.len() <= MAX_META {
        return Ok(());
    }
    usage(format!("meta must be at most {MAX_META} bytes long, not {}", meta.len()))
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
