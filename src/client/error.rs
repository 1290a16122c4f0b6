//! What can go wrong, in words that help whoever has to mend it.

use std::fmt;
use std::time::Duration;

use dlock_core::quorum::Why;
use redis::{Client, ConnectionAddr, RedisError};

use crate::answer;
use crate::inspect::HolderInfo;
use crate::key::Key;
use crate::text::Printable;

/// Why a lock was not acquired, or a client not connected.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds the lock.
    #[error("{} is held by {}{}", Name(.key), By(.holder.as_deref()), Lines(.nodes))]
    Held {
        /// The lock.
        key: Key,
        /// Who holds it, if a node could say so in time.
        holder: Option<Box<HolderInfo>>,
        /// What each node said.
        nodes: Vec<Report>,
    },
    /// No majority of the nodes could be reached, or could grant anything.
    #[error("no majority of the nodes for {}: {needed} of {} are needed{}",
        Name(.key), .nodes.len(), Lines(.nodes))]
    NoQuorum {
        /// The lock.
        key: Key,
        /// How many nodes are a majority.
        needed: usize,
        /// What each node said.
        nodes: Vec<Report>,
    },
    /// So many nodes refuse, and will go on refusing, that no majority is left.
    #[error("{} is refused{}", Name(.key), Lines(.nodes))]
    Refused {
        /// The lock.
        key: Key,
        /// What each node said.
        nodes: Vec<Report>,
    },
    /// The request makes no sense. Nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// Two of the addresses lead to the same node: a majority of them would mean nothing.
    #[error("{first} and {second} are the same node, {id}; each address must be a node of its own")]
    Duplicate {
        /// The address that was given first.
        first: String,
        /// The one that was given later.
        second: String,
        /// The node's own name.
        id: String,
    },
    /// While connecting: less than a majority of the nodes can be used.
    #[error("no majority of the nodes can be used: {needed} of {} are needed{}",
        .nodes.len(), Lines(.nodes))]
    Connect {
        /// How many nodes are a majority.
        needed: usize,
        /// What each node said.
        nodes: Vec<Report>,
    },
    /// The lock is not held any more.
    #[error(transparent)]
    Lost(#[from] Loss),
}

impl Error {
    /// Whether waiting may help: no majority answers now, but so few refuse for good that there may be
    /// one again.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        let (Error::Connect { needed, nodes } | Error::NoQuorum { needed, nodes, .. }) = self
        else {
            return false;
        };
        let refusing = nodes.iter().filter(|report| report.state.refuses_for_good()).count();
        nodes.len() - refusing >= *needed
    }
}

/// Why work under a lock has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired; the work was not begun.
    #[error(transparent)]
    NotAcquired(#[from] Error),
    /// The lock was lost before the work was done.
    #[error(transparent)]
    Lost(#[from] Loss),
}

/// A lock that is held no more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} (fence {fence}) is not held any more: {why}", Name(.key))]
pub struct Loss {
    /// The lock.
    pub key: Key,
    /// The fence it was held with.
    pub fence: u64,
    /// What happened.
    pub why: LossReason,
}

/// Why a lock is held no more.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// Its lease ran out: no majority of the nodes renewed it in time.
    NotRenewed {
        /// What each node said last.
        nodes: Vec<Report>,
    },
    /// Nodes say that the lease is gone: it was broken, deleted, or forgotten.
    Ended {
        /// What each node said last.
        nodes: Vec<Report>,
    },
    /// It was held for as long as it was allowed to be.
    MaxHold,
    /// This process did not run for so long that the lease ran out.
    Paused,
    /// It was given back.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossReason::NotRenewed { nodes } => {
                write!(f, "no majority of the nodes renewed the lease in time{}", Lines(nodes))
            }
            LossReason::Ended { nodes } => write!(f, "nodes have ended it{}", Lines(nodes)),
            LossReason::MaxHold => f.write_str("it was held for as long as allowed"),
            LossReason::Paused => {
                f.write_str("this process was paused until the lease had run out")
            }
            LossReason::Released => f.write_str("it was released"),
        }
    }
}

/// What one node said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The node: its address, without secrets.
    pub node: String,
    /// What it said.
    pub state: NodeState,
}

/// What a node said last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// It was not asked, or its answer was not waited for.
    NotAsked,
    /// It is there. While connecting, or when only asked for that.
    Answers,
    /// It granted or renewed the lock, with this fence.
    Granted(u64),
    /// Somebody else holds the lock there, or waits for it.
    Held,
    /// The lock is not held there any more.
    Gone,
    /// It cannot be reached.
    Unreachable(String),
    /// It did not answer in time.
    TimedOut(Duration),
    /// It may have forgotten leases, and grants nothing until that is over.
    Quarantine(Duration),
    /// It refuses, in its own words.
    Refused(String),
    /// It is no node for locks: it has no module, or is a replica.
    Unfit(String),
}

impl NodeState {
    /// The code of the error with which it refuses: `NOPERM`, `WRONGTYPE` and the like.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            NodeState::Refused(text) => Some(answer::code(text)),
            _ => None,
        }
    }

    /// Whether it says no to this request, and will say no to it again.
    #[must_use]
    pub fn refuses_for_good(&self) -> bool {
        match self {
            NodeState::Refused(text) => answer::why(text) == Why::Never,
            NodeState::Unfit(_) => true,
            _ => false,
        }
    }

    /// Whether the node can be expected to answer.
    pub(crate) fn answers(&self) -> bool {
        !matches!(self, NodeState::Unreachable(_) | NodeState::TimedOut(_))
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeState::NotAsked => f.write_str("no answer was waited for"),
            NodeState::Answers => f.write_str("answers"),
            NodeState::Granted(fence) => write!(f, "granted, fence {fence}"),
            NodeState::Held => f.write_str("held by somebody else"),
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
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.state)
    }
}

