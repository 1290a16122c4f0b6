//! All locks of one server: the rules that need more than one lock's holders to decide.
//!
//! - [`acquire`](Node::acquire): granted, denied, or queued.
//! - `release`: RELEASE, EXTEND, CHECK and BREAK.
//! - `foreign`: the same of plain strings.
//! - `serve`: hand-over: who gets a lock that has become free, and waiters that leave.
//! - `waiting`: the queues, and all who stand there.
//! - `places`: places that are kept for those who are away; `place_clock`: the clock by which they end.
//! - `final_tokens`: tokens that are done.
//! - `durability`: what the state file vouches for; quarantine.
//! - `sweep`: what time does: leases and waits that are over, and work that had to be put off;
//!   `deferred`: that work; `rechecks`: keys that are looked at again.
//! - `observed`: what an operator sees of waiting and holding.
//! - `events`: what happens to a node: keys removed under it, connections that close, roles
//!   that change, effects that arrive from a primary.
//!
//! The rule that binds them: whenever a lock could be granted to its first waiter, it has been,
//! or the work to do so is pending.

mod acquire;
mod deferred;
mod durability;
mod events;
mod final_tokens;
mod foreign;
mod observed;
mod place_clock;
mod places;
mod rechecks;
mod release;
mod serve;
mod sweep;
#[cfg(test)]
mod tests;
mod waiting;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

pub use acquire::Acquired;
use deferred::Deferred;
use final_tokens::FinalTokens;
pub use observed::Observed;
pub use waiting::Waiting;

use crate::durability::clock::Clock;
use crate::durability::durable::Durable;
use crate::settings::Settings;
use crate::words::{ClientId, Deadline, Fence, Key, KeyBuf, Millis};

/// One server's locks, but for what is held: that is in the host's keyspace.
#[derive(Debug, Default)]
pub struct Node {
    /// What an operator can change with CONFIG SET.
    pub settings: Settings,
    /// The server does not tell when a key changes, so foreign locks with waiters are polled.
    pub is_deaf: bool,
    /// The wall clock.
    pub clock: Clock,
    /// What outlives a crash, by its promise.
    pub durable: Durable,
    /// Who decides.
    role: Role,
    /// Everybody who waits.
    pub waiting: Waiting,
    /// Tokens that are done.
    final_tokens: FinalTokens,
    /// The grants that end with a connection.
    ephemeral: BTreeMap<ClientId, BTreeSet<GrantId>>,
    /// What could not be done at once.
    deferred: Deferred,
    /// What an operator sees.
    pub observed: Observed,
}

/// Who decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// This node.
    #[default]
    Leads,
    /// A replica, or a server that loads its data: somebody else decides, and this node ends
    /// nothing, grants nothing and hands nothing over.
    Follows,
    /// Somebody else decides what is carried out just now, though this node leads.
    Obeys,
}

/// By what a grant is known: a token at a key, and the connection that speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GrantId {
    key: KeyBuf,
    token: Box<[u8]>,
    client: ClientId,
}

impl Node {
    /// A lease was loaded from a stored data set, or replicated.
    pub fn heard_of(&mut self, key: Key<'_>, fence: Fence, ttl: Millis) {
        self.pass_on(key, fence);
        self.durable.leases.saw(key.name, ttl, self.settings.usual_ttl);
    }

    /// A lock with this fence has come to the key, alive or not: the next fence must be larger.
    pub fn pass_on(&mut self, key: Key<'_>, fence: Fence) {
        self.durable.counter.learn(key.name, fence, self.is_following());
    }

    /// Whether there is work that was put off.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.deferred.is_empty() && !self.is_following()
    }

    /// When there will be something to do, as far as the node itself knows. Leases are in the
    /// host's index.
    #[must_use]
    pub fn next_wake(&self) -> Option<Deadline> {
        earlier(self.waiting.next_wake(), self.durable.quarantine_wakes(self.settings.quarantine))
    }
}

/// This is asked for after each command: an iterator over the ends took half of its time.
fn earlier(one: Option<Deadline>, other: Option<Deadline>) -> Option<Deadline> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}
