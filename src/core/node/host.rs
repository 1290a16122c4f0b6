//! The traits that the server around a node implements.

use crate::durability::promise::Promise;
use crate::lock::done::{Done, Until};
use crate::lock::{Crowd, Found, Grant};
use crate::reason::Reason;
use crate::words::{Deadline, Fence, Instant, Key, KeyBuf, Mode, Owner, WaiterId};

/// The way to answer blocked requests.
pub trait Answers {
    /// Answers a blocked request.
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome);
}

/// The server's keyspace and its outputs. The node decides, and the host carries it out.
///
/// The host also keeps the deadline index, because an index entry lies beside the stored lock:
/// every `put`, `renew`, `changed` and `remove` updates it.
pub trait Host: Answers {
    /// Returns the content of the key, without ending or changing it.
    fn find(&mut self, key: Key<'_>) -> Found<'_>;
    /// Returns the end of the first lease at the key. Most commands ask for this first, so it must be very
    /// cheap.
    fn first_end(&mut self, key: Key<'_>) -> Option<Deadline>;
    /// Stores an exclusive lock at a free key.
    fn put_one(&mut self, key: Key<'_>, grant: Grant<'_>);
    /// Replaces the grant of the exclusive lock at the key.
    fn renew_one(&mut self, key: Key<'_>, grant: Grant<'_>);
    /// Stores a crowd at a free key.
    fn put_many(&mut self, key: Key<'_>, crowd: Crowd);
    /// Stores a completion record at a free key, until the server lets it expire.
    fn put_done(&mut self, key: Key<'_>, done: Done<'_>, until: Option<Until>);
    /// Returns the [units](crate::lock::done::units) of the completion records made by the user of the current
    /// request.
    fn done_by_user(&mut self) -> u64;
    /// Takes note that the node has changed the crowd lent by [`Host::find`]: its first end may have moved.
    fn changed(&mut self, key: Key<'_>);
    /// Removes the expiry that another command has given the key, so that it does not end the new or renewed
    /// lease of a holder. Most keys have no expiry, and then this must be very cheap.
    fn forget_expiry(&mut self, key: Key<'_>);
    /// Removes the key, whatever its content.
    fn remove(&mut self, key: Key<'_>);
    /// Removes the remains at a free key: a lock that ended with a RENAME, say.
    fn remove_rest(&mut self, key: Key<'_>);
    /// Removes the foreign lock or the completion record at the key, on the replicas too: [`Host::tell`] does
    /// not cover these.
    fn remove_foreign(&mut self, key: Key<'_>);
    /// Reports an effect to replicas, listeners and statistics. The node calls this after it has
    /// stored the change, in the order of the effects.
    fn tell(&mut self, key: Key<'_>, effect: Effect<'_>);
    /// Returns the memory that locks take, and the limit.
    fn memory(&mut self) -> Memory;
    /// True if the current request may block: false inside a transaction, a script or another
    /// module's call.
    fn may_block(&mut self) -> bool;
    /// Returns the user of the current request. The node asks only for requests that wait, have KEEP, or have a
    /// fence that is far ahead.
    fn owner(&mut self) -> Owner;
    /// Tells if this server would grant the key's lock to a client that asked for it now.
    fn serves(&mut self, key: Key<'_>) -> Serves;
    /// Writes the promise into the state file at once, because a grant needs it. False: the write
    /// failed.
    fn promise(&mut self, promise: &Promise) -> bool;
    /// Returns a key with an ended lease, if there is one.
    fn due(&mut self, now: Instant) -> Option<KeyBuf>;
}

/// The memory of locks, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// An estimate, more often too large than too small.
    pub used: u64,
    /// The limit.
    pub most: u64,
}

/// A server's readiness to grant a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The server would grant it.
    Yes,
    /// The server refuses writes now: it has too few replicas, say, or cannot write to its disk.
    Later,
    /// Another node of the cluster has the key.
    Moved,
}

/// A change at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// A new holder.
    Granted {
        /// The mode of the lock.
        mode: Mode,
        /// The new grant.
        grant: Grant<'a>,
        /// The time in the queue in microseconds, if the holder waited.
        waited: Option<u64>,
    },
    /// A holder asked again or extended its lease.
    Renewed {
        /// The mode of the lock.
        mode: Mode,
        /// The grant after the renewal.
        grant: Grant<'a>,
    },
    /// A holder has released the lock with DONE.
    Done {
        /// The completion record.
        done: Done<'a>,
        /// The end of the record; `None`: the server sends it apart.
        until: Option<Until>,
        /// The time held, in microseconds; zero if no holder was there.
        held: u64,
    },
    /// The leases of all holders of a crowd ran out.
    AllExpired {
        /// The number of holders.
        holders: usize,
    },
    /// A holder has lost or left the lock.
    Ended {
        /// Its token.
        token: &'a [u8],
        /// The cause.
        why: Ending,
        /// The time held, in microseconds.
        held: u64,
    },
}

/// The cause of a grant's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The holder sent RELEASE.
    Released,
    /// The lease ran out.
    Expired,
    /// An operator sent BREAK.
    Broken,
    /// The connection of an EPHEMERAL grant closed.
    Disconnected,
}

/// The end of a wait, as answered to the blocked request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The request has the lock.
    Granted(Fence),
    /// The time-out has passed, or the request was withdrawn.
    Denied,
    /// The request would get the lock if the present holders left. With the largest fence of the key.
    Turn(Fence),
    /// The key was removed.
    Removed,
    /// The same token asked again: its newest request counts.
    Replaced,
    /// This node became a replica.
    Demoted,
    /// The rules refused the grant when its turn came.
    Refused(Reason),
}
