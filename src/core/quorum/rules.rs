//! What makes a claim stand, and for how long.
//!
//! Each rule is a function of its own. The proof replaces one at a time by something plausible,
//! and must notice each time.

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::words::{Fence, Instant, Millis};

/// The rules.
///
/// Why they hold for exclusive locks. Two claims share a node, and there one holder came after the
/// other. While the first still held, the node's counter was raised to the first claim's fence; so
/// the second holder got a larger fence from it, and no claim has a fence below that of a holder
/// it counts. So the second claim's fence is larger than the first's.
pub trait Rules: Clone + Debug {
    /// How many nodes are more than half of them.
    fn majority(&self, nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// The claim's fence, once a majority has granted: the majority-th smallest of what they
    /// granted. So at least a majority has not granted more.
    fn claimed(&self, granted: &[Fence], majority: usize) -> Option<Fence> {
        let mut fences: Vec<Fence> = granted.into();
        fences.sort_unstable();
        fences.get(majority.checked_sub(1)?).copied()
    }

    /// Whether a node supports the claim: its holder has this very fence, by its grant or because
    /// it was raised to it. A grant above the claim never counts: the node may have vouched for
    /// somebody between.
    fn supports(&self, held: Fence, claimed: Fence) -> bool {
        held == claimed
    }

    /// Whether a node's lease keeps a claim that stands. A majority knows its fence already, so that
    /// no later claim has a smaller one; from then on it is leases that keep others out, also one
    /// that a node lost and gave again.
    fn keeps(&self, held: Fence, claimed: Fence) -> bool {
        held >= claimed
    }

    /// Whether a lease that is known to have held without a gap since then vouches for a moment at which
    /// another one may have ended too early. One that was given again later may have had its gap then.
    fn is_steady(&self, since: Instant, moment: Instant) -> bool {
        since <= moment
    }

    /// Whether a node's first grant vouches for all the time since the claim stands, though it came
    /// later; and whether one with a new fence goes on with the grant before. It does unless its fence
    /// is larger than the claim's: had a later claim counted the node before, the node would have given
    /// a larger one.
    fn vouches_back(&self, granted: Fence, claimed: Fence) -> bool {
        granted <= claimed
    }

    /// Whether a claim is good enough that rests on grants to blocked requests, with so many µs left of
    /// it. They are asked for again if not.
    fn is_young(&self, left: u64, lease: Millis) -> bool {
        left >= lease.0 * 250
    }

    /// Whether an answer to one request counts for another, the newest one: what it tells is older.
    fn counts_for(&self, answered: u32, newest: u32) -> bool {
        answered == newest
    }

    /// Whether a place is left where a request with KEEP has ended with a no.
    fn leaves_place(&self) -> bool {
        true
    }

    /// What all nodes are asked for in one turn: what was fixed when it began, and not what would be
    /// proposed by now.
    fn proposes(&self, fixed: Fence, _now: Fence) -> Fence {
        fixed
    }

    /// Whether a first attempt needs the gate's yes. One that waits does, for it must not overtake those who
    /// queue there. The next try of one that does not wait may be a day later, and a gate that refuses may have
    /// nothing but what a release has not reached yet.
    fn minds_gate(&self, waits: bool) -> bool {
        waits
    }

    /// Whether one gives way that has its gate, and lacks a node before it. The other goes on.
    fn gives_way(&self, gate: usize, lacks: usize) -> bool {
        lacks < gate
    }

    /// Whether one that lacks its gate gives back what it has behind it: whoever has the gate may be in
    /// need of that.
    fn gives_back(&self) -> bool {
        true
    }

    /// Whether a node that was given back is asked for nothing until it has answered that. A RELEASE that
    /// is late would take back what it granted after.
    fn waits_for_return(&self) -> bool {
        true
    }

    /// For how long to rest, in µs, at most `most` and a half of that: never for the same time.
    fn rest(&self, most: u64, chance: u64) -> u64 {
        most / 2 + chance % most
    }

    /// When a lease begins, at the earliest, that was asked for at `sent`.
    fn begins(&self, sent: Instant, _answered: Instant) -> Instant {
        sent
    }

    /// When a lease that began then may be over by the node's clock, at the earliest.
    fn ends(&self, begun: Instant, ttl: Millis) -> Instant {
        let length = ttl.0.saturating_mul(1000).saturating_sub(self.drift(ttl));
        Instant(begun.0.saturating_add(length))
    }

    /// Until when a majority supports the claim, by when each supporter's lease ends.
    fn until(&self, ends: &[Instant], majority: usize) -> Option<Instant> {
        let mut ends: Vec<Instant> = ends.into();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends.get(majority.checked_sub(1)?).copied()
    }

    /// When to renew a claim that stands for so many more µs of those that it had when it was renewed
    /// last: after a third of what is left. If that fails, there are several more tries, and the nearer
    /// the end the more, but not more often than so.
    fn pause(&self, left: u64, of: u64) -> u64 {
        (left / 3).max(of / MOST_TRIES)
    }

    /// Whether so many nodes refuse a longer lease that no majority of `nodes` can grant it.
    fn is_too_long(&self, refusing: usize, nodes: usize) -> bool {
        nodes - refusing < self.majority(nodes)
    }

    /// By how much the nodes' clocks may run ahead of ours during a lease, in microseconds: one
    /// per cent, and two milliseconds for what clocks cannot tell apart.
    fn drift(&self, ttl: Millis) -> u64 {
        ttl.0.saturating_mul(10) + 2_000
    }

    /// Whether a node that says that the lease is gone ceases to support the claim at once.
    fn believes_gone(&self) -> bool {
        true
    }

    /// Whether a claim that was given up is released at nodes that have not answered, too.
    fn releases_unanswered(&self) -> bool {
        true
    }
}

/// The rules as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

impl Rules for Sound {}

/// A claim's validity is cut into no more parts than so.
const MOST_TRIES: u64 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_half_as_long_as_it_may_be_and_up_to_as_much_again() {
        for most in [10_000, 250_000, 1_000_000] {
            for chance in [0, 1, most - 1, most, u64::MAX] {
                assert!((most / 2..most / 2 + most).contains(&Sound.rest(most, chance)));
            }
        }
    }

    #[test]
    fn a_lease_is_too_long_when_no_majority_is_left_for_it() {
        for (nodes, may_refuse) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3)] {
            for refusing in 0..=nodes {
                assert_eq!(Sound.is_too_long(refusing, nodes), refusing > may_refuse);
            }
        }
    }
}
