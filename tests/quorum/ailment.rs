//! The ways in which a node can fail, and how it gets well again.

use std::time::Duration;

use dlock_client::NodeState;
use harness::quorum::Node;

use crate::coordinator::NODE_TIMEOUT;

/// A node's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ailment {
    /// Its process is gone.
    Dead,
    /// Its process does not run, but its connections stand.
    Paused,
    /// Nothing that is sent to it arrives.
    BlackHoled,
    /// Each answer comes later than a node may take.
    Slow,
    /// The node has no memory for another lock.
    OutOfMemory,
    /// The node may have forgotten leases.
    InQuarantine,
}

impl Ailment {
    /// Makes a node ill.
    pub fn strike(self, node: &mut Node) {
        match self {
            Ailment::Dead => node.kill(),
            Ailment::Paused => node.pause(),
            Ailment::BlackHoled => node.network().swallow(),
            Ailment::Slow => node.network().delay(NODE_TIMEOUT),
            Ailment::OutOfMemory => {
                node.run("CONFIG SET maxmemory 1");
            }
            Ailment::InQuarantine => {
                // A lease that it forgets by the crash, and that could have run for this long.
                node.run("DLOCK.ACQUIRE forgotten somebody 60000");
                node.kill();
                node.start_again();
                assert_eq!(node.node("granting").text(), "quarantine");
            }
        }
    }

    /// Makes it well.
    pub fn cure(self, node: &mut Node) {
        match self {
            Ailment::Dead => {
                node.start_again();
                node.run("CONFIG SET dlock.quarantine off");
            }
            Ailment::Paused => node.resume(),
            Ailment::BlackHoled | Ailment::Slow => node.network().pass(),
            Ailment::OutOfMemory => {
                node.run("CONFIG SET maxmemory 0");
            }
            Ailment::InQuarantine => {
                node.run("CONFIG SET dlock.quarantine off");
            }
        }
    }

    /// True if a node with this fault is reported in this state.
    pub fn is_said_as(self, state: &NodeState) -> bool {
        match self {
            Ailment::Dead => matches!(state, NodeState::Unreachable(_)),
            Ailment::Paused | Ailment::BlackHoled | Ailment::Slow => {
                matches!(state, NodeState::TimedOut(_))
            }
            Ailment::OutOfMemory => {
                matches!(state, NodeState::Refused(text) if text.starts_with("OOM"))
            }
            Ailment::InQuarantine => {
                matches!(state, NodeState::Quarantine(left) if *left <= Duration::from_secs(70))
            }
        }
    }
}
