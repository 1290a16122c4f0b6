//! The bound, judged by what is granted and what has to be written for it.

use alloc::vec::Vec;
use core::iter;

use super::*;

/// In µs, like all that is said of the clock; leases are in ms.
const MINUTE: u64 = 60_000_000;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// A bound, and what time it is in µs.
#[derive(Default)]
struct WithFile {
    tracker: BoundTracker,
    now: u64,
}

impl WithFile {
    /// A lease of this length is granted to a user. Whether it was; and whether something had to be
    /// written.
    fn grant_to(&mut self, owner: u64, name: &str, ttl: u64) -> (bool, bool) {
        let (name, ttl) = (name.as_bytes(), Millis(ttl));
        let writes = !self.tracker.covers(name, ttl);
        if writes {
            let (key, owner) = (KeyHash::of(name), Some(Owner(owner)));
            let longer = Longer { key, ttl, owner, usual_ttl: HOUR };
            let Ok(bound) = self.tracker.raise(longer, Instant(self.now)) else {
                return (false, false);
            };
            self.tracker.asked(&bound);
            self.tracker.promise(bound);
            assert!(self.tracker.covers(name, ttl), "what was written is enough");
        }
        self.tracker.saw(name, ttl, HOUR);
        (true, writes)
    }

    fn grant(&mut self, name: &str, ttl: u64) -> bool {
        let (granted, writes) = self.grant_to(1, name, ttl);
        assert!(granted, "{name} {ttl}");
        writes
    }

    /// So many minutes later the file is written, while these leases are held.
    fn write_after(&mut self, minutes: u64, held: &[(u64, &str)]) -> LeaseBound {
        self.now += minutes * MINUTE;
        let held = held.iter().map(|(left, name)| (Millis(*left), name.as_bytes()));
        let next = self.tracker.renew(&LeaseBound::default(), held, HOUR, Instant(self.now));
        self.tracker.asked(&next);
        self.tracker.promise(next.clone());
        next
    }

    fn usual(&self) -> u64 {
        self.tracker.said().usual().0
    }

    fn long(&self) -> Vec<u64> {
        let mut long: Vec<u64> = self.tracker.said().long().map(|(_, ms)| ms.0).collect();
        long.sort_unstable();
        long
    }
}

#[test]
fn a_longer_lease_needs_a_larger_bound() {
    let mut node = WithFile::default();
    assert!(node.grant("a", 10_000));
    assert_eq!(node.usual(), 10_240);
    assert!(!node.grant("b", 10_240));
    assert!(node.grant("b", 10_241));
}

#[test]
fn what_grows_again_within_a_minute_grows_to_a_power_of_two() {
    for (later, usual) in [(MINUTE - 1, 16_384), (MINUTE, 10_240)] {
        let mut node = WithFile::default();
        node.grant("a", 9_000);
        assert_eq!(node.usual(), 9_216);
        node.now += later;
        node.grant("a", 9_500);
        assert_eq!(node.usual(), usual, "{later} µs later");
    }
}

#[test]
fn a_long_lease_costs_its_own_key_and_no_other() {
    let mut node = WithFile::default();
    node.grant("a", 30_000);
    assert!(node.grant("b", DAY));
    assert!(!node.grant("b", DAY), "it is said already");
    assert_eq!((node.usual(), node.long().len()), (30_720, 1));
    assert_eq!(node.tracker.said().of(KeyHash::of(b"a")), Millis(30_720));
    assert!(node.tracker.said().of(KeyHash::of(b"b")) >= Millis(DAY));
}

#[test]
fn what_many_keys_have_is_usual_but_no_more_than_the_operator_says() {
    let mut node = WithFile::default();
    for n in 0..FEW_LONG_KEYS {
        node.grant(&alloc::format!("few{n}"), HOUR);
    }
    assert_eq!((node.usual(), node.long().len()), (0, FEW_LONG_KEYS));
    node.grant("more", HOUR);
    assert_eq!(node.usual(), HOUR);
    assert_eq!(node.long().len(), 0, "nobody has more than what is usual");
    assert!(!node.grant("another", HOUR));
    node.grant("longer", HOUR + HOUR / 2);
    assert_eq!(node.long().len(), 1);
}

/// Takes long leases at ever new keys, until there is no more room. How many.
fn fill(node: &mut WithFile, owner: u64) -> usize {
    let name = |n| alloc::format!("{owner} {n}");
    (0..).take_while(|n| node.grant_to(owner, &name(*n), 2 * HOUR).0).count()
}

#[test]
fn nobody_takes_more_long_leases_than_are_left_for_others() {
    let mut node = WithFile::default();
    assert_eq!(fill(&mut node, 1), MAX_LONG_KEYS / 2);
    node.now += 2 * MINUTE;
    assert_eq!(node.grant_to(1, "one more", 2 * HOUR), (false, false));
    assert_eq!(node.grant_to(1, "one more", HOUR), (true, true), "that is usual");
    assert_eq!(node.grant_to(1, "1 0", 3 * HOUR), (true, true), "a key that has one already");
    assert_eq!(fill(&mut node, 2), MAX_LONG_KEYS / 4);
    assert_eq!(node.grant_to(3, "a third", DAY), (true, true));
    assert!(node.tracker.said().long_keys() <= MAX_LONG_KEYS);
}

