//! The quorum: one lock over several independent nodes.
//!
//! Sans-IO: the time and the nodes' answers come in, requests to nodes go out. The caller sends them, and makes
//! a fresh token for each attempt. In reading order:
//!
//! - [`rules`]: the conditions of a claim, and its validity; pure formulas.
//! - [`ballot`]: the answers of all nodes, and the next requests. `ballot::vote`: one node's answers.
//!   `ballot::lengths`: the length of the lease.
//! - [`plan`]: the parameters of an acquisition, and its outcome.
//! - [`acquisition`]: attempts, until the lock is held or the time is over. Its phases: `first_attempt`; `gate`,
//!   the queue of contenders; `gathering`, the requests and grants of the next in line. `done`: completion records of
//!   the nodes. [`waiting`](acquisition::waiting): slices, turns, and the hand-over in one round trip.
//! - [`hold`]: a held lock: renewed, repaired, and lost the moment its validity ends.
//! - [`last_word`]: the last RELEASE of a token at a node.
//! - [`roster`]: the node behind each address.
//!
//! N = 1 is not a special case: a majority of one.

pub mod acquisition;
pub mod ballot;
pub mod hold;
pub mod last_word;
pub mod plan;
pub mod roster;
pub mod rules;
#[cfg(test)]
mod tests;

pub use acquisition::Acquisition;
pub use acquisition::waiting::Wait;
pub use hold::{Hold, LossReason, State};
pub use last_word::{LastWord, Requests};
pub use plan::{Failure, LONGEST_TIMEOUT, Plan, Verdict, node_timeout};
pub use roster::{Met, Occupant, Roster};
pub use rules::{Rules, Sound};

use crate::words::{Fence, Instant, Millis};

/// A request to one node, with its addressee.
///
/// Requests to one node in one attempt arrive in the order of sending. Blocked requests are an exception: each
/// has its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Send {
    /// The node's index. All clients have the nodes in the same order.
    pub node: usize,
    /// The number of the attempt: each has a token of its own.
    pub attempt: u32,
    /// The id that the answer repeats.
    pub id: u32,
    /// The request.
    pub ask: Ask,
    /// The length of the lease asked for.
    pub ttl: Millis,
    /// AGAIN of an ACQUIRE: the node grants over a completion record up to this fence.
    pub again: Option<Fence>,
}

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// ACQUIRE, with FENCE and WAIT if they are set. A blocked request goes over
    /// a connection of its own.
    Acquire {
        /// The proposal.
        fence: Option<Fence>,
        /// The terms of the wait, if another client holds the lock.
        wait: Option<Wait>,
    },
    /// EXTEND … FENCE by the lease: even when late, it makes no lease shorter, and no later grant longer.
    Extend {
        /// The fence of the claim, or of the grant.
        fence: Fence,
    },
    /// RELEASE … DONE FENCE: leaves a completion record. A node that already has the token's record confirms
    /// again.
    Finish {
        /// The time for which the lock is done.
        length: Millis,
        /// The fence of the claim.
        fence: Fence,
    },
    /// RELEASE, the token's last word at this node, in the form that [`Requests::end`] returns. No event
    /// depends on its answer.
    Release,
    /// A ping, answered unless the node is silent or in quarantine. A blocked request gets no answer in either
    /// case.
    Ping,
}

impl Ask {
    /// ACQUIRE by a token that most likely holds the lock. With several nodes it always has a proposal:
    /// otherwise a node would use its own clock, which may be ahead.
    #[must_use]
    pub fn again(nodes: usize) -> Ask {
        Ask::Acquire { fence: (nodes > 1).then_some(Fence(1)), wait: None }
    }

    /// True if the node may block the request while another token holds the lock.
    #[must_use]
    pub fn blocks(self) -> bool {
        self.wait().is_some_and(|wait| wait.blocks.is_some())
    }

    /// True if the request leaves a place at the node when it ends without the lock.
    #[must_use]
    pub fn keeps(self) -> bool {
        self.wait().is_some_and(|wait| wait.keep.is_some())
    }

    /// True if the request leaves a completion record.
    #[must_use]
    pub fn finishes(self) -> bool {
        matches!(self, Ask::Finish { .. })
    }

    fn wait(self) -> Option<Wait> {
        match self {
            Ask::Acquire { wait, .. } => wait,
            _ => None,
        }
    }
}

/// A node's answer, or the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// ACQUIRE: the fence.
    Granted(Fence),
    /// ACQUIRE: null. Another token holds the lock, or waits for it.
    Denied,
    /// ACQUIRE … TURN: the token is the next in line. The largest fence of the key so far.
    Turn(Fence),
    /// EXTEND: 1.
    Extended,
    /// EXTEND: 0. The token does not hold the lock, or has a larger fence. RELEASE … DONE: 0.
    Gone,
    /// RELEASE … DONE: 1.
    Finished,
    /// ACQUIRE: DONE. The node has a completion record.
    Done(DoneRecord),
    /// RELEASE or a ping: the node has answered.
    Answered,
    /// The proposal is too far ahead for this node.
    TooFar,
    /// The lease is longer than this limit, the longest that the node grants.
    TooLong(Millis),
    /// An error after which asking again later makes sense.
    Refused(Obstacle),
    /// No answer within the time-out. A later one may still be reported.
    Silent,
    /// No connection, or a broken one. The request may have arrived.
    Unreachable,
}

impl Answer {
    /// True if the node does not answer, or is in quarantine.
    fn is_failure(self) -> bool {
        use Answer::{Refused, Silent, Unreachable};
        matches!(self, Silent | Unreachable | Refused(Obstacle::Quarantine(_)))
    }
}

/// The completion record of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DoneRecord {
    /// The fence of the finished claim.
    pub fence: Fence,
    /// The record's time left.
    pub left: Millis,
}

/// The reason why a node refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The node is in quarantine, for this much longer.
    Quarantine(Millis),
    /// The node cannot grant just now: out of memory, loading, too many waiters, or a waiter that was
    /// unblocked.
    Busy,
    /// The node's state file cannot be written. The node may grant a shorter lease, which the file covers.
    NotDurable,
    /// The node will never grant it: a wrong type, no permission, a bad argument, a replica.
    Never,
}

/// A held lock, as confirmed by a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The fence.
    pub fence: Fence,
    /// The claim is valid before this moment, and not from then on.
    pub until: Instant,
}
