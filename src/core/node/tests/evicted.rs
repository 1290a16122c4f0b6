//! Evicted locks: lost to their holders, and shut for other clients until their leases would have ended.

use alloc::format;
use alloc::vec;

use super::bench::{Bench, KEY};
use crate::durability::record::Ended;
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::simulated::Value;
use crate::words::{Fence, Instant, Key, Millis};

const OTHER: Key<'static> = Key { db: 0, name: b"other" };

fn denied(bench: &mut Bench, words: &str) {
    assert_eq!(bench.acquire(9, words), Ok(Acquired::Denied), "{words}");
}

#[test]
fn an_evicted_lock_is_lost_and_its_key_shut_until_its_lease_would_have_ended() {
    for mode in ["", " SHARED", " LIMIT 2"] {
        let mut bench = Bench::new();
        let fence = bench.hold(1, &format!("a 10{mode}"));
        bench.evict(KEY);
        for _ in 0..2 {
            assert_eq!((bench.extend("a 10"), bench.check("a")), (Ok(false), None));
            assert!(!bench.release("a"));
            for asks in ["a 10", "b 10", "b 10 SHARED", "b 10 LIMIT 2"] {
                denied(&mut bench, asks);
            }
            bench.pass_and_sweep(5_000 - 1);
        }
        bench.pass(2);
        assert!(bench.hold(2, "b 10") > fence, "{mode}");
    }
}

#[test]
fn waiters_for_an_evicted_lock_are_served_in_order_when_the_key_opens() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let b = bench.wait(2, "b 10 WAIT 0");
    let c = bench.wait(3, "c 10 WAIT 3");
    bench.evict(KEY);
    let d = bench.wait(4, "d 10 WAIT 0");
    bench.sweep();
    assert_eq!(bench.answers(), vec![]);
    bench.pass_and_sweep(3_000);
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Denied)]);
    bench.pass_and_sweep(6_999);
    assert_eq!((bench.answers(), bench.waiters()), (vec![], "b d".into()));
    // Only the end of the lease wakes the node.
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_010));
    bench.pass_and_sweep(1);
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == b));
    bench.release("b");
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == d));
}

#[test]
fn the_latest_end_of_many_leases_counts() {
    let mut bench = Bench::new();
    bench.hold(1, "a 30 SHARED");
    bench.hold(2, "b 10 SHARED");
    bench.evict(KEY);
    bench.pass(29_999);
    denied(&mut bench, "c 10 SHARED");
    bench.pass(1);
    bench.hold(3, "c 10 SHARED");
}

#[test]
fn the_next_in_line_has_its_turn_at_the_key_of_an_evicted_lock() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 10");
    bench.evict(KEY);
    let b = bench.wait(2, "b 10 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Turn(fence))]);
}

/// That fence may be far ahead of the clock.
#[test]
fn the_largest_fence_is_learnt_at_the_eviction() {
    for far in [0, 60_000_000] {
        let mut bench = Bench::new();
        let fence = bench.hold(1, &format!("a 10 FENCE {}", 2_000_000 + far));
        bench.evict(KEY);
        bench.pass(10_000);
        assert!(bench.hold(2, "b 10") > fence);
    }
}

#[test]
fn what_stands_at_the_key_meanwhile_changes_nothing() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.evict(KEY);
    bench.set_text("text", None);
    let b = bench.wait(2, "b 10 WAIT 0");
    bench.host.take(&KEY.to_owned());
    bench.node.maybe_free(KEY);
    bench.sweep();
    assert_eq!((bench.answers(), bench.break_lock(None)), (vec![], 0));
    bench.host.set(&KEY.to_owned(), Value::Over(Fence(5)));
    bench.pass_and_sweep(9_999);
    assert_eq!(bench.answers(), vec![]);
    bench.host.take(&KEY.to_owned());
    bench.pass_and_sweep(1);
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == b));
}

#[test]
fn flushall_opens_the_keys_of_evicted_locks_and_flushdb_does_not() {
    for (db, opens) in [(None, true), (Some(0), false), (Some(1), false)] {
        let mut bench = Bench::new();
        bench.hold(1, "a 10");
        bench.evict(KEY);
        bench.flushed(db);
        assert_eq!(bench.acquire(2, "b 10") != Ok(Acquired::Denied), opens, "{db:?}");
    }
}

/// Two keys in one slot, one with an evicted lock, the other with holders.
#[test]
fn a_key_in_the_slot_of_an_evicted_lock_waits_for_the_later_end_and_its_holders_go_on() {
    let mut bench = Bench::new();
    let end = |bench: &Bench, key| bench.node.shut_until(key, Instant(bench.now)).map(|end| end.0);
    bench.hold(1, "a 10");
    bench.evict(KEY);
    let names: vec::Vec<_> = (0..100_000_u32).map(|n| format!("k{n}")).collect();
    let mut keys = names.iter().map(|name| Key { db: 0, name: name.as_bytes() });
    let same = keys.find(|key| end(&bench, *key).is_some()).expect("the table is small");
    let other = Key { db: 7, name: KEY.name };
    assert_eq!(
        [KEY, same, other, OTHER].map(|key| end(&bench, key).is_some()),
        [true, true, true, false]
    );

    bench.flushed(None);
    assert!(matches!(bench.acquire_at(same, 1, "a 30 SHARED"), Ok(Acquired::Granted(_))));
    bench.hold(2, "b 10");
    bench.evict(KEY);
    assert_eq!(bench.acquire_at(same, 3, "c 30 SHARED"), Ok(Acquired::Denied));
    assert_eq!(bench.extend_at(same, "a 30"), Ok(true));
    assert!(matches!(bench.acquire_at(same, 1, "a 30 SHARED"), Ok(Acquired::Granted(_))));
    bench.evict(same);
    assert_eq!([KEY, same].map(|key| end(&bench, key)), [Some(1_030), Some(1_030)]);
    bench.pass(30_000);
    assert_eq!([KEY, same].map(|key| end(&bench, key)), [None, None]);
}

/// They count even when the lengths of new leases are forgotten.
#[test]
fn evicted_leases_count_in_the_bound_and_at_a_shutdown() {
    let mut bench = Bench::new();
    bench.node.settings.max_ttl = 3_600_000;
    bench.hold(1, "a 3600000");
    bench.evict(KEY);
    for _ in 0..3 {
        bench.pass(900_000_000);
        bench.write();
    }
    assert!(bench.write().bound >= Millis(900_000));
    let last = |bench: &Bench| bench.node.last_promise(bench.host.last_end(), bench.time().now);
    assert_eq!(last(&bench).bound, Millis(900_000));
    bench.pass(900_000_000);
    assert_eq!(last(&bench).bound, Millis(0));
    let mut ended = Ended::default();
    ended.add_evicted();
    assert_ne!(ended, Ended::default());
}