#[test]
fn what_arrives_is_never_refused() {
    let mut node = WithFile::default();
    let all: Vec<_> = (0..2 * MAX_LONG_KEYS).map(|n| alloc::format!("{n}")).collect();
    for name in &all {
        node.tracker.saw(name.as_bytes(), Millis(DAY), HOUR);
    }
    assert!(!node.tracker.is_said() && node.tracker.is_stale(Instant(0)));
    let said = node.write_after(0, &[]);
    assert!(all.iter().all(|name| said.of(KeyHash::of(name.as_bytes())) >= Millis(DAY)));
}

#[test]
fn the_leases_that_are_held_are_told_apart_as_far_as_there_is_room() {
    let mut node = WithFile::default();
    let names: Vec<_> = (0..MAX_LONG_KEYS + 1).map(|n| alloc::format!("{n}")).collect();
    let held = |keys: usize| -> Vec<(u64, &str)> {
        names.iter().take(keys).map(|name| (DAY, &**name)).collect()
    };
    let mut many = held(MAX_LONG_KEYS);
    many.extend([(50_000, "short"), (40_000, "shorter")]);
    let said = node.write_after(0, &many);
    assert_eq!((said.long_keys(), said.usual()), (MAX_LONG_KEYS, rounded_up(Millis(50_000))));
    let said = node.write_after(0, &held(MAX_LONG_KEYS + 1));
    assert!(said.long_keys() == 0 && said.usual() >= Millis(DAY));
}

#[test]
fn it_shrinks_when_the_long_lease_is_over_and_forgotten() {
    for (ttl, keys) in [(50_000, 0), (100_000, 1)] {
        let mut node = WithFile::default();
        node.write_after(0, &[]);
        node.grant("a", ttl);
        for minutes in [4, 2, 4] {
            node.write_after(minutes, &[(10, "b")]);
            assert!(node.tracker.covers(b"a", Millis(ttl)), "after {minutes} more minutes");
            assert_eq!(node.long().len(), keys);
        }
        assert_eq!(node.write_after(2, &[(10, "b")]), LeaseBound::usual_of(Millis(10)));
    }
}

#[test]
fn it_does_not_shrink_below_what_is_held_and_an_exception_not_at_all_till_then() {
    let mut node = WithFile::default();
    node.grant("a", 50_000);
    node.grant("b", HOUR);
    for minute in 0..50 {
        node.write_after(1, &[(HOUR - minute * 60_000, "b"), (50_000, "c")]);
        assert!(node.tracker.covers(b"b", Millis(HOUR)), "after {minute} minutes");
        assert_eq!(node.usual(), 53_248, "it costs nobody else anything");
    }
    for minute in 0..10 {
        node.write_after(1, &[(45_000 - minute * 1_000, "c")]);
    }
    assert_eq!((node.usual(), node.long()), (36_864, Vec::new()));
}

#[test]
fn under_pressure_exceptions_are_forgotten_sooner_and_what_is_usual_is_not() {
    let mut node = WithFile::default();
    node.write_after(0, &[]);
    node.grant("usual", 50_000);
    let all = fill(&mut node, 1);
    assert!(!node.tracker.is_stale(Instant(MINUTE)));
    assert!(node.tracker.is_stale(Instant(MINUTE + 1)));
    assert_eq!(node.write_after(2, &[]).long_keys(), all);
    assert_eq!(node.write_after(2, &[]).long_keys(), 0);
    assert!(node.tracker.covers(b"usual", Millis(50_000)));
    assert!(fill(&mut node, 1) > 0);
}

#[test]
fn ever_longer_leases_are_written_a_few_times_only() {
    let mut node = WithFile::default();
    let longer = || iter::successors(Some(1_u64), |ttl| Some(ttl + ttl / 9 + 1));
    let up_to = |most| longer().take_while(move |ttl| *ttl <= most);
    assert!(up_to(DAY).count() > 150);
    let usual = up_to(60_000).filter(|ttl| node.grant("job", *ttl)).count();
    let long = up_to(DAY).filter(|ttl| *ttl > 60_000 && node.grant("job", *ttl)).count();
    // One of them stops at what is usual.
    assert!(usual <= 17 && long <= 13, "{usual} and {long} writes");
}

#[test]
fn a_user_forces_so_many_writes_within_a_minute_and_takes_none_from_others() {
    let mut node = WithFile::default();
    let mut writes = 0;
    for n in 0..10_000_u64 {
        let (name, ttl) = (alloc::format!("{}", n % 40), 61_000 + n * 8_000);
        writes += u64::from(node.grant_to(1, &name, ttl.min(DAY)).1);
    }
    // The usual bound grows as well, where there is no more to be had.
    let usual = 12;
    assert!((MAX_LONG_WRITES..=MAX_LONG_WRITES + usual).contains(&writes), "{writes}");
    assert_eq!(node.grant_to(1, "mine", DAY), (false, false));
    assert_eq!(node.grant_to(2, "hers", DAY), (true, true));
    node.now += MINUTE - 1;
    assert_eq!(node.grant_to(1, "mine", DAY), (false, false));
    node.now += 1;
    assert_eq!(node.grant_to(1, "mine", DAY), (true, true));
}

