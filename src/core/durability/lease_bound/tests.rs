//! The bound, judged by the grants and by the forced writes.

use core::iter;

use proptest::prelude::*;

use super::*;

/// A minute in µs, like all times; leases are in ms.
const MINUTE: u64 = 60_000_000;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// A bound, and the time in µs.
struct WithFile {
    bound: LeaseBound,
    max_ttl: Millis,
    now: u64,
}

impl WithFile {
    fn new() -> WithFile {
        WithFile { bound: LeaseBound::default(), max_ttl: Millis(DAY), now: 0 }
    }

    /// Grants a lease of this length. True if the state file had to be written before.
    fn grant(&mut self, ttl: u64) -> bool {
        let ttl = Millis(ttl);
        let writes = !self.bound.covers(ttl);
        if writes {
            let next = self.bound.raise(ttl, self.max_ttl, Instant(self.now));
            self.bound.asked(next);
            self.bound.promise(next);
            assert!(self.bound.covers(ttl), "the written bound is enough");
        }
        self.bound.saw(ttl);
        writes
    }

    /// Writes the file so many minutes later, while leases with this time left are held.
    fn write_after(&mut self, minutes: u64, held: u64) -> u64 {
        self.now += minutes * MINUTE;
        let next = self.bound.renew(Millis(held), self.max_ttl, Instant(self.now));
        self.bound.asked(next);
        self.bound.promise(next);
        next.0
    }

    fn said(&self) -> u64 {
        self.bound.said().0
    }
}

#[test]
fn a_longer_lease_needs_a_larger_bound() {
    let mut node = WithFile::new();
    assert!(node.grant(10_000));
    assert_eq!(node.said(), 10_240);
    assert!(!node.grant(10_240));
    assert!(node.grant(10_241));
}

#[test]
fn a_bound_that_grows_again_within_a_minute_grows_to_a_power_of_two() {
    for (later, said) in [(MINUTE - 1, 16_384), (MINUTE, 10_240)] {
        let mut node = WithFile::new();
        node.grant(9_000);
        assert_eq!(node.said(), 9_216);
        node.now += later;
        node.grant(9_500);
        assert_eq!(node.said(), said, "{later} µs later");
    }
}

#[test]
fn ever_longer_leases_are_written_a_few_times_only() {
    let mut node = WithFile::new();
    let longer = iter::successors(Some(1_u64), |ttl| Some(ttl + ttl / 9 + 1));
    let longer = longer.take_while(|ttl| *ttl <= DAY);
    assert!(longer.clone().count() > 150);
    let writes = longer.filter(|ttl| node.grant(*ttl)).count();
    assert!(writes <= 28, "{writes} writes");
}

#[test]
fn rounding_stays_within_the_longest_new_lease() {
    // Just above a power of two, and a number without four significant digits: both are rounded up.
    for (first, second) in [(HOUR - 2, HOUR - 1), (HOUR, HOUR)] {
        let mut node = WithFile::new();
        node.max_ttl = Millis(HOUR);
        node.grant(first);
        node.grant(second);
        assert!((second..=HOUR).contains(&node.said()), "{}", node.said());
        assert!((second..=HOUR).contains(&node.write_after(1, second)), "{}", node.said());
    }
}

#[test]
fn a_lease_from_elsewhere_raises_the_bound_beyond_the_longest_new_lease() {
    let mut node = WithFile::new();
    node.max_ttl = Millis(HOUR);
    node.bound.saw(Millis(DAY));
    assert!(!node.bound.is_said() && node.bound.is_stale(Instant(0)));
    assert!(node.grant(10), "nothing is granted before the file covers it");
    assert_eq!(node.said(), DAY, "and a crash costs no more than that lease");
    assert_eq!(node.write_after(1, DAY - 7), DAY);
}

#[test]
fn it_shrinks_when_the_long_lease_is_over_and_forgotten() {
    let mut node = WithFile::new();
    node.write_after(0, 0);
    node.grant(50_000);
    for minutes in [4, 2, 4] {
        node.write_after(minutes, 10);
        assert!(node.bound.covers(Millis(50_000)), "after {minutes} more minutes");
    }
    assert_eq!(node.write_after(2, 10), 10);
}

#[test]
fn after_a_restart_only_the_held_leases_count() {
    let mut node = WithFile::new();
    node.bound.saw(Millis(100_000));
    node.bound.restart(Millis(10));
    assert_eq!(node.write_after(0, 0), 10);
}

#[test]
fn it_is_renewed_once_in_a_period() {
    let mut node = WithFile::new();
    assert!(node.bound.is_stale(Instant(0)), "nothing is written yet");
    node.grant(10);
    node.write_after(0, 0);
    for (at, stale) in [(0, false), (1, false), (5 * MINUTE, false), (5 * MINUTE + 1, true)] {
        assert_eq!(node.bound.is_stale(Instant(at)), stale, "after {at} µs");
    }
}

proptest! {
    #[test]
    fn it_is_rounded_by_an_eighth_at_most(ms in 0..u64::from(u32::MAX) * 2) {
        let rounded = rounded_up(Millis(ms));
        prop_assert!(rounded.0 >= ms && rounded.0 - ms <= ms / 8, "{ms} {rounded:?}");
        prop_assert_eq!(rounded_up(rounded), rounded);
    }
}
