//! Fences of several keys: they grow at each key, and grants at one do not move another's.

use super::bench::{Bench, KEY};
use crate::command::apply::{Apply, Granted};
use crate::durability::promise::Promise;
use crate::durability::quarantine::Start;
use crate::durability::record::Ended;
use crate::durability::slot::Slot;
use crate::lock::{Crowd, Grant};
use crate::node::host::WaitOutcome;
use crate::simulated::Value;
use crate::words::{ClientId, Fence, Instant, Key, Lease, Millis, Mode};

const OTHER: Key<'static> = Key { db: 0, name: b"other" };
const ELSEWHERE: Key<'static> = Key { db: 7, name: b"key" };

/// A node that began with its clock at one second, and without fences.
fn begun() -> Bench {
    assert_ne!(Slot::of(KEY.name), Slot::of(OTHER.name));
    let mut bench = Bench::new();
    bench.begin_anew();
    bench.pass(9_000_000);
    bench
}

#[test]
fn no_proposal_is_granted_below_the_clock_at_the_start() {
    let mut bench = begun();
    assert_eq!(bench.take_at(KEY, "a 10 FENCE 7"), Fence(1_000_001));
    assert_eq!(bench.take_at(OTHER, "a 10 FENCE 7"), Fence(1_000_001));
}

#[test]
fn a_key_of_the_same_name_in_another_database_goes_on_above() {
    let mut bench = begun();
    assert_eq!(bench.take_at(KEY, "a 10 FENCE 80000000"), Fence(80_000_000));
    assert_eq!(bench.take_at(ELSEWHERE, "a 10 FENCE 5000000"), Fence(80_000_001));
}

#[test]
fn a_removal_from_outside_moves_no_other_keys_fence() {
    let mut bench = begun();
    bench.hold(1, "a 10 FENCE 80000000");
    bench.host.take(&KEY.to_owned());
    bench.removed(KEY, Fence(80_000_000));
    assert_eq!(bench.take_at(OTHER, "a 10 FENCE 5000000"), Fence(5_000_000));
    assert_eq!(bench.take_at(KEY, "a 10 FENCE 5000000"), Fence(80_000_001));
}

#[test]
fn the_next_holder_after_a_moved_lock_is_above_it() {
    let mut bench = begun();
    bench.host.set(&OTHER.to_owned(), Value::Over(Fence(80_000_000)));
    assert_eq!(bench.take_at(OTHER, "a 10 FENCE 5000000"), Fence(80_000_001));
    // The lock is removed before any request.
    bench.host.set(&ELSEWHERE.to_owned(), Value::Over(Fence(90_000_000)));
    bench.host.take(&ELSEWHERE.to_owned());
    bench.removed(ELSEWHERE, Fence(90_000_000));
    assert_eq!(bench.take_at(ELSEWHERE, "a 10 FENCE 5000000"), Fence(90_000_001));
}

#[test]
fn a_loaded_lease_raises_its_key_and_no_other() {
    let mut bench = begun();
    bench.node.heard_of(KEY, Fence(80_000_000), Millis(1));
    assert_eq!(bench.take_at(OTHER, "a 10 FENCE 5000000"), Fence(5_000_000));
    assert_eq!(bench.take_at(KEY, "a 10 FENCE 5000000"), Fence(80_000_001));
}

#[test]
fn after_a_restart_every_key_goes_on_above_the_promise() {
    let mut bench = Bench::new();
    let (fence, bound) = (Fence(80_000_000), Millis(0));
    bench
        .node
        .durable
        .resume(&Promise { fence, unix: 0, bound, ..Promise::default() }, bench.time().now);
    let (back, held) = (Ended::default(), Millis(0));
    let start = Start { before: None, back, held };
    bench.node.begin(&start, true, bench.time());
    assert_eq!(bench.take_at(KEY, "a 10 FENCE 5000000"), Fence(80_000_001));
    assert_eq!(bench.take_at(OTHER, "a 10 FENCE 5000000"), Fence(80_000_001));
}

#[test]
fn a_replica_that_starts_again_goes_on_above_what_it_was_told_before() {
    let mut bench = Bench::new();
    bench.follow();
    let told =
        Promise { fence: Fence(90_000_000), unix: 0, bound: Millis(0), ..Promise::default() };
    bench.write();
    bench.inherit(told);
    assert!(bench.node.should_promise(bench.time()));
    let file = bench.write();
    assert!(!bench.node.should_promise(bench.time()));
    let mut again = Bench::new();
    again.node.durable.resume(&file, again.time().now);
    again.follow();
    again.node.promoted(again.time());
    assert_eq!(again.take_at(KEY, "a 10 FENCE 5000000"), Fence(90_000_001));
}

