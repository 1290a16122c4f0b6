//! Kinds of failures: names that programs can rely on, and their exit codes.

use dlock_client::{Error, NodeError, NodeState, Report};

use super::exit::Exit;

/// The kind of a failure. The names are stable: scripts match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Another client holds the lock.
    Held,
    /// The last holder has left the lock done.
    Done,
    /// Wrong usage, here: an option, a key, an address, two addresses of one node.
    Usage,
    /// The nodes refuse this request for good.
    Refused,
    /// The key has a value that is not a lock.
    WrongType,
    /// The nodes do not accept this user, or not for this command.
    NoPermission,
    /// The servers cannot be nodes for locks: they lack the module, or are replicas.
    Unfit,
    /// No majority of the nodes answers, or can grant anything now.
    NoQuorum,
    /// One node: it cannot be reached.
    Unreachable,
    /// One node: it does not answer in time.
    TimedOut,
    /// One node: it refuses, but may accept later.
    Busy,
    /// The lock is not held any more.
    Lost,
    /// The command cannot be executed.
    CannotExecute,
    /// There is no such command.
    NotFound,
    /// A bug, or an error of the system.
    Internal,
}

impl Kind {
    /// All kinds, in the order of the documentation.
    #[cfg(test)]
    pub const ALL: [Kind; 15] = [
        Kind::Held,
        Kind::Done,
        Kind::Usage,
        Kind::Refused,
        Kind::WrongType,
        Kind::NoPermission,
        Kind::Unfit,
        Kind::NoQuorum,
        Kind::Unreachable,
        Kind::TimedOut,
        Kind::Busy,
        Kind::Lost,
        Kind::CannotExecute,
        Kind::NotFound,
        Kind::Internal,
    ];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Held => "held",
            Kind::Done => "done",
            Kind::Usage => "usage",
            Kind::Refused => "refused",
            Kind::WrongType => "wrong_type",
            Kind::NoPermission => "no_permission",
            Kind::Unfit => "unfit",
            Kind::NoQuorum => "no_quorum",
            Kind::Unreachable => "unreachable",
            Kind::TimedOut => "timed_out",
            Kind::Busy => "busy",
            Kind::Lost => "lost",
            Kind::CannotExecute => "cannot_execute",
            Kind::NotFound => "not_found",
            Kind::Internal => "internal",
        }
    }

    pub fn exit(self) -> Exit {
        match self {
            Kind::Held | Kind::Done => Exit::CONFLICT,
            Kind::Usage => Exit::USAGE,
            Kind::Refused | Kind::WrongType => Exit::REFUSED,
            Kind::NoPermission => Exit::NO_PERMISSION,
            Kind::Unfit => Exit::UNFIT,
            Kind::NoQuorum | Kind::Unreachable | Kind::TimedOut | Kind::Busy => Exit::NO_QUORUM,
            Kind::Lost => Exit::LOST,
            Kind::CannotExecute => Exit::CANNOT_EXECUTE,
            Kind::NotFound => Exit::NOT_FOUND,
            Kind::Internal => Exit::INTERNAL,
        }
    }

    /// The kind of a failure of several nodes: no majority for now, or the reason why there will never be
    /// one.
    pub fn of_set(troubles: impl IntoIterator<Item = Kind>, nodes: usize) -> Kind {
        let mut lasting: Vec<Kind> =
            troubles.into_iter().filter(|kind| kind.exit() != Exit::NO_QUORUM).collect();
        if nodes - lasting.len().min(nodes) > nodes / 2 {
            return Kind::NoQuorum;
        }
        lasting.sort_unstable();
        let votes = |kind: &Kind| lasting.iter().filter(|other| *other == kind).count();
        // Of several with the most votes the first.
        let most = lasting.iter().rev().max_by_key(|kind| votes(kind));
        most.copied().unwrap_or(Kind::NoQuorum)
    }

    fn of_reports(reports: &[Report]) -> Kind {
        let refusing = reports.iter().filter(|report| report.state.refuses_for_good());
        Kind::of_set(refusing.map(|report| Kind::from(&report.state)), reports.len())
    }
}

