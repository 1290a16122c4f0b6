//! The waits of contenders: slices, turns, and the hand-over in one round trip.
//!
//! - *Slices.* A request waits for a while (WAIT), its place outlasts it (KEEP), and the same token asks again.
//!   So a place depends on no connection, and a gate without an answer by the end of a slice is silent.
//! - *Turn.* Contenders queue at the gate. The gate tells the next in line (TURN), which then asks all nodes,
//!   without TURN, and waits there in young slices, while the holder still holds. When the holder releases
//!   everywhere, all nodes grant at once. A single node has no turns.
//! - *In order.* While its holder has asked with TURN only, and so not yet the other nodes, the gate tells no
//!   waiter its turn. So the next in line asks the other nodes after the holder's request was at the gate. If
//!   no indirect way is shorter than the direct one, it also asks them after the holder did.
//! - *A grant counts from its own request,* even if it was blocked: the lease began when it was sent or later.
//!   An answer belongs to a request and never to a token. A grant that is old on arrival is asked for again,
//!   without waiting, and that answer counts; the turn stays.
//! - *Leases that wait are short:* two slices, at least a second, and never longer than KEEP, which a node
//!   refuses. So a waiter that is stopped or crashes costs the queue this time, and not a whole lease. The
//!   winner extends it to its own lease in the background, or at once if it wants one lease without renewal.
//!   Until it has won, it asks again for grants that get old: an ACQUIRE by the holder always renews.
//! - *One proposal* for all nodes and slices: fixed at the turn, above the key's largest fence at the gate. A
//!   new one for each slice would differ from node to node, and cost a second round.
//! - *A denial leaves a place,* and so does TURN. A client that gives up sends RELEASE there, too, with FINAL
//!   if a blocked request is unanswered, because RELEASE can overtake that.
//! - *Ties.* All clients have the nodes in the same order, and the gate is the first that answers. Clients that
//!   see different nodes, or write their addresses differently, queue at different gates, and each can get
//!   nodes that another lacks. So a client withdraws everything after a random time with grants and no
//!   majority: half a time-out to a whole one. It rests for a random time, and queues anew with another token:
//!   a late RELEASE of the former token releases nothing.
//! - *The price.* If a node has forgotten its healthy holder and grants to a waiter, the waiter loses its
//!   place. The holder gets the node back meanwhile.

use crate::limits::MAX_KEEP;
use crate::words::Millis;

/// The terms of a request's wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wait {
    /// WAIT: the longest time that the node blocks the request. `None`: the node answers at once.
    pub blocks: Option<Millis>,
    /// KEEP: the time that its place outlasts it. `None`: no place.
    pub keep: Option<Millis>,
    /// TURN: the node also answers when the request is the next in line.
    pub turn: bool,
}

/// The lengths of slices, and their terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slices {
    /// The slice of a request that queues at the gate.
    pub long: Millis,
    /// The slice of the next in line.
    pub young: Millis,
    /// The time that a place outlasts its request.
    pub keep: Millis,
    /// The length of the lease in slices, at most `keep`.
    pub lease: Millis,
}

impl Slices {
    /// The slices for a lease of `ttl` over so many nodes, with a time-out of `timeout` for each.
    #[must_use]
    pub fn new(ttl: Millis, timeout: Millis, nodes: usize) -> Slices {
        // A grant at the end of a slice must still be young, however patient the client is.
        let long = Millis(LONGEST.max(timeout.0).min(MAX_KEEP / 2).min(ttl.0 / 5 * 2).max(1));
        // A single node has no turns: any slice may be granted.
        let quarter = Millis((long.0 / 4).max(YOUNG).max(timeout.0));
        let young = if nodes == 1 { long } else { quarter.min(long) };
        // A winner needs the time to extend it.
        let lease = Millis((young.0 * 2).max(LEAST).min(ttl.0));
        // A client without an answer detects this a time-out after the slice.
        let keep = long.0.saturating_add(long.0.max(timeout.0)).min(MAX_KEEP);
        Slices { long, young, keep: Millis(keep.max(lease.0)), lease }
    }

    /// A long slice, a tenth longer or shorter at random, so that many clients do not ask all at once.
    #[must_use]
    pub fn jittered(&self, chance: u64) -> Millis {
        let tenth = self.long.0 / 10;
        Millis(self.long.0 - tenth + chance % (2 * tenth + 1))
    }
}

/// The longest slice, in milliseconds.
const LONGEST: u64 = 5_000;
/// The shortest slice of the next in line, in milliseconds, unless its lease is shorter than that.
const YOUNG: u64 = 500;
/// The shortest lease of a waiting request in milliseconds, if the client wants a longer one.
const LEAST: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_that_vanishes_costs_two_slices_and_no_more_than_its_lease() {
        for (ttl, timeout, slices) in of_all_kinds() {
            assert!(slices.lease.0 <= ttl && slices.lease.0 <= LEAST.max(2 * slices.young.0));
            assert!(slices.lease <= slices.keep && slices.keep.0 <= MAX_KEEP, "{slices:?}");
            let timeout = timeout.min(MAX_KEEP / 2);
            assert!(slices.keep.0 >= slices.long.0 + timeout);
            let longest = (slices.long.0 * 2).max(slices.long.0 + timeout).max(slices.lease.0);
            assert!(slices.keep.0 <= longest, "{slices:?}");
            assert!(slices.young.0 >= timeout.min(ttl * 2 / 5) && slices.young <= slices.long);
        }
    }

    #[test]
    fn what_is_granted_at_the_end_of_the_longest_slice_has_much_of_its_lease_left() {
        for (ttl, timeout, slices) in of_all_kinds() {
            let at_the_gate = (0..100_000).map(|chance| slices.jittered(chance)).max();
            // Over several nodes a client that queues at the gate gets no grant.
            let alone = slices.young == slices.long;
            let slice = at_the_gate.filter(|_| alone).unwrap_or(slices.young);
            assert!(slices.lease.0 * 5 >= slice.0 * 9, "ttl {ttl}, time-out {timeout}: {slices:?}");
        }
    }

    fn of_all_kinds() -> impl Iterator<Item = (u64, u64, Slices)> {
        let leases = [(10, 50), (100, 50), (1_000, 50), (2_000, 10_000), (10_000, 500)];
        let long = [(30_000, 1_000), (86_400_000, 1_000), (86_400_000, 3_600_000)];
        let kinds = leases.into_iter().chain(long);
        let slices = |nodes| {
            move |(ttl, timeout)| (ttl, timeout, Slices::new(Millis(ttl), Millis(timeout), nodes))
        };
        kinds.clone().map(slices(1)).chain(kinds.map(slices(5)))
    }

    #[test]
    fn ten_thousand_waiters_with_leases_of_ten_seconds_ask_less_than_3500_times_a_second() {
        let slices = Slices::new(Millis(10_000), Millis(500), 1);
        let shortest = (0..10_000).map(|chance| slices.jittered(chance).0).min();
        assert!(shortest.is_some_and(|shortest| 10_000 * 1_000 / shortest < 3_500));
        let mean: u64 = (0..8_000).map(|chance| slices.jittered(chance).0).sum::<u64>() / 8_000;
        assert!(mean.abs_diff(slices.long.0) < slices.long.0 / 20);
        let longest = (0..10_000).map(|chance| slices.jittered(chance).0).max();
        assert_eq!((shortest, longest), (Some(3_600), Some(4_400)));
    }

    #[test]
    fn the_shortest_slice_has_no_tenth() {
        assert_eq!(Slices::new(Millis(1), Millis(1), 1).jittered(7), Millis(1));
    }
}
