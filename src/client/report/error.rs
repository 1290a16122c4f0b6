//! Errors of the library, with advice in their texts.

use std::fmt;
use std::time::Duration;

use crate::inspect::{DoneInfo, HolderInfo};
use crate::key::Key;
use crate::printable::Printable;
use crate::report::{Length, Lines, NodeState, Report};

/// Failures of an acquisition, of work under a lock, of another request, or of connecting.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another client holds the lock.
    #[error("{} is held by {}{}", Name(.key), By(.holder.as_deref()), Lines(.nodes))]
    Held {
        /// The lock.
        key: Key,
        /// The holder, if a node named it in time.
        holder: Option<Box<HolderInfo>>,
        /// The state of each node.
        nodes: Vec<Report>,
    },
    /// The last holder has done its work, and left the lock done for a while.
    #[error("{} is done for {} more{}{}", Name(.key), Length(*.left), Outcome(.by.as_deref()), Lines(.nodes))]
    Done {
        /// The lock.
        key: Key,
        /// Time until the lock is free.
        left: Duration,
        /// Fence of the holder that has done the work.
        fence: u64,
        /// That holder, if a node named it in time.
        by: Option<Box<DoneInfo>>,
        /// The state of each node.
        nodes: Vec<Report>,
    },
    /// No majority of the nodes could be reached, or could grant anything.
    #[error("no majority of the nodes for {}: {needed} of {} are needed{}",
        Name(.key), .nodes.len(), Lines(.nodes))]
    NoQuorum {
        /// The lock.
        key: Key,
        /// Number of nodes that are a majority.
        needed: usize,
        /// The state of each node.
        nodes: Vec<Report>,
    },
    /// The lease is too long for a majority of the nodes.
    #[error("{}: a lease of {} ms is longer than {} ms, the longest that all nodes grant \
             (dlock.max-ttl). Ask for a lease of at most {} ms, and renew it while the work goes on{}",
        Name(.key), .ttl.as_millis(), .limit.as_millis(), .limit.as_millis(), Lines(.nodes))]
    TooLong {
        /// The lock.
        key: Key,
        /// The length of the lease.
        ttl: Duration,
        /// The longest lease that all nodes grant.
        limit: Duration,
        /// The state of each node.
        nodes: Vec<Report>,
    },
    /// A majority is out of reach: too many nodes refuse, and would refuse again.
    #[error("{} is refused{}", Name(.key), Lines(.nodes))]
    Refused {
        /// The lock.
        key: Key,
        /// The state of each node.
        nodes: Vec<Report>,
    },
    /// The request is not valid. Nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// Two of the addresses lead to the same node, which would have two votes.
    #[error("{first} and {second} are the same node, {id}; each address must be a node of its own")]
    Duplicate {
        /// Address that was given first.
        first: String,
        /// Address that was given later.
        second: String,
        /// The node's node-id.
        id: String,
    },
    /// While connecting: too few nodes for a majority can be used.
    #[error("no majority of the nodes can be used: {needed} of {} are needed{}",
        .nodes.len(), Lines(.nodes))]
    Connect {
        /// Number of nodes that are a majority.
        needed: usize,
        /// The state of each node.
        nodes: Vec<Report>,
    },
    /// The lock is not held any more.
    #[error(transparent)]
    Lost(#[from] Loss),
}

impl Error {
    /// Code for programs, the same in the libraries of all languages.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Held { .. } => "held",
            Error::Done { .. } => "done",
            Error::NoQuorum { .. } | Error::Connect { .. } => "no_quorum",
            Error::TooLong { .. } | Error::Refused { .. } => "refused",
            Error::Usage(_) | Error::Duplicate { .. } => "usage",
            Error::Lost(_) => "lost",
        }
    }

    /// The lock.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Error::Held { key, .. }
            | Error::Done { key, .. }
            | Error::NoQuorum { key, .. }
            | Error::TooLong { key, .. }
            | Error::Refused { key, .. } => Some(key),
            Error::Lost(loss) => Some(&loss.key),
            Error::Usage(_) | Error::Duplicate { .. } | Error::Connect { .. } => None,
        }
    }

    /// The state of each node.
    #[must_use]
    pub fn nodes(&self) -> &[Report] {
        match self {
            Error::Held { nodes, .. }
            | Error::Done { nodes, .. }
            | Error::NoQuorum { nodes, .. }
            | Error::TooLong { nodes, .. }
            | Error::Refused { nodes, .. }
            | Error::Connect { nodes, .. } => nodes,
            Error::Lost(loss) => loss.why.nodes(),
            Error::Usage(_) | Error::Duplicate { .. } => &[],
        }
    }

    /// True if waiting may help: no majority answers now, but enough nodes for one may answer later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        let (Error::Connect { needed, nodes } | Error::NoQuorum { needed, nodes, .. }) = self
        else {
            return false;
        };
        let refusing = nodes.iter().filter(|report| report.state.refuses_for_good()).count();
        nodes.len() - refusing >= *needed
    }

    /// Time until enough quarantines have ended for a majority, if nothing else is missing.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let (Error::Connect { needed, nodes } | Error::NoQuorum { needed, nodes, .. }) = self
        else {
            return None;
        };
        let mut waits: Vec<Duration> = nodes
            .iter()
            .filter_map(|report| match report.state {
                NodeState::Quarantine(left) => Some(left),
                NodeState::Answers | NodeState::Granted(_) | NodeState::Held => {
                    Some(Duration::ZERO)
                }
                _ => None,
            })
            .collect();
        waits.sort();
        waits.get(needed.checked_sub(1)?).copied().filter(|wait| !wait.is_zero())
    }
}