/// Why a node gave no answer to a command, or an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {}", Length(*.0))]
    TimedOut(Duration),
    /// An error of the server, beginning with its code; or something is wrong with the node.
    #[error("{0}")]
    Refused(String),
    /// It is no node for locks: it has no module, or is a replica.
    #[error("{0}")]
    Unfit(String),
    /// It is the node to which another address leads as well.
    #[error("it is the same node as {other} (node-id {id})")]
    Duplicate {
        /// The other address.
        other: String,
        /// The node's own name.
        id: String,
    },
}

impl NodeError {
    /// Why no connection could be made within this time, with what may be wrong with the address.
    #[must_use]
    pub fn not_connected(client: &Client, error: &RedisError, within: Duration) -> NodeError {
        let address = client.get_connection_info().addr();
        match (address, error.is_timeout()) {
            // A server that speaks no TLS waits for the end of what looks like a long command.
            (ConnectionAddr::TcpTls { .. }, true) => {
                let words = "(does that port speak TLS? else write redis://)";
                NodeError::Unreachable(format!("no answer within {} {words}", Length(within)))
            }
            (_, true) => NodeError::TimedOut(within),
            (ConnectionAddr::Tcp(..), _)
                if error.is_connection_dropped() && !error.is_connection_refusal() =>
            {
                let words = "(is it a TLS port? then write rediss://)";
                NodeError::Unreachable(format!("{} {words}", answer::plain(&error.to_string())))
            }
            _ => NodeError::from(error),
        }
    }
}

/// In this library's words.
impl From<&RedisError> for NodeError {
    fn from(error: &RedisError) -> NodeError {
        answer::redis_error(error)
    }
}

/// Nodes, a line each, below the first line.
pub(crate) struct Lines<'a>(pub(crate) &'a [Report]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|report| write!(f, "\n  {report}"))
    }
}

/// A lock's name.
pub(crate) struct Name<'a>(pub(crate) &'a Key);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?}", self.0)
    }
}

/// A holder, as far as it is known.
struct By<'a>(Option<&'a HolderInfo>);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(holder) = self.0 else { return f.write_str("somebody else") };
        match (&holder.address, holder.client) {
            (Some(address), _) => write!(f, "the client at {address}")?,
            (None, Some(id)) => write!(f, "client {id}")?,
            (None, None) => f.write_str("a client that is not connected now")?,
        }
        if !holder.meta.is_empty() {
            write!(f, " ({})", Printable(holder.meta.as_bytes()))?;
        }
        let (held, left) = (Length(holder.held), Length(holder.ttl));
        write!(f, " for {held} now; its lease ends in {left} unless it is renewed")
    }
}

/// A length of time, as a person would say it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, state: NodeState) -> Report {
        Report { node: node.to_owned(), state }
    }

    #[test]
    fn every_node_has_a_line_of_its_own() {
        let error = Error::NoQuorum {
            key: "job:42".into(),
            needed: 2,
            nodes: vec![
                report("redis://a:1", NodeState::Granted(7)),
                report("redis://b:1", NodeState::TimedOut(Duration::from_millis(50))),
                report("redis://c:1", NodeState::Quarantine(Duration::from_millis(12_340))),
            ],
        };
        assert_eq!(
            error.to_string(),
            "no majority of the nodes for lock 'job:42': 2 of 3 are needed\n  \
             redis://a:1: granted, fence 7\n  \
             redis://b:1: no answer within 50 ms\n  \
             redis://c:1: in quarantine: it may have forgotten locks, and grants none for 12.3 s more"
        );
    }

    #[test]
    fn a_holder_is_described_and_cannot_forge_lines() {
        let holder = HolderInfo {
            address: Some("10.0.0.7:5000".to_owned()),
            meta: "host=web-2\nfree".to_owned(),
            held: Duration::from_secs(100),
            ttl: Duration::from_millis(900),
            ..HolderInfo::default()
        };
        let error =
            Error::Held { key: "a\nb".into(), holder: Some(Box::new(holder)), nodes: vec![] };
        assert_eq!(
            error.to_string(),
            "lock 'a\\x0ab' is held by the client at 10.0.0.7:5000 (host=web-2\\x0afree) \
             for 1 min 40 s now; its lease ends in 900 ms unless it is renewed"
        );
    }

    #[test]
    fn an_outage_may_pass_and_a_wrong_password_will_not() {
        let down = || report("a", NodeState::Unreachable(String::new()));
        let loading = || report("b", NodeState::Refused("LOADING the dataset".to_owned()));
        let wrong = || report("c", NodeState::Refused("WRONGPASS no".to_owned()));
        for (nodes, may_pass) in [
            (vec![down(), down(), wrong()], true),
            (vec![loading(), loading(), wrong()], true),
            (vec![down(), wrong(), wrong()], false),
        ] {
            assert_eq!(Error::Connect { needed: 2, nodes }.may_pass(), may_pass);
        }
        assert!(!Error::Usage(String::new()).may_pass());
    }

    #[test]
    fn a_loss_says_what_happened() {
        let loss = Loss { key: "k".into(), fence: 9, why: LossReason::Paused };
        assert_eq!(
            loss.to_string(),
            "lock 'k' (fence 9) is not held any more: \
             this process was paused until the lease had run out"
        );
    }
}
