//! What a node needs from the server around it.

use crate::durability::promise::Promise;
use crate::lock::{Crowd, Found, Grant, Renewal};
use crate::words::{Deadline, Fence, Instant, Key, KeyBuf, Millis, Mode, Owner, WaiterId};

/// Where blocked requests get their answers.
pub trait Answers {
    /// A blocked request is answered.
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome);
}

/// The server's keyspace, and its ways out. The node decides; the host carries out.
///
/// The host keeps the deadline index too, because an index entry lies beside the stored lock:
/// every `put`, `renew`, `changed` and `remove` keeps it true.
pub trait Host: Answers {
    /// What is at the key. Ends nothing, changes nothing.
    fn find(&mut self, key: Key<'_>) -> Found<'_>;
    /// When the first lease at the key ends. What most commands need to know first, so it must
    /// cost next to nothing.
    fn first_end(&mut self, key: Key<'_>) -> Option<Deadline>;
    /// Stores an exclusive lock where nothing is.
    fn put_one(&mut self, key: Key<'_>, grant: Grant<'_>);
    /// Changes the exclusive lock that is there.
    fn renew_one(&mut self, key: Key<'_>, renewal: Renewal<'_>);
    /// Stores a crowd where nothing is.
    fn put_many(&mut self, key: Key<'_>, crowd: Crowd);
    /// The crowd that [`Host::find`] lent has been changed: its first end may be another.
    fn changed(&mut self, key: Key<'_>);
    /// A holder of the lock that is there has a lease from now on, or a longer one: an expiry that
    /// somebody else has given the key does not end it. Most keys have none, and then this must
    /// cost next to nothing.
    fn forget_expiry(&mut self, key: Key<'_>);
    /// Removes whatever is there.
    fn remove(&mut self, key: Key<'_>);
    /// Removes what may be left at a free key: a lock whose lease a RENAME has ended, say.
    fn remove_rest(&mut self, key: Key<'_>);
    /// Whether the foreign lock that is there has this value.
    fn foreign_is(&mut self, key: Key<'_>, value: &[u8]) -> bool;
    /// Removes the foreign lock that is there, and lets the replicas know: no effect
    /// that is told speaks of plain strings.
    fn remove_foreign(&mut self, key: Key<'_>);
    /// Lets the foreign lock that is there expire in `ttl`, likewise.
    fn expire_foreign(&mut self, key: Key<'_>, ttl: Millis);
    /// Lets it expire at this Unix time in milliseconds, as was decided elsewhere.
    fn expire_foreign_at(&mut self, key: Key<'_>, unix_ms: u64);
    /// Something has happened that replicas, listeners and statistics must learn. Called after
    /// the change is stored, in the order in which things happen.
    fn tell(&mut self, key: Key<'_>, effect: Effect<'_>);
    /// How much memory locks take, those that are no keys any more included, and how much they may.
    fn memory(&mut self) -> Memory;
    /// Whether the request that is being carried out may block: not inside a transaction, a
    /// script or another module's call.
    fn may_block(&mut self) -> bool;
    /// Who sends the request that is being carried out. Asked of few: of those that wait, and of those
    /// with KEEP and with long leases.
    fn owner(&mut self) -> Owner;
    /// Whether this server would grant the key's lock to a client that asked for it now.
    fn serves(&mut self, key: Key<'_>) -> Serves;
    /// Writes the promise into the state file now, for a grant waits for it. False: that cannot be
    /// done.
    fn promise(&mut self, promise: &Promise) -> bool;
    /// A key with a lease that is over by now, if there is one.
    fn due(&mut self, now: Instant) -> Option<KeyBuf>;
}

/// What locks take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// By an estimate: rather too much than too little.
    pub used: u64,
    /// What they may take at most.
    pub most: u64,
}

/// Whether a server would grant a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// It would.
    Yes,
    /// It refuses writes just now: it has too few replicas, say, or cannot write to its disk.
    Later,
    /// The key is another node's.
    Moved,
}

/// What has happened at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// A new holder.
    Granted {
        /// How it holds.
        mode: Mode,
        /// What it holds.
        grant: Grant<'a>,
        /// For how many microseconds it waited in the queue, if it did.
        waited: Option<u64>,
    },
    /// A holder asked again: same fence, and perhaps a longer lease.
    Renewed {
        /// How it holds.
        mode: Mode,
        /// What it holds from now on.
        grant: Grant<'a>,
    },
    /// A holder extended its lease.
    Extended {
        /// Its token.
        token: &'a [u8],
        /// The new length.
        ttl: Millis,
        /// Its fence from now on, if the extension set it.
        fence: Option<Fence>,
        /// A lease that ends later anyway is as long as it was.
        gt: bool,
    },
    /// All holders of a crowd hold no more: all their leases had run out.
    AllExpired {
        /// How many they were.
        holders: usize,
    },
    /// A holder holds no more.
    Ended {
        /// Its token.
        token: &'a [u8],
        /// Why.
        why: Ending,
        /// For how many microseconds it held.
        held: u64,
    },
}

/// Why a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// RELEASE.
    Released,
    /// The lease ran out.
    Expired,
    /// BREAK.
    Broken,
    /// EPHEMERAL, and the connection closed.
    Disconnected,
    /// Granted to a waiter that was gone by then.
    Undelivered,
}

/// How a wait ends: what a blocked request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// It holds the lock.
    Granted(Fence),
    /// Its time is over, or it was withdrawn.
    Denied,
    /// It would be granted if the present holders left. The largest fence of the key.
    Turn(Fence),
    /// The key was removed under it.
    Removed,
    /// Its token asked again on another connection.
    Replaced,
    /// This node became a replica.
    Demoted,
    /// The fences are used up.
    Exhausted,
    /// Its fence is ahead of the clock, and one such key too many.
    TooManyAhead {
        /// The fence that it would have got.
        given: u64,
        /// The largest that would have been accepted.
        most: u64,
    },
    /// Its lease is longer than this, and one such lease too many.
    TooManyLong {
        /// In ms.
        usual: u64,
    },
}