/// A lock that is not held any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} (fence {fence}) is not held any more: {why}", Name(.key))]
pub struct Loss {
    /// The lock.
    pub key: Key,
    /// Its fence.
    pub fence: u64,
    /// The reason.
    pub why: LossReason,
}

/// Reasons of a loss.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// Its lease ran out: no majority of the nodes renewed it in time.
    NotRenewed {
        /// Last known state of each node.
        nodes: Vec<Report>,
    },
    /// Nodes report that the lease is gone: it was broken, deleted, or forgotten.
    Ended {
        /// Last known state of each node.
        nodes: Vec<Report>,
    },
    /// Its lease ran out, and was acquired without renewal.
    Expired,
    /// The limit that `max_hold` sets has passed.
    MaxHold,
    /// This process was paused until the lease had run out.
    Paused,
    /// The lock was released.
    Released,
    /// Its holder leaves it done: a majority may not have confirmed that yet.
    Done,
    /// Its holder wanted to leave it done, and too many nodes refused. It was released.
    NotDone {
        /// Last known state of each node.
        nodes: Vec<Report>,
    },
    /// Its guard was detached: the owner of the token extends and releases it now.
    Detached,
}

impl LossReason {
    /// Name for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            LossReason::NotRenewed { .. } => "not_renewed",
            LossReason::Ended { .. } => "ended",
            LossReason::Expired => "expired",
            LossReason::MaxHold => "max_hold",
            LossReason::Paused => "paused",
            LossReason::Released => "released",
            LossReason::Done => "done",
            LossReason::NotDone { .. } => "not_done",
            LossReason::Detached => "detached",
        }
    }

    /// Last known state of each node, where nodes are the reason.
    #[must_use]
    pub fn nodes(&self) -> &[Report] {
        match self {
            LossReason::NotRenewed { nodes }
            | LossReason::Ended { nodes }
            | LossReason::NotDone { nodes } => nodes,
            _ => &[],
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossReason::NotRenewed { nodes } => {
                write!(f, "no majority of the nodes renewed the lease in time{}", Lines(nodes))
            }
            LossReason::Ended { nodes } => write!(f, "nodes have ended it{}", Lines(nodes)),
            LossReason::Expired => {
                f.write_str("its lease has ended; it was acquired without renewal")
            }
            LossReason::MaxHold => f.write_str("it was held for as long as allowed"),
            LossReason::Paused => {
                f.write_str("this process was paused until the lease had run out")
            }
            LossReason::Released => f.write_str("it was released"),
            LossReason::Done => f.write_str("its holder has left it done, or is about to"),
            LossReason::NotDone { nodes } => {
                write!(f, "it could not be left done, and was released{}", Lines(nodes))
            }
            LossReason::Detached => f.write_str("its guard was detached"),
        }
    }
}

/// A lock's name.
pub(crate) struct Name<'a>(pub(crate) &'a Key);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?}", self.0)
    }
}

/// The holder that has done the work, as far as it is known.
struct Outcome<'a>(Option<&'a DoneInfo>);

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(done) = self.0 else { return Ok(()) };
        write!(f, ": its work was done {} ago", Length(done.since))?;
        if !done.outcome.is_empty() {
            write!(f, " ({})", Printable(&done.outcome))?;
        }
        Ok(())
    }
}

/// A holder, as far as it is known.
struct By<'a>(Option<&'a HolderInfo>);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(holder) = self.0 else { return f.write_str("another client") };
        match (&holder.address, holder.client) {
            (Some(address), _) => write!(f, "the client at {address}")?,
            (None, Some(id)) => write!(f, "client {id}")?,
            (None, None) => f.write_str("a client that is not connected now")?,
        }
        if !holder.meta.is_empty() {
            write!(f, " ({})", Printable(&holder.meta))?;
        }
        let (held, left) = (Length(holder.held), Length(holder.ttl));
        write!(f, " for {held} now; its lease ends in {left} unless it is renewed")
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
            meta: b"host=web-2\nfree".to_vec(),
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
    fn the_time_to_ask_again_is_when_enough_quarantines_have_ended() {
        let quarantine = |secs| report("a", NodeState::Quarantine(Duration::from_secs(secs)));
        let down = || report("b", NodeState::Unreachable(String::new()));
        let granted = || report("c", NodeState::Granted(1));
        for (nodes, secs) in [
            (vec![quarantine(5), quarantine(9), granted()], Some(5)),
            (vec![quarantine(5), quarantine(9), down()], Some(9)),
            (vec![quarantine(5), down(), down()], None),
            (vec![granted(), granted(), down()], None),
        ] {
            let error = Error::NoQuorum { key: "k".into(), needed: 2, nodes };
            assert_eq!(error.retry_after(), secs.map(Duration::from_secs));
        }
        assert_eq!(Error::Usage(String::new()).retry_after(), None);
    }
}
