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
struct Book {
    bound: Bound,
    now: u64,
}

impl Book {
    /// A lease of this length is granted to a user. Whether it was; and whether something had to be
    /// written.
    fn grant_to(&mut self, owner: u64, name: &str, ttl: u64) -> (bool, bool) {
        let (name, ttl) = (name.as_bytes(), Millis(ttl));
        let writes = !self.bound.covers(name, ttl);
        if writes {
            let (key, owner) = (KeyHash::of(name), Some(Owner(owner)));
            let longer = Longer { key, ttl, owner, usual_ttl: HOUR };
            let Ok(bounds) = self.bound.raise(longer, Instant(self.now)) else {
                return (false, false);
            };
            self.bound.asked(&bounds);
            self.bound.promise(bounds);
            assert!(self.bound.covers(name, ttl), "what was written is enough");
        }
        self.bound.saw(name, ttl, HOUR);
        (true, writes)
    }

    fn grant(&mut self, name: &str, ttl: u64) -> bool {
        let (granted, writes) = self.grant_to(1, name, ttl);
        assert!(granted, "{name} {ttl}");
        writes
    }

    /// So many minutes later the file is written, while these leases are held.
    fn write_after(&mut self, minutes: u64, held: &[(u64, &str)]) -> Bounds {
        self.now += minutes * MINUTE;
        let held = held.iter().map(|(left, name)| (Millis(*left), name.as_bytes()));
        let next = self.bound.renew(&Bounds::default(), held, HOUR, Instant(self.now));
        self.bound.asked(&next);
        self.bound.promise(next.clone());
        next
    }

    fn usual(&self) -> u64 {
        self.bound.said().usual().0
    }

    fn long(&self) -> Vec<u64> {
        let mut long: Vec<u64> = self.bound.said().long().map(|(_, ms)| ms.0).collect();
        long.sort_unstable();
        long
    }
}

#[test]
fn a_longer_lease_needs_a_larger_bound() {
    let mut book = Book::default();
    assert!(book.grant("a", 10_000));
    assert_eq!(book.usual(), 10_240);
    assert!(!book.grant("b", 10_240));
    assert!(book.grant("b", 10_241));
}

#[test]
fn what_grows_again_within_a_minute_grows_to_a_power_of_two() {
    for (later, usual) in [(MINUTE - 1, 16_384), (MINUTE, 10_240)] {
        let mut book = Book::default();
        book.grant("a", 9_000);
        assert_eq!(book.usual(), 9_216);
        book.now += later;
        book.grant("a", 9_500);
        assert_eq!(book.usual(), usual, "{later} µs later");
    }
}

#[test]
fn a_long_lease_costs_its_own_key_and_no_other() {
    let mut book = Book::default();
    book.grant("a", 30_000);
    assert!(book.grant("b", DAY));
    assert!(!book.grant("b", DAY), "it is said already");
    assert_eq!((book.usual(), book.long().len()), (30_720, 1));
    assert_eq!(book.bound.said().of(KeyHash::of(b"a")), Millis(30_720));
    assert!(book.bound.said().of(KeyHash::of(b"b")) >= Millis(DAY));
}

#[test]
fn what_many_keys_have_is_usual_but_no_more_than_the_operator_says() {
    let mut book = Book::default();
    for n in 0..FEW_LONG_KEYS {
        book.grant(&alloc::format!("few{n}"), HOUR);
    }
    assert_eq!((book.usual(), book.long().len()), (0, FEW_LONG_KEYS));
    book.grant("more", HOUR);
    assert!((HOUR..=HOUR + HOUR / 8).contains(&book.usual()));
    assert_eq!(book.long().len(), 0, "nobody has more than what is usual");
    assert!(!book.grant("another", HOUR));
    book.grant("longer", HOUR + HOUR / 2);
    assert_eq!(book.long().len(), 1);
}

/// Takes long leases at ever new keys, until there is no more room. How many.
fn fill(book: &mut Book, owner: u64) -> usize {
    let name = |n| alloc::format!("{owner} {n}");
    (0..).take_while(|n| book.grant_to(owner, &name(*n), 2 * HOUR).0).count()
}

