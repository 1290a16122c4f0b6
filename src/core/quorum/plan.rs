//! The parameters of an acquisition, and its outcome.

use alloc::vec::Vec;
use core::time::Duration;

use super::acquisition::waiting::Slices;
use super::{Claim, DoneRecord};
use crate::words::{Fence, Millis, Patience};

/// The parameters of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The number of nodes.
    pub nodes: usize,
    /// The length of the lease.
    pub ttl: Millis,
    /// The time-out of a node's answer. The caller measures it.
    pub timeout: Millis,
    /// Limit of the wait while another client holds the lock, or no majority answers. Without a wait any
    /// majority is enough.
    pub wait: Patience,
    /// True if contenders are expected: queues at the gate at once.
    pub start_at_gate: bool,
    /// The lock is taken even if it is done, by completion records with at most this fence.
    pub again: Option<Fence>,
    /// Nodes without recent answers, or in quarantine: none of them is a gate, if there is another node.
    pub suspects: Vec<bool>,
    /// The largest fence seen.
    pub seen: Fence,
    /// The seed for the jitter of back-offs.
    pub seed: u64,
}

impl Plan {
    pub(super) fn slices(&self) -> Slices {
        Slices::new(self.ttl, self.timeout, self.nodes)
    }

    /// The first node that is not suspect.
    pub(super) fn first_there(&self) -> usize {
        self.suspects.iter().position(|suspect| !suspect).unwrap_or(0)
    }

    /// xorshift: enough to keep two acquisitions out of step.
    pub(super) fn random(&mut self) -> u64 {
        let seed = &mut self.seed;
        *seed = (*seed).max(1);
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }
}

/// The time-out of a request to a node, for a lease of `ttl`: the user's setting, or a twentieth of the lease,
/// between 50 ms and a second. It is at most a quarter of the lease, so that an unanswered request can be
/// repeated while the lease lasts.
#[must_use]
pub fn node_timeout(set: Option<Duration>, ttl: Duration) -> Duration {
    set.unwrap_or_else(|| (ttl / 20).clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT)).min(ttl / 4)
}

const SHORTEST_TIMEOUT: Duration = Duration::from_millis(50);
/// The longest time-out that is not set by a user.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The acquisition goes on.
    Pending,
    /// The lock is held.
    Won(Claim),
    /// The acquisition has ended without the lock.
    Lost(Failure),
}

/// The reason why an acquisition ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Another client holds the lock.
    Held,
    /// A majority has the completion record, with this time left.
    Done(DoneRecord),
    /// No majority answers in time, or grants the lock.
    NoQuorum,
    /// The lease is longer than this one, the longest that all nodes accept.
    TooLong(Millis),
    /// Too many nodes refuse permanently for a majority.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_time_out_is_never_longer_than_a_quarter_of_the_lease() {
        let timeout = |set: Option<u64>, ttl| {
            node_timeout(set.map(Duration::from_millis), Duration::from_millis(ttl)).as_micros()
        };
        let usual = [
            (10, 2_500),
            (100, 25_000),
            (1_000, 50_000),
            (10_000, 500_000),
            (86_400_000, 1_000_000),
        ];
        for (ttl, expected) in usual {
            assert_eq!(timeout(None, ttl), expected, "{ttl} ms");
        }
        for (set, ttl, expected) in
            [(1, 10_000, 1_000), (2_500, 10_000, 2_500_000), (3_600_000, 10_000, 2_500_000)]
        {
            assert_eq!(timeout(Some(set), ttl), expected, "{set} ms for {ttl} ms");
        }
    }
}
