//! All locks of one server: the rules that need more than one lock's holders to decide.
//!
//! - [`acquire`](Node::acquire): granted, denied, or queued.
//! - `release`: RELEASE, EXTEND, CHECK and BREAK.
//! - `serve`: hand-over to the next waiters, and waiters that leave before.
//! - `waiting`: the queues, and all waiters.
//! - `places`: places of waiters that are away; `place_clock`: the clock for their ends.
//! - `ephemeral`: grants that end with a connection.
//! - `final_tokens`: tokens released with FINAL.
//! - `evicted`: keys that stay shut because their locks were evicted.
//! - `durability`: the effect of the state file on grants; quarantine.
//! - `sweep`: ends leases and waits that are over, and does deferred work; `rechecks`: keys that are checked
//!   again.
//! - [`observed`]: the operator's figures of waits and holds; [`who`]: the names of holders and waiters that an
//!   operator may see.
//! - `events`: keys removed by other commands, connections that close, roles
//!   that change, effects that arrive from a primary.
//! - [`host`]: the trait that the server around a node implements.
//! - [`settings`]: the operator's settings; [`shares`]: fair shares of a limited store.
//!
//! The invariant: whenever a lock could be granted to its first waiter, it has been granted, or the work to do
//! so is pending.

mod acquire;
mod durability;
mod ephemeral;
mod events;
mod evicted;
mod final_tokens;
pub mod host;
pub mod observed;
mod place_clock;
mod places;
mod rechecks;
mod release;
mod serve;
pub mod settings;
pub mod shares;
mod sweep;
#[cfg(test)]
mod tests;
mod waiting;
pub mod who;

use alloc::collections::VecDeque;

pub use acquire::Acquired;
use ephemeral::Ephemeral;
use evicted::Evicted;
use final_tokens::FinalTokens;
pub use observed::Observed;
pub use waiting::Waiting;

use crate::durability::durable::Durable;
use crate::lock::queue::Queue;
use crate::node::host::WaitOutcome;
use crate::node::settings::Settings;
use crate::words::{Deadline, Fence, Key, Millis};

/// One server's locks without their holders, which are in the host's keyspace.
#[derive(Debug, Default)]
pub struct Node {
    /// The settings that an operator can change with CONFIG SET.
    pub settings: Settings,
    /// True if the server does not report changes of keys: then dlock polls foreign locks with waiters.
    pub is_deaf: bool,
    /// The state that survives a crash, by the promise.
    pub durable: Durable,
    /// The node's role.
    role: Role,
    /// All waiters.
    pub waiting: Waiting,
    /// Tokens released with FINAL.
    final_tokens: FinalTokens,
    /// The ends of evicted leases.
    evicted: Evicted,
    /// The grants that end with a connection.
    ephemeral: Ephemeral,
    /// The queues of removed locks, with the waiters that are not answered yet.
    dismissed: VecDeque<(Queue, WaitOutcome)>,
    /// The number of commands since the last sweep, if that has left work.
    commands: Option<usize>,
    /// The operator's figures.
    pub observed: Observed,
}

/// The role of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// This node is a primary.
    #[default]
    Leads,
    /// This node is a replica, or loads its data: it ends nothing, grants nothing and hands nothing over.
    Follows,
    /// This node is a primary, but another node has decided the effects that it carries out now.
    Obeys,
}

impl Node {
    /// Takes note of a lease that was loaded from a stored data set, or replicated.
    pub fn heard_of(&mut self, key: Key<'_>, fence: Fence, ttl: Millis) {
        self.pass_on(key, fence);
        self.durable.leases.saw(ttl);
    }

    /// Takes note of a lock with this fence at the key, held or over: the next fence must be larger.
    pub fn pass_on(&mut self, key: Key<'_>, fence: Fence) {
        self.durable.counter.learn(key.name, fence, self.is_following());
    }

    /// An estimate of the memory that the node keeps for grants, in addition to the stored locks.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.ephemeral.bytes()
    }

    /// True if there is deferred work.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        let any = self.ephemeral.any_leaving()
            || !self.dismissed.is_empty()
            || self.waiting.rechecks.any_next();
        any && !self.is_following()
    }

    /// Time of the next work in this node. The ends of leases are in the host's index.
    #[must_use]
    pub fn next_wake(&self) -> Option<Deadline> {
        earlier(self.waiting.next_wake(), self.durable.quarantine_wakes(self.settings.quarantine))
    }
}

/// The server calls this after each command: an iterator over the ends took half of its time.
fn earlier(one: Option<Deadline>, other: Option<Deadline>) -> Option<Deadline> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}
