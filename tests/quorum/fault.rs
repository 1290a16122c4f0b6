//! The faults of a node, and the end of each.

use dlock_client::NodeState;
use harness::quorum::Node;

use crate::coordinator::NODE_TIMEOUT;

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process has ended.
    Dead,
    /// Its process does not run, but its connections stand.
    Paused,
    /// No message to it arrives.
    BlackHoled,
    /// Each answer comes after the time-out.
    Slow,
    /// The node has no memory for another lock.
    OutOfMemory,
    /// The node may have forgotten leases.
    InQuarantine,
}

impl Fault {
    /// Makes a node fail in this way.
    pub fn inject(self, node: &mut Node) {
        match self {
            Fault::Dead => node.kill(),
            Fault::Paused => node.pause(),
            Fault::BlackHoled => node.network().swallow(),
            Fault::Slow => node.network().delay(NODE_TIMEOUT),
            Fault::OutOfMemory => _ = node.run("CONFIG SET maxmemory 1"),
            Fault::InQuarantine => {
                // The node forgets this lease by the crash, and its bound covers it.
                node.run("DLOCK.ACQUIRE forgotten somebody 60000");
                node.kill();
                node.start_again();
                assert_eq!(node.node("granting").text(), "quarantine");
            }
        }
    }

    /// Ends the fault.
    pub fn clear(self, node: &mut Node) {
        match self {
            Fault::Dead => {
                node.start_again();
                node.run("CONFIG SET dlock.quarantine off");
            }
            Fault::Paused => node.resume(),
            Fault::BlackHoled | Fault::Slow => node.network().pass(),
            Fault::OutOfMemory => _ = node.run("CONFIG SET maxmemory 0"),
            Fault::InQuarantine => _ = node.run("CONFIG SET dlock.quarantine off"),
        }
    }

    /// True if a node with this fault is reported in this state.
    pub fn is_reported_as(self, state: &NodeState) -> bool {
        match self {
            Fault::Dead => matches!(state, NodeState::Unreachable(_)),
            Fault::Paused | Fault::BlackHoled | Fault::Slow => {
                matches!(state, NodeState::TimedOut(_))
            }
            Fault::OutOfMemory => {
                matches!(state, NodeState::Refused(text) if text.starts_with("OOM"))
            }
            Fault::InQuarantine => matches!(state, NodeState::Quarantine(_)),
        }
    }
}