impl From<&Error> for Kind {
    fn from(error: &Error) -> Kind {
        match error {
            Error::Held { .. } => Kind::Held,
            Error::Done { .. } => Kind::Done,
            Error::Usage(_) | Error::Duplicate { .. } => Kind::Usage,
            Error::Lost(_) => Kind::Lost,
            Error::TooLong { .. } => Kind::Refused,
            Error::NoQuorum { nodes, .. }
            | Error::Connect { nodes, .. }
            | Error::Refused { nodes, .. } => Kind::of_reports(nodes),
            _ => Kind::NoQuorum,
        }
    }
}

/// The kind of one node's state.
impl From<&NodeState> for Kind {
    fn from(state: &NodeState) -> Kind {
        match state {
            NodeState::Held => Kind::Held,
            NodeState::Done(_) => Kind::Done,
            NodeState::Unreachable(_) => Kind::Unreachable,
            NodeState::TimedOut(_) => Kind::TimedOut,
            NodeState::Unfit(_) => Kind::Unfit,
            state if !state.refuses_for_good() => Kind::Busy,
            state => match state.code().unwrap_or_default() {
                "NOPERM" | "NOAUTH" | "WRONGPASS" => Kind::NoPermission,
                "WRONGTYPE" => Kind::WrongType,
                // The server became a replica, or it is one of a cluster, and another one has the key.
                "READONLY" | "MOVED" | "ASK" | "CROSSSLOT" => Kind::Unfit,
                _ => Kind::Refused,
            },
        }
    }
}

impl From<NodeError> for Kind {
    fn from(error: NodeError) -> Kind {
        Kind::from(&NodeState::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dlock_client::Key;
    use std::slice;

    fn kind(states: &[NodeState]) -> Kind {
        let report = |state: &NodeState| Report { node: String::new(), state: state.clone() };
        let nodes: Vec<Report> = states.iter().map(report).collect();
        let (key, needed) = (Key::from("k"), nodes.len() / 2 + 1);
        Kind::from(&Error::NoQuorum { key, needed, nodes })
    }

    fn refused(line: &str) -> NodeState {
        NodeState::Refused(line.to_owned())
    }

    #[test]
    fn the_page_lists_every_kind_with_its_exit_code() {
        let page = include_str!("../../../docs/program.md");
        for kind in Kind::ALL {
            let row = format!("| `{}` | {}", kind.name(), kind.exit().code());
            assert!(page.contains(&row), "no {row:?}");
        }
    }

    #[test]
    fn what_a_majority_will_never_have_is_told_from_what_may_pass() {
        let down = NodeState::Unreachable(String::new());
        let no_permission = refused("NOPERM this user");
        let oom = refused("OOM command not allowed");
        assert_eq!(kind(slice::from_ref(&no_permission)), Kind::NoPermission);
        assert_eq!(kind(&[refused("WRONGTYPE Operation")]), Kind::WrongType);
        assert_eq!(kind(&[refused("ERR the lock is held with LIMIT 2")]), Kind::Refused);
        assert_eq!(kind(&[NodeState::Unfit(String::new())]), Kind::Unfit);
        assert_eq!(kind(slice::from_ref(&oom)), Kind::NoQuorum);
        assert_eq!(kind(slice::from_ref(&down)), Kind::NoQuorum);
        // With the unreachable node they would be a majority.
        let of =
            |a: &NodeState, b: &NodeState, c: &NodeState| kind(&[a.clone(), b.clone(), c.clone()]);
        assert_eq!(of(&no_permission, &down, &NodeState::Granted(1)), Kind::NoQuorum);
        assert_eq!(of(&no_permission, &no_permission, &down), Kind::NoPermission);
        assert_eq!(of(&no_permission, &down, &oom), Kind::NoQuorum);
        let wrong = refused("WRONGTYPE Operation");
        assert_eq!(of(&no_permission, &wrong, &wrong), Kind::WrongType);
    }
}
