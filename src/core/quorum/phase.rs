//! How far an acquisition is.

use super::Verdict;
use crate::words::{Fence, Instant, Millis};

/// What it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// All nodes have been asked.
    Asking {
        /// Until when the gate's answer is waited for; `None` once that is over.
        grace: Option<Instant>,
    },
    /// Waits for its turn at a node.
    Queueing {
        gate: usize,
        /// It could not be reached when it was asked last.
        failed: bool,
        /// Where there are others: whether it is there is asked beside the slices.
        watch: Watch,
    },
    /// It is the next in line at the gate: all nodes have been asked.
    Gathering(Gathering),
    /// Backs off.
    Resting {
        until: Instant,
        /// Where to queue then; `None`: asks all nodes.
        gate: Option<usize>,
        /// Which gate to ask again then, with the same token.
        again: Option<usize>,
    },
    /// Nothing more happens.
    Over(Verdict),
}

/// What the gate has to say to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// It grants, or there is none.
    Open,
    /// Somebody holds the lock there, or waits for it.
    Closed,
    /// It has not answered, and there is still time.
    Silent,
}

/// Whether the gate is asked if it is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// When next.
    pub(super) next: Option<Instant>,
    /// And for how long not after that.
    pub(super) pause: Millis,
    /// The question, until it is answered.
    pub(super) ping: Option<u32>,
}

/// The next in line: it asks all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gathering {
    pub(super) gate: usize,
    /// Fixed for all nodes and slices.
    pub(super) proposal: Fence,
    /// Since when it has nodes that it leaves to nobody.
    pub(super) since: Option<Instant>,
    /// When nodes that have failed are asked again.
    pub(super) retry_at: Instant,
    /// Those that have failed, and were asked again at once: the connection may have been all that failed.
    pub(super) retried: u128,
    /// Since when too many have failed, and none has answered since.
    pub(super) missing: Option<Instant>,
    /// When nodes before the gate are asked whether they are there.
    pub(super) ping_at: Option<Instant>,
    /// What was asked so: from here on.
    pub(super) pings: Option<u32>,
    /// How often it gave back what it had behind a node that it lacked.
    pub(super) returns: u32,
}
