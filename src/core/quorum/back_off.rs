//! The back-off of an acquisition: its rests and its patience get longer each time.

use crate::words::Millis;

/// The number of failures so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct BackOff {
    /// The number of rests.
    rests: u32,
    /// The number of turns given up without a majority.
    turns: u32,
}

impl BackOff {
    /// True if a client that does not wait may try again after grants without a claim.
    pub(super) fn may_try_again(self) -> bool {
        self.rests < SPLITS
    }

    /// Counts one more rest. Returns its usual length in µs.
    pub(super) fn rest(&mut self, is_outage: bool) -> u64 {
        self.rests += 1;
        let longest = if is_outage { LONGEST_OUTAGE } else { LONGEST_REST };
        (FIRST_REST << self.rests.min(8)).min(longest)
    }

    /// Counts one more turn that was given up.
    pub(super) fn gives_up_turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
    }

    /// The longest time in µs to keep grants without a majority: a time-out, doubled after each turn given up,
    /// up to eightfold.
    pub(super) fn patience(self, timeout: Millis) -> u64 {
        timeout.0.saturating_mul(1_000 << self.turns.min(MOST_DOUBLED))
    }
}

/// The number of further attempts for a client that does not wait, after grants without a claim.
const SPLITS: u32 = 3;
/// The first back-off and the longest, in µs.
const FIRST_REST: u64 = 5_000;
const LONGEST_REST: u64 = 250_000;
/// The longest back-off while no majority answers: there may be many such clients.
const LONGEST_OUTAGE: u64 = 1_000_000;
/// The patience with grants without a majority is doubled this often at most.
const MOST_DOUBLED: u32 = 3;
