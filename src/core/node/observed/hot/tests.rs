//! The keys that the summary finds, and keys that cannot displace them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;

const NOW: Instant = Instant(1);
const MINUTE: u64 = 60_000_000;

fn key(name: &[u8]) -> Key<'_> {
    Key { db: 0, name }
}

fn worst(hot: &mut Hot, most: usize, now: Instant) -> Vec<String> {
    let name = |figures: &Figures| String::from_utf8_lossy(&figures.name).into_owned();
    hot.worst(most, now).map(name).collect()
}

/// Pseudo-random numbers, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The key of each of so many waits, if the key of rank n has a share of 1/n^exponent.
fn zipf(exponent: f64, keys: usize, waits: usize) -> impl Iterator<Item = usize> {
    let mut sums: Vec<f64> = Vec::with_capacity(keys);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += (rank as f64).powf(-exponent);
        sums.push(sum);
    }
    let mut dice = Dice(16);
    (0..waits).map(move |_| {
        let roll = dice.roll() * sum;
        sums.partition_point(|sum| *sum < roll)
    })
}

#[test]
fn the_ten_worst_of_a_million_keys_are_found_in_their_order_but_for_neighbours() {
    for exponent in [1.0, 1.2] {
        let mut hot = Hot::default();
        for rank in zipf(exponent, 1_000_000, 2_000_000) {
            hot.waited(key(format!("job:{rank}").as_bytes()), 10_000, NOW);
        }
        let found = worst(&mut hot, 10, NOW);
        for (place, name) in found.iter().enumerate() {
            let rank: usize = name["job:".len()..].parse().unwrap();
            assert!(rank.abs_diff(place) <= 1, "{exponent}: {found:?}");
        }
    }
}

#[test]
fn it_takes_less_than_64_kb_whatever_the_keys_are_called() {
    let mut hot = Hot::default();
    for number in 0..100_000 {
        hot.waited(key(format!("{number:01000}").as_bytes()), 10_000, NOW);
    }
    assert_eq!(hot.figures.len(), HOT_KEYS);
    let least = HOT_KEYS * (HOT_NAME + size_of::<Figures>()) + CELLS * size_of::<u64>();
    assert!((least..64 * 1024).contains(&hot.size()), "{}", hot.size());
}

#[test]
fn any_number_of_keys_cannot_push_out_one_that_hurts_more_than_their_share_of_a_cell() {
    let mut hot = Hot::default();
    hot.waited(key(b"victim"), 60_000_000, NOW);
    for number in 0..1_000_000 {
        hot.waited(key(format!("flood:{number}").as_bytes()), 10_000, NOW);
    }
    assert_eq!(worst(&mut hot, 1, NOW), ["victim"]);
}

#[test]
fn keys_with_longer_waits_are_worse_and_refusals_count_a_little() {
    let mut hot = Hot::default();
    hot.waited(key(b"a"), 5_000, NOW);
    hot.waited(key(b"b"), 3_000, NOW);
    hot.waited(key(b"b"), 3_000, NOW);
    hot.denied(key(b"c"), NOW);
    assert_eq!(worst(&mut hot, 10, NOW), ["b", "a", "c"]);
    assert_eq!(worst(&mut hot, 2, NOW), ["b", "a"]);
}

#[test]
fn grants_are_counted_where_a_key_is_listed_and_list_none() {
    let mut hot = Hot::default();
    hot.granted(key(b"quiet"), None);
    assert!(hot.hashes.is_empty() && hot.cells.is_empty());
    hot.waited(key(b"job"), 7_000, NOW);
    hot.granted(key(b"job"), Some(7_000));
    hot.granted(key(b"job"), None);
    hot.granted(key(b"quiet"), None);
    let all: Vec<&Figures> = hot.worst(10, NOW).collect();
    let [job] = all[..] else { panic!("{all:?}") };
    assert_eq!((job.grants, job.hand_overs, job.longest()), (2, 1, 7_000));
}

#[test]
fn figures_halve_each_minute_and_what_is_long_ago_is_forgotten() {
    let mut hot = Hot::default();
    let minute = |n: u64| Instant(n * MINUTE);
    hot.waited(key(b"job"), 8_000_000, minute(100));
    hot.granted(key(b"job"), Some(8_000_000));
    let shown = |hot: &mut Hot, n| {
        let first = hot.worst(1, minute(n)).next();
        first.map(|figures| (figures.waited, figures.longest()))
    };
    assert_eq!(shown(&mut hot, 100), Some((8_000_000, 8_000_000)));
    assert_eq!(shown(&mut hot, 101), Some((4_000_000, 8_000_000)));
    assert_eq!(shown(&mut hot, 102), Some((2_000_000, 0)));
    assert_eq!(shown(&mut hot, 200), None);
    assert!(hot.hashes.is_empty());
    // Keys that were busy once are not listed beside one that is busy now.
    hot.waited(key(b"other"), 1_000, minute(200));
    assert_eq!(shown(&mut hot, 200), Some((1_000, 0)));
}

#[test]
fn a_long_name_is_cut_and_still_one_key() {
    let mut hot = Hot::default();
    let long = |last: u8| [vec![b'x'; 10_000], vec![last]].concat();
    hot.waited(key(&long(1)), 2_000, NOW);
    hot.waited(key(&long(2)), 5_000, NOW);
    hot.waited(key(&long(1)), 2_000, NOW);
    let shown: Vec<_> = hot.worst(10, NOW).map(|f| (f.waited, f.name.len(), f.length)).collect();
    assert_eq!(shown, [(5_000, HOT_NAME, 10_001), (4_000, HOT_NAME, 10_001)]);
}

#[test]
fn the_same_name_in_two_databases_is_two_keys() {
    let mut hot = Hot::default();
    for (db, micros) in [(0, 2_000), (1, 3_000)] {
        hot.waited(Key { db, name: b"job" }, micros, NOW);
    }
    let shown: Vec<_> = hot.worst(10, NOW).map(|f| (f.db, f.waited)).collect();
    assert_eq!(shown, [(1, 3_000), (0, 2_000)]);
}

#[test]
fn what_was_seen_first_counts_in_full_for_a_minute() {
    let mut hot = Hot::default();
    let begun = Instant(MINUTE - 1);
    hot.denied(key(b"job"), begun);
    assert_eq!(worst(&mut hot, 10, Instant(begun.0 + MINUTE - 1)), ["job"]);
    assert!(worst(&mut hot, 10, Instant(begun.0 + MINUTE)).is_empty());
}

#[test]
fn the_lightest_key_makes_room_for_one_that_hurts_more_and_for_no_other() {
    let mut hot = Hot::default();
    for number in 0..HOT_KEYS {
        hot.waited(key(format!("{number}").as_bytes()), 10_000 + number as u64, NOW);
    }
    hot.waited(key(b"lighter"), 9_999, NOW);
    assert!(worst(&mut hot, HOT_KEYS, NOW).contains(&"0".into()));
    hot.waited(key(b"late"), 1_000_000, NOW);
    let found = worst(&mut hot, HOT_KEYS + 1, NOW);
    assert_eq!((found.len(), &*found[0]), (HOT_KEYS, "late"));
    assert!(!found.contains(&"0".into()) && found.contains(&"1".into()), "{found:?}");
}
