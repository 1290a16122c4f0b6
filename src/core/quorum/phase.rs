//! The phases of an acquisition.

use super::Verdict;
use crate::words::{Fence, Instant, Millis};

/// A phase.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// All nodes have been asked.
    Asking {
        /// End of the wait for the gate's answer; `None` once that is over.
        grace: Option<Instant>,
    },
    /// Waits for its turn at a node.
    Queueing {
        gate: usize,
        /// True if the gate could not be reached at the last request.
        failed: bool,
        /// The pings of the gate, where there are other nodes.
        watch: Watch,
    },
    /// The next in line at the gate, which has asked all nodes.
    Gathering(Gathering),
    /// Backs off.
    Resting {
        until: Instant,
        /// The gate to queue at then; `None`: asks all nodes.
        gate: Option<usize>,
        /// The gate to ask again then, with the same token.
        again: Option<usize>,
    },
    /// The acquisition has ended.
    Over(Verdict),
}

/// The gate's answer to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// The gate grants, or there is none.
    Open,
    /// Another client holds the lock there, or waits for it.
    Closed,
    /// The gate has not answered, and there is still time.
    Silent,
}

/// The pings of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// Time of the next ping; `None`: no pings.
    pub(super) next: Option<Instant>,
    /// Delay before the ping after that.
    pub(super) pause: Millis,
    /// The id of a ping without an answer.
    pub(super) ping: Option<u32>,
}

/// The next in line, which asks all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gathering {
    pub(super) gate: usize,
    /// The proposal to all nodes, in all slices.
    pub(super) proposal: Fence,
    /// Time of the next requests to failed nodes.
    pub(super) retry_at: Instant,
    /// A bit for each node that has failed and was asked again at once: perhaps only the connection failed.
    pub(super) retried: u128,
    /// Time since when too many nodes have failed, without an answer of a majority.
    pub(super) missing: Option<Instant>,
}
