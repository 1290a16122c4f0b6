//! The vocabulary: small types for things that must not be mixed up.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

/// The number of a grant. Fences only grow; a guarded resource rejects one smaller than its mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// A length of time in milliseconds, the unit of every length that a client sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

/// A point on the host's monotonic clock, in microseconds. An instant is valid only on this machine and until
/// the server restarts, so dlock never stores or sends one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Microseconds since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `length` later.
    #[must_use]
    pub fn plus(self, length: Millis) -> Instant {
        Instant(self.0.saturating_add(length.0.saturating_mul(1000)))
    }

    /// The instant this long after it.
    #[must_use]
    pub fn later(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// The end of a lease or of a wait: a point on the monotonic clock, in whole milliseconds,
/// rounded up. A lease or a wait may end a fraction of a millisecond late, never early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub u64);

impl Deadline {
    /// The deadline `length` from `now`.
    #[must_use]
    pub fn after(now: Instant, length: Millis) -> Deadline {
        Deadline(now.0.div_ceil(1000).saturating_add(length.0))
    }

    /// True if the deadline has passed.
    #[must_use]
    pub fn is_over(self, now: Instant) -> bool {
        now.0 >= self.0.saturating_mul(1000)
    }

    /// Time left, rounded down, so that it is never more than the length asked for; 0 only
    /// once the deadline has passed.
    #[must_use]
    pub fn left(self, now: Instant) -> Millis {
        let micros = self.0.saturating_mul(1000).saturating_sub(now.0);
        Millis(if micros == 0 { 0 } else { (micros / 1000).max(1) })
    }
}

/// The length, the beginning and the end of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The length last asked for. dlock stores and replicates this length, not the end.
    pub ttl: Millis,
    /// The end, on this server's clock.
    pub end: Deadline,
    /// The beginning of the grant, on this server's clock.
    pub since: Instant,
}

impl Lease {
    /// A lease that begins now.
    #[must_use]
    pub fn begin(now: Instant, ttl: Millis) -> Lease {
        Lease { ttl, end: Deadline::after(now, ttl), since: now }
    }

    /// The same lease, ending `ttl` from now, or at its present end if that is later.
    #[must_use]
    pub fn extended_to(self, now: Instant, ttl: Millis) -> Lease {
        let renewed = Lease { since: self.since, ..Lease::begin(now, ttl) };
        if renewed.end >= self.end { renewed } else { self }
    }
}

/// The limit of a client's wait for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Patience {
    /// No wait: the lock is free now, or is not acquired.
    Try,
    /// A wait of this length at most.
    Within(Duration),
    /// A wait without limit.
    #[default]
    Forever,
}

impl Patience {
    /// True if there is a wait at all.
    #[must_use]
    pub fn waits(self) -> bool {
        !matches!(self, Patience::Try | Patience::Within(Duration::ZERO))
    }
}

/// Zero is no wait, and the longest duration is no limit.
impl From<Duration> for Patience {
    fn from(limit: Duration) -> Patience {
        match limit {
            Duration::ZERO => Patience::Try,
            Duration::MAX => Patience::Forever,
            limit => Patience::Within(limit),
        }
    }
}

/// The mode of a lock, held or requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of readers.
    Shared,
    /// A semaphore of this many permits.
    Limit(u16),
}

impl Mode {
    /// True if both are exclusive, shared, or semaphores, whatever their permits.
    #[must_use]
    pub fn is_like(self, other: Mode) -> bool {
        core::mem::discriminant(&self) == core::mem::discriminant(&other)
    }

    /// The mode's name in the reply of INSPECT.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
            Mode::Limit(_) => "limit",
        }
    }

    /// The largest number of holders at one time.
    #[must_use]
    pub fn room(self) -> usize {
        match self {
            Mode::Exclusive => 1,
            Mode::Shared => crate::limits::MAX_HOLDERS,
            Mode::Limit(n) => usize::from(n),
        }
    }

    /// The permits of a semaphore; 0 in other modes.
    #[must_use]
    pub fn permits(self) -> u16 {
        match self {
            Mode::Limit(n) => n,
            _ => 0,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Exclusive => f.write_str("exclusively"),
            Mode::Shared => f.write_str("SHARED"),
            Mode::Limit(n) => write!(f, "LIMIT {n}"),
        }
    }
}

/// A connection to this server. Local to it: never stored, never replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

impl ClientId {
    /// No connection of this server: the grant was loaded or replicated, or made by a script.
    pub const UNKNOWN: ClientId = ClientId(0);
    /// No connection yet: the token got the lock while it was away or asked with TURN. The client has not asked
    /// since, and may not have received the grant.
    pub const AWAY: ClientId = ClientId(u64::MAX);
}

/// The user that a limit is counted for: a number of its name, the same on every server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u64);

impl Owner {
    /// The user with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> Owner {
        Owner(xxh3_64(name))
    }
}

/// One blocked request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

/// The name of a lock: a key in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'a> {
    /// The database's number.
    pub db: u32,
    /// The key.
    pub name: &'a [u8],
}

impl Key<'_> {
    /// A copy to keep.
    #[must_use]
    pub fn to_owned(self) -> KeyBuf {
        KeyBuf { db: self.db, name: self.name.into() }
    }
}

/// A [`Key`] that owns its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyBuf {
    /// The database's number.
    pub db: u32,
    /// The key.
    pub name: Box<[u8]>,
}

impl KeyBuf {
    /// The key, borrowed.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key { db: self.db, name: &self.name }
    }
}

/// The current time on both clocks. The wall clock is only ever a floor for fences.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// The monotonic clock: leases and waits.
    pub now: Instant,
    /// Unix time in microseconds: fences.
    pub unix: u64,
}