#[test]
fn nobody_takes_more_long_leases_than_are_left_for_others() {
    let mut book = Book::default();
    assert_eq!(fill(&mut book, 1), MAX_LONG_KEYS / 2);
    book.now += 2 * MINUTE;
    assert_eq!(book.grant_to(1, "one more", 2 * HOUR), (false, false));
    assert_eq!(book.grant_to(1, "one more", HOUR), (true, true), "that is usual");
    assert_eq!(book.grant_to(1, "1 0", 3 * HOUR), (true, true), "a key that has one already");
    assert_eq!(fill(&mut book, 2), MAX_LONG_KEYS / 4);
    assert_eq!(book.grant_to(3, "a third", DAY), (true, true));
    assert!(book.bound.said().long_keys() <= MAX_LONG_KEYS);
}

#[test]
fn what_arrives_is_never_refused() {
    let mut book = Book::default();
    let all: Vec<_> = (0..2 * MAX_LONG_KEYS).map(|n| alloc::format!("{n}")).collect();
    for name in &all {
        book.bound.saw(name.as_bytes(), Millis(DAY), HOUR);
    }
    assert!(!book.bound.is_said() && book.bound.is_stale(Instant(0)));
    let said = book.write_after(0, &[]);
    assert!(all.iter().all(|name| said.of(KeyHash::of(name.as_bytes())) >= Millis(DAY)));
}

#[test]
fn the_leases_that_are_held_are_told_apart_as_far_as_there_is_room() {
    let mut book = Book::default();
    let names: Vec<_> = (0..MAX_LONG_KEYS + 1).map(|n| alloc::format!("{n}")).collect();
    let held = |keys: usize| -> Vec<(u64, &str)> {
        names.iter().take(keys).map(|name| (DAY, &**name)).collect()
    };
    let mut many = held(MAX_LONG_KEYS);
    many.extend([(50_000, "short"), (40_000, "shorter")]);
    let said = book.write_after(0, &many);
    assert_eq!((said.long_keys(), said.usual()), (MAX_LONG_KEYS, rounded_up(Millis(50_000))));
    let said = book.write_after(0, &held(MAX_LONG_KEYS + 1));
    assert!(said.long_keys() == 0 && said.usual() >= Millis(DAY));
}

#[test]
fn it_shrinks_when_the_long_lease_is_over_and_forgotten() {
    for (ttl, keys) in [(50_000, 0), (100_000, 1)] {
        let mut book = Book::default();
        book.write_after(0, &[]);
        book.grant("a", ttl);
        for minutes in [4, 2, 4] {
            book.write_after(minutes, &[(10, "b")]);
            assert!(book.bound.covers(b"a", Millis(ttl)), "after {minutes} more minutes");
            assert_eq!(book.long().len(), keys);
        }
        assert_eq!(book.write_after(2, &[(10, "b")]), Bounds::usual_of(Millis(10)));
    }
}

#[test]
fn it_does_not_shrink_below_what_is_held_and_an_exception_not_at_all_till_then() {
    let mut book = Book::default();
    book.grant("a", 50_000);
    book.grant("b", HOUR);
    for minute in 0..50 {
        book.write_after(1, &[(HOUR - minute * 60_000, "b"), (50_000, "c")]);
        assert!(book.bound.covers(b"b", Millis(HOUR)), "after {minute} minutes");
        assert_eq!(book.usual(), 53_248, "it costs nobody else anything");
    }
    for minute in 0..10 {
        book.write_after(1, &[(45_000 - minute * 1_000, "c")]);
    }
    assert_eq!((book.usual(), book.long()), (36_864, Vec::new()));
}

#[test]
fn under_pressure_exceptions_are_forgotten_sooner_and_what_is_usual_is_not() {
    let mut book = Book::default();
    book.write_after(0, &[]);
    book.grant("usual", 50_000);
    let all = fill(&mut book, 1);
    assert!(!book.bound.is_stale(Instant(MINUTE)));
    assert!(book.bound.is_stale(Instant(MINUTE + 1)));
    assert_eq!(book.write_after(2, &[]).long_keys(), all);
    assert_eq!(book.write_after(2, &[]).long_keys(), 0);
    assert!(book.bound.covers(b"usual", Millis(50_000)));
    assert!(fill(&mut book, 1) > 0);
}

#[test]
fn ever_longer_leases_are_written_a_few_times_only() {
    let mut book = Book::default();
    let longer = || iter::successors(Some(1_u64), |ttl| Some(ttl + ttl / 9 + 1));
    let up_to = |most| longer().take_while(move |ttl| *ttl <= most);
    assert!(up_to(DAY).count() > 150);
    let usual = up_to(60_000).filter(|ttl| book.grant("job", *ttl)).count();
    let long = up_to(DAY).filter(|ttl| *ttl > 60_000 && book.grant("job", *ttl)).count();
    assert!(usual <= 17 && long <= 12, "{usual} and {long} writes");
}

