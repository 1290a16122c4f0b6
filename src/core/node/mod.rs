//! All locks of one server: the rules that need more than one lock's holders to decide.
//!
//! - [`acquire`](Node::acquire): granted, denied, or queued.
//! - `release`: RELEASE, EXTEND, CHECK and BREAK.
//! - `serve`: hand-over: who gets a lock that has become free, and waiters that leave.
//! - `places`: places that are kept for those who are away; `pace`: the clock by which they end.
//! - `finals`: tokens that are done.
//! - `promise`: what the state file vouches for; quarantine.
//! - `sweep`: what time does: leases and waits that are over, and work that had to be put off;
//!   `put_off`: that work.
//! - `seen`: what an operator sees of waiting and holding.
//! - `outside`: what happens to a node: keys removed under it, connections that close, roles
//!   that change, effects that arrive from a primary.
//!
//! The rule that binds them: whenever a lock could be granted to its first waiter, it has been,
//! or the work to do so is pending.

mod acquire;
mod finals;
mod outside;
mod pace;
mod places;
mod promise;
mod put_off;
mod release;
mod seen;
mod serve;
mod sweep;
#[cfg(test)]
mod tests;
mod watched;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

pub use acquire::Acquired;
use finals::Finals;
use places::Places;
use put_off::PutOff;
use watched::Watched;

use crate::bound::Bound;
use crate::bounds::Bounds;
use crate::clock::Clock;
use crate::fence::{Counter, Slot};
use crate::quarantine::Quarantine;
use crate::queue::Queue;
use crate::seen::{Hot, Slow};
use crate::settings::Settings;
use crate::words::{ClientId, Deadline, Fence, Key, KeyBuf, Millis, WaiterId};

/// One server's locks, but for what is held: that is in the host's keyspace.
#[derive(Debug, Default)]
pub struct Node {
    /// What an operator can change with CONFIG SET.
    pub settings: Settings,
    /// The server does not tell when a key changes, so foreign locks with waiters are polled.
    pub is_deaf: bool,
    /// What fences go by.
    pub clock: Clock,
    counter: Counter,
    bound: Bound,
    /// Nothing is granted until it is over, and at some keys for longer.
    quarantine: Option<Quarantine>,
    /// What the primary has promised: its successor starts above.
    inherited: Fence,
    /// The Unix time there when it promised.
    inherited_unix: u64,
    /// How long any lease of the primary can run.
    inherited_bounds: Inherited,
    /// The state file claims more than is true, and must be written before anything is granted.
    in_doubt: bool,
    /// Locks whose first waiter waits for the state file, too.
    unvouched: BTreeSet<KeyBuf>,
    /// A replica, or a server that loads its data: somebody else decides, and this node ends
    /// nothing, grants nothing and hands nothing over.
    following: bool,
    /// Somebody else decides what is carried out just now, though this node leads.
    obeys: bool,
    /// The queues, by database and key. None is empty.
    queues: BTreeMap<u32, Queues>,
    /// Where each waiter stands, those who are away included.
    waiting: BTreeMap<WaiterId, Seat>,
    /// When waiters give up.
    waits: BTreeSet<(Deadline, WaiterId)>,
    /// What is kept for those who are away.
    places: Places,
    /// Tokens that are done.
    finals: Finals,
    /// Waiters that were granted the lock and have not been told yet, and for how long their
    /// places would have been kept.
    granted: BTreeMap<WaiterId, (Place, Option<Millis>)>,
    /// Foreign locks with waiters, by when their strings expire.
    watched: Watched,
    /// The grants that end with a connection.
    ephemeral: BTreeMap<ClientId, BTreeSet<Place>>,
    /// What could not be done at once.
    put_off: PutOff,
    next_waiter: u64,
    /// The keys that hurt most.
    hot: Hot,
    /// The last slow waits and long holds.
    slow: Slow,
    /// The queue that was charged last.
    charged: Option<Arc<KeyBuf>>,
}

/// What a replica knows of how long any lease of its primary can run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Inherited {
    /// It has nothing of its primary yet but what it was sent lease by lease.
    #[default]
    Nothing,
    /// It has its primary's data set, and no word of what may be missing in it.
    DataSet,
    /// The primary has told.
    Told(Bounds),
}

/// The queues of a database, by key.
type Queues = BTreeMap<Box<[u8]>, Queue>;

/// Where a waiter stands. There may be very many: so the key is shared with the queue, and the token
/// with the waiter.
#[derive(Clone, Debug)]
struct Seat {
    key: Arc<KeyBuf>,
    token: Arc<[u8]>,
}

impl Seat {
    fn key(&self) -> Key<'_> {
        self.key.as_key()
    }
}

/// A token at a key, and the connection that speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: KeyBuf,
    token: Box<[u8]>,
    client: ClientId,
}

impl Node {
    /// The largest fence handed out or heard of.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.counter.last()
    }

    /// A lease was loaded from a stored data set, or replicated.
    pub fn heard_of(&mut self, key: Key<'_>, fence: Fence, ttl: Millis) {
        self.pass_on(key, fence);
        self.bound.saw(key.name, ttl, self.settings.usual_ttl);
    }

    /// A lock with this fence has come to the key, alive or not: the next fence must be larger.
    pub fn pass_on(&mut self, key: Key<'_>, fence: Fence) {
        self.counter.raise(Slot::of(key.name), fence);
    }

    /// Whether a fence from outside is so far ahead that no node with a clock like this one's can
    /// have handed it out.
    #[must_use]
    pub fn is_too_far(&self, fence: Fence, unix: u64) -> bool {
        fence > self.counter.farthest(unix)
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.waiting.len() - self.places.len()
    }

    /// Whether there is work that was put off.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.put_off.is_empty() && !self.following
    }

    /// Who waits at the key.
    #[must_use]
    pub fn queue(&self, key: Key<'_>) -> Option<&Queue> {
        // Most servers have no waiter most of the time.
        if self.queues.is_empty() {
            return None;
        }
        self.queues.get(&key.db).and_then(|names| names.get(key.name))
    }

    /// When there will be something to do, as far as the node itself knows. Leases are in the
    /// host's index.
    #[must_use]
    pub fn next_wake(&self) -> Option<Deadline> {
        let wait = self.waits.first().map(|(end, _)| *end);
        let quarantine = self.quarantine_wakes();
        let queue = earlier(wait, self.places.next_end());
        earlier(queue, earlier(quarantine, self.watched.first()))
    }
}

/// This is asked for after each command: an iterator over the ends took half of its time.
fn earlier(one: Option<Deadline>, other: Option<Deadline>) -> Option<Deadline> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}