#[test]
fn a_promoted_replica_goes_on_above_what_it_heard_of_and_was_told_and_the_clock() {
    for (told, heard, first, others) in [
        (90_000_000, 80_000_000, 90_000_001, 90_000_001),
        // A fence far ahead of the clock counts for its own key alone.
        (80_000_000, 90_000_000, 90_000_001, 80_000_001),
        (2_000_000, 3_000_000, 3_000_001, 3_000_001),
        (7, 8, 1_000_001, 1_000_001),
    ] {
        let mut bench = Bench::new();
        bench.follow();
        let (time, ttl) = (bench.time(), Millis(10));
        let (fence, mode) = (Fence(heard), Mode::Exclusive);
        let granted = Granted { token: b"a", ttl, fence, mode, ephemeral: false, meta: b"" };
        bench.node.apply(&mut bench.host, KEY, &Apply::Grant(granted), time);
        let next =
            |key: Key<'_>, node: &crate::Node| node.durable.counter.next(key.name, Some(Fence(7)));
        assert_eq!(next(KEY, &bench.node), Some(Fence(heard + 1)));
        assert_eq!(next(OTHER, &bench.node), Some(Fence(7)));
        bench.inherit(Promise {
            fence: Fence(told),
            unix: 0,
            bound: Millis(0),
            ..Promise::default()
        });
        bench.node.promoted(time);
        assert_eq!(next(KEY, &bench.node), Some(Fence(first)));
        assert_eq!(next(OTHER, &bench.node), Some(Fence(others)));
    }
}

fn unheard(token: &[u8], fence: u64, lease: Lease) -> Grant<'_> {
    let fence = Fence(fence);
    Grant { token, fence, lease, client: ClientId::UNKNOWN, ephemeral: false, meta: b"" }
}

#[test]
fn however_a_lock_has_come_to_its_key_the_next_holder_is_above_its_holder() {
    let mut bench = begun();
    let lease = Lease::begin(Instant(bench.now), Millis(10));
    let one = unheard(b"a", 80_000_000, lease);
    bench.host.set(&KEY.to_owned(), Value::One(one.into()));
    assert!(bench.release("a"));
    assert_eq!(bench.take_at(KEY, "b 10 FENCE 5000000"), Fence(80_000_001));
}

#[test]
fn however_a_lock_has_come_to_its_key_a_new_reader_is_above_its_holders() {
    let mut bench = begun();
    let lease = Lease::begin(Instant(bench.now), Millis(10));
    let three = Mode::Limit(3);
    let mut crowd = Crowd::new(three);
    crowd.add(three, unheard(b"a", 90_000_000, lease));
    crowd.add(three, unheard(b"b", 80_000_000, lease));
    bench.host.set(&KEY.to_owned(), Value::Many(crowd));
    assert_eq!(bench.hold(1, "c 10 LIMIT 3 FENCE 5000000"), Fence(90_000_001));

    let two = Mode::Limit(2);
    let mut crowd = Crowd::new(two);
    crowd.add(two, unheard(b"a", 120_000_000, lease));
    crowd.add(two, unheard(b"b", 110_000_000, lease));
    bench.host.set(&KEY.to_owned(), Value::Many(crowd));
    let d = bench.wait(2, "d 10 LIMIT 2 WAIT 0 FENCE 5000000");
    assert!(bench.release("b"));
    assert_eq!(bench.answers().last(), Some(&(d, WaitOutcome::Granted(Fence(120_000_001)))));
}

#[test]
fn however_a_large_crowd_has_come_to_its_key_the_next_holder_is_above_it() {
    let mut bench = begun();
    let lease = Lease::begin(Instant(bench.now), Millis(10));
    let mut crowd = Crowd::new(Mode::Shared);
    for n in 0..1000_u64 {
        crowd.add(Mode::Shared, unheard(&n.to_be_bytes(), 80_000_000 + n, lease));
    }
    bench.host.set(&KEY.to_owned(), Value::Many(crowd));
    bench.pass(10_000);
    assert_eq!(bench.take_at(KEY, "b 10 FENCE 5000000"), Fence(80_001_000));
}