#[test]
fn a_user_forces_so_many_writes_within_a_minute_and_takes_none_from_others() {
    let mut book = Book::default();
    let mut writes = 0;
    for n in 0..10_000_u64 {
        let (name, ttl) = (alloc::format!("{}", n % 40), 61_000 + n * 8_000);
        writes += u64::from(book.grant_to(1, &name, ttl.min(DAY)).1);
    }
    // The usual bound grows as well, where there is no more to be had.
    let usual = 12;
    assert!((MAX_LONG_WRITES..=MAX_LONG_WRITES + usual).contains(&writes), "{writes}");
    assert_eq!(book.grant_to(1, "mine", DAY), (false, false));
    assert_eq!(book.grant_to(2, "hers", DAY), (true, true));
    book.now += MINUTE - 1;
    assert_eq!(book.grant_to(1, "mine", DAY), (false, false));
    book.now += 1;
    assert_eq!(book.grant_to(1, "mine", DAY), (true, true));
}

#[test]
fn where_the_operator_allows_less_than_a_minute_for_all_longer_ones_are_exceptions() {
    let mut bound = Bound::default();
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
        let mut bound = Bound::default();
        bound.promise(Bounds::usual_of(before));
        bound.asked(&Bounds::usual_of(after));
        assert!(bound.covers(b"a", Millis(covered)) && !bound.covers(b"a", Millis(covered + 1)));
        bound.promise(Bounds::usual_of(after));
        assert!(bound.covers(b"a", after));
    }
}

#[test]
fn what_was_heard_of_is_written_before_anything_is_granted() {
    for (ttl, said) in [(70, 72), (70_000, 73_728)] {
        let mut book = Book::default();
        book.bound.promise(Bounds::usual_of(Millis(50)));
        book.bound.saw(b"a", Millis(ttl), HOUR);
        assert!(book.bound.is_stale(Instant(0)) && !book.bound.covers(b"b", Millis(10)));
        assert!(book.grant("b", 10), "{ttl}");
        assert_eq!(book.bound.said().of(KeyHash::of(b"a")), Millis(said));
    }
}

#[test]
fn after_a_restart_only_what_is_held_counts() {
    let mut book = Book::default();
    book.bound.saw(b"a", Millis(100_000), HOUR);
    book.bound.restart(Bounds::usual_of(Millis(10)));
    assert_eq!(book.write_after(0, &[]), Bounds::usual_of(Millis(10)));
}

#[test]
fn it_is_looked_at_again_once_in_a_period_and_not_all_the_time() {
    let mut book = Book::default();
    assert!(book.bound.is_stale(Instant(0)), "nothing has been said yet");
    book.grant("a", 10);
    book.grant("b", DAY);
    book.write_after(0, &[]);
    for (at, stale) in [(0, false), (1, false), (5 * MINUTE, false), (5 * MINUTE + 1, true)] {
        assert_eq!(book.bound.is_stale(Instant(at)), stale, "after {at} µs");
    }
}

#[test]
fn a_write_for_leases_of_others_is_no_write_of_who_asks_for_what_is_said() {
    let mut book = Book::default();
    assert!(book.grant("mine", DAY));
    let said = book.bound.said().longest().0;
    for n in 0..MAX_LONG_WRITES {
        // It was not granted here, and is not written yet.
        book.bound.saw(alloc::format!("theirs {n}").as_bytes(), Millis(DAY), HOUR);
        assert_eq!(book.grant_to(1, "mine", said), (true, true));
    }
    assert!(book.grant("one more", DAY));
}

#[test]
fn who_has_forced_too_many_writes_is_still_granted_what_is_usual() {
    let mut book = Book::default();
    while book.grant_to(1, &alloc::format!("{}", book.long().len()), DAY).0 {}
    book.bound.restart(Bounds::default());
    book.bound.promise(Bounds::default());
    assert_eq!(book.grant_to(1, "longer", HOUR + 1), (false, false));
    assert_eq!(book.grant_to(1, "usual", HOUR), (true, true));
    assert!(book.usual() >= HOUR && book.long().is_empty());
}
