//! What is wanted, and what comes of it.

use alloc::vec::Vec;

use super::Claim;
use crate::words::{Fence, Millis};

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// How many nodes there are.
    pub nodes: usize,
    /// The lease.
    pub ttl: Millis,
    /// How long a node may take to answer. The caller measures it.
    pub timeout: Millis,
    /// The lease is tied to the connection over which it was asked for without waiting.
    pub binds: bool,
    /// How long to wait while somebody else holds, or no majority is there; zero: without limit; `None`:
    /// not at all, and then any majority will do.
    pub wait: Option<Millis>,
    /// Whether contenders are expected: queues at the gate at once.
    pub start_at_gate: bool,
    /// Nodes that did not answer lately, or are in quarantine: none of them is a gate, if there is
    /// another.
    pub suspects: Vec<bool>,
    /// The largest fence seen.
    pub seen: Fence,
    /// For the jitter of back-offs.
    pub seed: u64,
}

impl Plan {
    /// xorshift: nothing rests on it but that two of these do not keep step.
    pub(super) fn random(&mut self) -> u64 {
        let seed = &mut self.seed;
        *seed = (*seed).max(1);
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes on.
    Pending,
    /// The lock is held.
    Won(Claim),
    /// It is not, and nothing more is tried.
    Lost(Failure),
}

/// Why the lock is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Somebody else holds it.
    Held,
    /// No majority answers in time, or grants anything.
    NoQuorum,
    /// So many nodes will never grant it that no majority is left.
    Refused,
}
