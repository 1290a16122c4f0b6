//! The quorum: one lock over several nodes that know nothing of each other.
//!
//! Sans-IO: what time it is and what a node answered come in, requests to nodes go out. The
//! caller sends them, and makes a fresh token for each attempt. In reading order:
//!
//! - [`rules`]: what makes a claim stand, and for how long; pure formulas.
//! - `vote`: what one node has said. [`ballot`]: what all have, and what they are asked next.
//! - [`plan`]: what is wanted, and what comes of it.
//! - [`acquisition`]: attempts and back-off, until the lock is held or the time is over.
//! - [`waiting`]: how contenders wait, and how a lock goes from one to the next in one round trip.
//! - `phase`: how far an acquisition is; `gate`: where contenders queue; `gathering`: what the next in line
//!   does, and `gathered`: what it has so far; `tie`: who goes on if each of two has what the other lacks.
//! - [`hold`]: a lock that is held: renewed, repaired, and lost the moment its validity ends; `length`:
//!   of its lease.
//! - [`roster`]: which node is behind which address.
//!
//! N = 1 is no special case: a majority of one.

pub mod acquisition;
pub mod ballot;
mod gate;
mod gathered;
mod gathering;
pub mod hold;
mod length;
mod phase;
pub mod plan;
pub mod roster;
pub mod rules;
#[cfg(test)]
mod tests;
mod tie;
mod vote;
pub mod waiting;

pub use acquisition::Acquisition;
pub use hold::{Hold, LossReason, State};
pub use plan::{Failure, Plan, Verdict};
pub use roster::{Met, Occupant, Roster};
pub use rules::{Rules, Sound};
pub use waiting::Wait;

use crate::words::{Fence, Instant, Millis};

/// What one node is to be asked.
///
/// Requests to one node in one attempt arrive in the order in which they were sent, but for those that
/// are blocked there, which have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Send {
    /// The node's place in the given order.
    pub node: usize,
    /// Which attempt: each has a token of its own.
    pub attempt: u32,
    /// The answer says which request it belongs to.
    pub id: u32,
    /// The request.
    pub ask: Ask,
    /// The lease that it asks for.
    pub ttl: Millis,
}

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// ACQUIRE, with FENCE if it is there; and how it waits, if it does. One that is blocked goes over
    /// a connection of its own.
    Acquire {
        /// The proposal.
        fence: Option<Fence>,
        /// What becomes of it if somebody else holds.
        wait: Option<Wait>,
    },
    /// EXTEND … GT by the lease, with FENCE if it is there: however late it arrives, it makes no lease
    /// shorter.
    Extend {
        /// The fence of the claim.
        fence: Option<Fence>,
    },
    /// RELEASE. Nobody waits for its answer.
    Release {
        /// With FINAL: a request that was blocked has no answer yet. It goes over a connection of its
        /// own, and may arrive later than this.
        is_final: bool,
    },
    /// RELEASE, by a token that goes on. It is sent once: until it is answered, the token asks for nothing
    /// at this node.
    GiveBack,
    /// Whether the node answers, and is not in quarantine: there a request that is blocked stays so.
    Ping,
}

impl Ask {
    /// ACQUIRE by a token that most likely holds: whatever fence is next, if it does not. One of several nodes
    /// is never asked without a proposal where its clock could be ahead: it would count from there.
    #[must_use]
    pub fn again(nodes: usize) -> Ask {
        Ask::Acquire { fence: (nodes > 1).then_some(Fence(1)), wait: None }
    }

    /// Whether it is blocked at the node, while somebody else holds.
    #[must_use]
    pub fn blocks(self) -> bool {
        self.wait().is_some_and(|wait| wait.blocks.is_some())
    }

    /// Whether a place is left at the node, when it ends without the lock.
    #[must_use]
    pub fn keeps(self) -> bool {
        self.wait().is_some_and(|wait| wait.keep.is_some())
    }

    fn wait(self) -> Option<Wait> {
        match self {
            Ask::Acquire { wait, .. } => wait,
            _ => None,
        }
    }
}

/// What a node answered, or that it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// ACQUIRE: the fence.
    Granted(Fence),
    /// ACQUIRE: null. Somebody holds it, or waits for it.
    Denied,
    /// ACQUIRE … TURN: it is the next in line. The largest fence of the key so far.
    Turn(Fence),
    /// EXTEND: 1.
    Extended,
    /// EXTEND: 0. The token does not hold, or has a larger fence.
    Gone,
    /// RELEASE or a ping: it answered.
    Done,
    /// The proposal is too far ahead for this node.
    TooFar,
    /// An error after which it makes sense to ask again later.
    Refused(Obstacle),
    /// No answer within the time-out. One that comes later may still be reported.
    Silent,
    /// No connection, or it broke. The request may have arrived.
    Unreachable,
}

/// Why a node refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// It is in quarantine.
    Quarantine,
    /// It cannot just now: out of memory, loading, too many waiters, its state file, or a waiter
    /// that was unblocked.
    Busy,
    /// It grants, but an earlier request of the same token may yet arrive over a connection that has ended, and
    /// tie an EPHEMERAL lock to that one. Another token has no such request.
    Untied,
    /// It never will: a wrong type, no permission, a bad argument, a replica.
    Never,
}

/// A lock that is held, as the majority vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The fence.
    pub fence: Fence,
    /// The holder may rely on it before this moment, and not from then on.
    pub until: Instant,
}
