//! The states of nodes and the errors of the library.
//!
//! [`code`]: the codes of server errors. [`error`]: errors of a whole operation. [`notice`]: news for
//! operators while locks go on working.

pub(crate) mod code;
pub(crate) mod error;
pub(crate) mod notice;

use std::fmt;
use std::time::Duration;

use dlock_core::quorum::Obstacle;

use crate::inspect::UnexpectedReply;

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The node: its address, without secrets.
    pub node: String,
    /// Its last known state.
    pub state: NodeState,
}

/// A node's last known state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// The client did not ask it, or did not wait for its answer.
    NotAsked,
    /// The node answers; it was asked for nothing else.
    Answers,
    /// The node granted or renewed the lock, with this fence.
    Granted(u64),
    /// Another client holds the lock there, or waits for it.
    Held,
    /// Its last holder left the lock done there, and it stays so for this time.
    Done(Duration),
    /// The lock is not held there any more.
    Gone,
    /// The node cannot be reached.
    Unreachable(String),
    /// The node did not answer in time.
    TimedOut(Duration),
    /// The node is in quarantine for this time: it may have forgotten leases.
    Quarantine(Duration),
    /// The node refuses, with this text.
    Refused(String),
    /// The node is not fit for locks: it lacks the module, or is a replica.
    Unfit(String),
    /// The node was fit for locks, and is not now, for example while it is being replaced. Waiters go on
    /// waiting for it.
    Lapsed(String),
}

impl NodeState {
    /// Name for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            NodeState::NotAsked => "not_asked",
            NodeState::Answers => "answers",
            NodeState::Granted(_) => "granted",
            NodeState::Held => "held",
            NodeState::Done(_) => "done",
            NodeState::Gone => "gone",
            NodeState::Unreachable(_) => "unreachable",
            NodeState::TimedOut(_) => "timed_out",
            NodeState::Quarantine(_) => "quarantine",
            NodeState::Refused(_) => "refused",
            NodeState::Unfit(_) | NodeState::Lapsed(_) => "unfit",
        }
    }

    /// Error code of a refusal: `NOPERM`, `WRONGTYPE` and the like.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            NodeState::Refused(text) => Some(code::code(text)),
            _ => None,
        }
    }

    /// True if the node refuses this request, and would refuse it again.
    #[must_use]
    pub fn refuses_for_good(&self) -> bool {
        match self {
            NodeState::Refused(text) => code::why(text) == Obstacle::Never,
            NodeState::Unfit(_) => true,
            _ => false,
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeState::NotAsked => f.write_str("not asked, or not waited for"),
            NodeState::Answers => f.write_str("answers"),
            NodeState::Granted(fence) => write!(f, "granted, fence {fence}"),
            NodeState::Held => f.write_str("held by another client"),
            NodeState::Done(left) => write!(f, "done, for {} more", Length(*left)),
            NodeState::Gone => f.write_str("not held any more"),
            NodeState::Unreachable(why) => write!(f, "cannot be reached: {why}"),
            NodeState::TimedOut(after) => write!(f, "no answer within {}", Length(*after)),
            NodeState::Quarantine(left) => {
                write!(
                    f,
                    "in quarantine: it may have forgotten locks, and grants none for {} more",
                    Length(*left)
                )
            }
            NodeState::Refused(text) => write!(f, "refuses: {text}"),
            NodeState::Unfit(text) => f.write_str(text),
            NodeState::Lapsed(text) => {
                write!(f, "it cannot grant locks any more: {text}")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.state)
    }
}

/// The outcome of a release.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Release {
    /// A majority of the nodes has released the lock, or has it done: this holder blocks no other client.
    pub is_free: bool,
    /// Without a majority: the nodes that have not confirmed the release, and their states. The client asks them again in
    /// the background until they answer, or the lease there has ended.
    pub left: Vec<Report>,
    /// Time until the last lease has ended at the nodes that have not released the lock, at most.
    pub within: Duration,
}

/// Errors of a request to one node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {}", Length(*.0))]
    TimedOut(Duration),
    /// An error of the server, which begins with its code; or something is wrong with the node.
    #[error("{0}")]
    Refused(String),
    /// The node is not fit for locks: it lacks the module, or is a replica.
    #[error("{0}")]
    Unfit(String),
    /// The node was fit for locks, and is not now.
    #[error("it cannot grant locks any more: {0}")]
    Lapsed(String),
    /// Another address leads to the same node.
    #[error("it is the same node as {other} (node-id {id})")]
    Duplicate {
        /// The other address.
        other: String,
        /// The node's node-id.
        id: String,
    },
}

impl From<NodeError> for NodeState {
    fn from(error: NodeError) -> NodeState {
        match error {
            NodeError::Unreachable(why) => NodeState::Unreachable(why),
            NodeError::TimedOut(after) => NodeState::TimedOut(after),
            NodeError::Refused(text) => match code::quarantine(&text) {
                Some(left) => NodeState::Quarantine(left),
                None => NodeState::Refused(text),
            },
            NodeError::Unfit(text) => NodeState::Unfit(text),
            NodeError::Lapsed(text) => NodeState::Lapsed(text),
            duplicate @ NodeError::Duplicate { .. } => NodeState::Refused(duplicate.to_string()),
        }
    }
}

impl From<UnexpectedReply> for NodeError {
    fn from(unexpected: UnexpectedReply) -> NodeError {
        NodeError::Unfit(unexpected.to_string())
    }
}

/// Nodes, a line each, below the first line.
pub(crate) struct Lines<'a>(pub(crate) &'a [Report]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|report| write!(f, "\n  {report}"))
    }
}

/// A length of time in units for people.
pub(crate) struct Length(pub(crate) Duration);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0..1_000 => write!(f, "{millis} ms"),
            1_000..60_000 => write!(f, "{}.{} s", millis / 1000, millis % 1000 / 100),
            60_000..3_600_000 => write!(f, "{} min {} s", millis / 60_000, millis % 60_000 / 1000),
            _ => write!(f, "{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
        }
    }
}
