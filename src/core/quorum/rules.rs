//! The conditions of a claim, and its validity.
//!
//! Each rule is a function of its own. The proof replaces one at a time by a plausible mutant, and must detect
//! each.

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::words::{Fence, Instant, Millis};

/// The rules.
///
/// The argument for exclusive locks: two claims share a node, where one holder came after the other. While the
/// first still held, the node's counter was raised to the first claim's fence. So the second holder got a
/// larger fence from this node, and no claim has a smaller fence than a holder it counts. So the second claim's
/// fence is larger than the first's.
pub trait Rules: Clone + Debug {
    /// The smallest number of nodes that is a majority.
    fn majority(&self, nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// The claim's fence, once a majority has granted: the majority-th smallest of the granted fences. So at
    /// least a majority has granted no larger one.
    fn claimed(&self, granted: &[Fence], majority: usize) -> Option<Fence> {
        let mut fences: Vec<Fence> = granted.into();
        fences.sort_unstable();
        fences.get(majority.checked_sub(1)?).copied()
    }

    /// True if a node supports the claim: its holder has exactly this fence, by its grant or a raise. A larger
    /// grant never counts: the node may have supported another client's claim in between.
    fn supports(&self, held: Fence, claimed: Fence) -> bool {
        held == claimed
    }

    /// True if a node's lease keeps a claim that stands. A majority has reached its fence already, so no later
    /// claim has a smaller one. From then on leases exclude other clients, even a lease that a node lost and
    /// granted again.
    fn keeps(&self, held: Fence, claimed: Fence) -> bool {
        held >= claimed
    }

    /// True if a lease without a gap since then supports the claim at a moment when another lease may have
    /// ended early. A lease that was granted again later may have had its gap then.
    fn is_steady(&self, since: Instant, moment: Instant) -> bool {
        since <= moment
    }

    /// True if a node's first grant supports the claim for all the time since it stands, though the grant came
    /// later. The same answer tells if a grant with a new fence continues the one before. Both hold unless its
    /// fence is larger than the claim's: if a later claim had counted the node before, the node would have
    /// granted a larger fence.
    fn vouches_back(&self, granted: Fence, claimed: Fence) -> bool {
        granted <= claimed
    }

    /// True if a claim on grants to blocked requests is good enough, with this many µs left. If not, the client
    /// asks for the grants again.
    fn is_young(&self, left: u64, lease: Millis) -> bool {
        left >= lease.0 * 250
    }

    /// True if an answer to a request counts: only the newest request's does, because others are older.
    fn counts_for(&self, answered: u32, newest: u32) -> bool {
        answered == newest
    }

    /// The proposal to all nodes in one turn: fixed at its beginning, and not made anew.
    fn proposes(&self, fixed: Fence, _now: Fence) -> Fence {
        fixed
    }

    /// True if a first attempt needs the gate's grant. An attempt that waits needs it, because it must not
    /// overtake the queue there. Without a wait, the next try may be a day later, and a gate may deny only
    /// because a RELEASE has not reached it yet.
    fn minds_gate(&self, waits: bool) -> bool {
        waits
    }

    /// True if a client with grants and no majority withdraws after a while. Another client may have the
    /// missing nodes, and wait for these.
    fn withdraws(&self) -> bool {
        true
    }

    /// The number of the attempt after this one. Each attempt has its own token: otherwise a late RELEASE of
    /// the attempt before would release its grants.
    fn next_attempt(&self, attempt: u32) -> u32 {
        attempt + 1
    }

    /// The length of a rest, or of the patience with grants without a majority, in µs: random, from half of
    /// `most` to all of it. Two clients that block each other must not do so again at the same moment.
    fn at_random(&self, most: u64, chance: u64) -> u64 {
        most / 2 + chance % (most / 2 + 1)
    }

    /// The earliest beginning of a lease that was requested at `sent`.
    fn begins(&self, sent: Instant, _answered: Instant) -> Instant {
        sent
    }

    /// The earliest end, by the node's clock, of a lease that began then.
    fn ends(&self, begun: Instant, ttl: Millis) -> Instant {
        let length = ttl.0.saturating_mul(1000).saturating_sub(self.drift(ttl));
        Instant(begun.0.saturating_add(length))
    }

    /// The earliest end of a lease that its node lacks. The node grants the lock to other clients as soon as its
    /// quarantine has ended.
    fn lacks(&self, end: Instant, quarantine: Instant) -> Instant {
        end.min(quarantine)
    }

    /// End of the time in which a majority supports the claim, by the ends of the supporters' leases.
    fn until(&self, ends: &[Instant], majority: usize) -> Option<Instant> {
        let mut ends: Vec<Instant> = ends.into();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends.get(majority.checked_sub(1)?).copied()
    }

    /// The pause before the next renewal: a third of the µs `left` of the claim. If the renewal fails, several
    /// tries follow, in shorter and shorter intervals. But an interval is at least a fixed part of the `of` µs
    /// of validity at the last renewal.
    fn pause(&self, left: u64, of: u64) -> u64 {
        (left / 3).max(of / MOST_TRIES).max(1)
    }

    /// The drift allowed between the nodes' clocks and ours during a lease, in microseconds: one per cent, and
    /// two milliseconds for the clocks' resolution.
    fn drift(&self, ttl: Millis) -> u64 {
        ttl.0.saturating_mul(10) + 2_000
    }

    /// The number of completion records that make a lock done.
    fn records(&self, nodes: usize) -> usize {
        self.majority(nodes)
    }

    /// True if two completion records are of the same claim, so that they add up.
    fn is_same_work(&self, fence: Fence, other: Fence) -> bool {
        fence == other
    }

    /// True if a node with the record of `other` can never get the record of `fence` later: when that claim was
    /// made, the claim of `fence` was over.
    fn outdates(&self, other: Fence, fence: Fence) -> bool {
        other > fence
    }

    /// True if a lock may be done, or may still become so, by this many records of one claim, where `others` of
    /// the `nodes` certainly have none. A holder may be about to finish with DONE, and a silent node may have
    /// the missing record.
    fn may_be_done(&self, _records: usize, others: usize, nodes: usize) -> bool {
        nodes - others >= self.majority(nodes)
    }

    /// True if a node ceases to support the claim at once when it reports that the lease is gone.
    fn believes_gone(&self) -> bool {
        true
    }

    /// True if a claim that was given up is released also at nodes that have not answered.
    fn releases_unanswered(&self) -> bool {
        true
    }
}

/// The rules in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

impl Rules for Sound {}

/// The largest number of parts into which renewals cut a claim's validity.
const MOST_TRIES: u64 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_at_least_half_as_long_as_it_may_be() {
        for most in [10_000, 250_000, 1_000_000] {
            for chance in [0, 1, most - 1, most, u64::MAX] {
                assert!((most / 2..=most).contains(&Sound.at_random(most, chance)));
            }
        }
    }
}