#[test]
fn where_the_operator_allows_less_than_a_minute_for_all_longer_ones_are_exceptions() {
    let mut bound = BoundTracker::default();
    let longer = |ttl, usual_ttl| {
        let (key, owner) = (KeyHash::of(b"a"), Some(Owner(1)));
        Longer { key, ttl: Millis(ttl), owner, usual_ttl }
    };
    assert_eq!(bound.raise(longer(60_000, HOUR), Instant(0)).unwrap().long_keys(), 0);
    assert_eq!(bound.raise(longer(60_000, 10_000), Instant(0)).unwrap().long_keys(), 1);
}

#[test]
fn while_another_one_is_being_written_the_smaller_counts() {
    for (before, after, covered) in [(100, 50, 50), (50, 100, 50)] {
        let (before, after) = (Millis(before), Millis(after));
        let mut bound = BoundTracker::default();
        bound.promise(LeaseBound::usual_of(before));
        bound.asked(&LeaseBound::usual_of(after));
        assert!(bound.covers(b"a", Millis(covered)) && !bound.covers(b"a", Millis(covered + 1)));
        bound.promise(LeaseBound::usual_of(after));
        assert!(bound.covers(b"a", after));
    }
}

#[test]
fn what_was_heard_of_is_written_before_anything_is_granted() {
    for (ttl, said) in [(70, 72), (70_000, 73_728)] {
        let mut node = WithFile::default();
        node.tracker.promise(LeaseBound::usual_of(Millis(50)));
        node.tracker.saw(b"a", Millis(ttl), HOUR);
        assert!(node.tracker.is_stale(Instant(0)) && !node.tracker.covers(b"b", Millis(10)));
        assert!(node.grant("b", 10), "{ttl}");
        assert_eq!(node.tracker.said().of(KeyHash::of(b"a")), Millis(said));
    }
}

#[test]
fn after_a_restart_only_what_is_held_counts() {
    let mut node = WithFile::default();
    node.tracker.saw(b"a", Millis(100_000), HOUR);
    node.tracker.restart(LeaseBound::usual_of(Millis(10)));
    assert_eq!(node.write_after(0, &[]), LeaseBound::usual_of(Millis(10)));
}

#[test]
fn it_is_looked_at_again_once_in_a_period_and_not_all_the_time() {
    let mut node = WithFile::default();
    assert!(node.tracker.is_stale(Instant(0)), "nothing has been said yet");
    node.grant("a", 10);
    node.grant("b", DAY);
    node.write_after(0, &[]);
    for (at, stale) in [(0, false), (1, false), (5 * MINUTE, false), (5 * MINUTE + 1, true)] {
        assert_eq!(node.tracker.is_stale(Instant(at)), stale, "after {at} µs");
    }
}

#[test]
fn a_write_for_leases_of_others_is_no_write_of_who_asks_for_what_is_said() {
    let mut node = WithFile::default();
    assert!(node.grant("mine", DAY));
    let said = node.tracker.said().longest().0;
    for n in 0..MAX_LONG_WRITES {
        // This lease was not granted here, and is not written yet.
        node.tracker.saw(alloc::format!("theirs {n}").as_bytes(), Millis(DAY), HOUR);
        assert_eq!(node.grant_to(1, "mine", said), (true, true));
    }
    assert!(node.grant("one more", DAY));
}

#[test]
fn who_has_forced_too_many_writes_is_still_granted_what_is_usual() {
    let mut node = WithFile::default();
    while node.grant_to(1, &alloc::format!("{}", node.long().len()), DAY).0 {}
    node.tracker.restart(LeaseBound::default());
    node.tracker.promise(LeaseBound::default());
    assert_eq!(node.grant_to(1, "longer", HOUR + 1), (false, false));
    assert_eq!(node.grant_to(1, "usual", HOUR), (true, true));
    assert!(node.usual() >= HOUR && node.long().is_empty());
}

#[test]
fn rounding_never_lets_all_keys_wait_longer_than_is_usual() {
    // Just above a power of two, and not a number with four digits: both are rounded up.
    for (first, second) in [(HOUR - 2, HOUR - 1), (HOUR, HOUR)] {
        let mut node = WithFile::default();
        // So many exceptions that what comes next is usual.
        for key in 0..FEW_LONG_KEYS {
            node.grant(&std::format!("long {key}"), 2 * HOUR);
        }
        node.grant("one", first);
        node.grant("again", second);
        assert!((second..=HOUR).contains(&node.usual()), "{}", node.usual());
        let next = node.write_after(1, &[(second, "again")]);
        assert!((second..=HOUR).contains(&next.usual().0), "{next:?}");
    }
}
