//! The quorum: one lock over several nodes that know nothing of each other.
//!
//! Sans-IO: the time and the nodes' answers come in, requests to nodes go out. The
//! caller sends them, and makes a fresh token for each attempt. In reading order:
//!
//! - [`rules`]: the conditions of a claim, and its validity; pure formulas.
//! - `vote`: one node's answers. [`ballot`]: those of all nodes, the next requests, and the lengths of the lease in
//!   these.
//! - [`plan`]: the parameters of an acquisition, and its outcome.
//! - [`acquisition`]: attempts, until the lock is held or the time is over; `outage` and `back_off`: the
//!   failures that it counts.
//! - `marks`: a lock that its last holder left done.
//! - [`waiting`]: the way contenders wait, and a lock goes from one to the next in one round trip.
//! - `phase`: the phases of an acquisition; `gate`: the queue of contenders; `gathering`: the requests of
//!   the next in line, and the end of its turn without a majority; `gathered`: its grants so far.
//! - [`hold`]: a lock that is held: renewed, repaired, and lost the moment its validity ends.
//! - [`last_word`]: the RELEASE that a token owes a node.
//! - [`roster`]: the node behind each address.
//!
//! N = 1 is no special case: a majority of one.

pub mod acquisition;
mod back_off;
pub mod ballot;
mod gate;
mod gathered;
mod gathering;
pub mod hold;
pub mod last_word;
mod marks;
mod outage;
mod phase;
pub mod plan;
pub mod roster;
pub mod rules;
#[cfg(test)]
mod tests;
mod vote;
pub mod waiting;

pub use acquisition::Acquisition;
pub use hold::{Hold, LossReason, State};
pub use last_word::{LastWord, Requests};
pub use plan::{Failure, LONGEST_TIMEOUT, Plan, Verdict, node_timeout};
pub use roster::{Met, Occupant, Roster};
pub use rules::{Rules, Sound};
pub use waiting::Wait;

use crate::words::{Fence, Instant, Millis};

/// A request to one node, with its addressee.
///
/// Requests to one node in one attempt arrive in the order in which they were sent, but for those that
/// are blocked there, which have a connection of their own.
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
    /// Of an ACQUIRE: AGAIN. The node grants over a mark up to this fence.
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
    /// EXTEND … FENCE by the lease: however late it arrives, it makes no lease shorter, and none that
    /// was granted later longer.
    Extend {
        /// The fence of the claim, or of the grant.
        fence: Fence,
    },
    /// RELEASE … DONE FENCE: leaves the lock done. A node that has the token's mark says yes again.
    Finish {
        /// The time for which the lock is done.
        length: Millis,
        /// The fence of the claim.
        fence: Fence,
    },
    /// RELEASE, the token's last word at this node. [`Requests::end`] says how it is sent. No event depends on its
    /// answer.
    Release,
    /// A ping: tells if the node answers, and is not in quarantine: there a blocked request stays blocked.
    Ping,
}

impl Ask {
    /// ACQUIRE by a token that most likely holds the lock. One of several nodes is never asked without a
    /// proposal where its clock could be ahead: it would count from there.
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

    /// True if the request leaves the lock done.
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

/// A node's answer, or its absence.
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
    Marked,
    /// ACQUIRE: DONE. The last holder left the lock done.
    Done(Mark),
    /// RELEASE or a ping: the node has answered.
    Answered,
    /// The proposal is too far ahead for this node.
    TooFar,
    /// The lease is longer than the longest one that this node grants, which is this long.
    TooLong(Millis),
    /// An error after which asking again later makes sense.
    Refused(Obstacle),
    /// No answer within the time-out. One that comes later may still be reported.
    Silent,
    /// No connection, or a broken one. The request may have arrived.
    Unreachable,
}

/// A mark that a lock is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The fence of the claim whose work is done.
    pub fence: Fence,
    /// The time that is left of it.
    pub left: Millis,
}

/// The reason why a node refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The node is in quarantine.
    Quarantine,
    /// The node cannot grant just now: out of memory, loading, too many waiters, or a waiter that was
    /// unblocked.
    Busy,
    /// The node's state file cannot be written. The node may grant a shorter lease, which the file covers.
    NotDurable,
    /// The node will never grant it: a wrong type, no permission, a bad argument, a replica.
    Never,
}

/// A lock that is held, as the majority vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The fence.
    pub fence: Fence,
    /// The claim is valid before this moment, and not from then on.
    pub until: Instant,
}
