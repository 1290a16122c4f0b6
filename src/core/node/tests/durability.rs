//! Grants within the state file's promise, and quarantine.

use alloc::{format, vec};

use super::bench::{Bench, KEY, record};
use crate::durability::promise::Promise;
use crate::durability::quarantine::{Cause, Policy, Start};
use crate::durability::record::Ended;
use crate::limits::{DEFAULT_MAX_TTL, MAX_FENCE_AHEAD, MAX_LEAD};
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::reason::Reason;
use crate::words::{Fence, Millis};

fn crashed(bench: &mut Bench, bound: u64) {
    bench.crash(Promise {
        fence: Fence(5_000_000),
        unix: 0,
        bound: Millis(bound),
        ..Promise::default()
    });
}

fn quarantine(left: u64) -> Reason {
    Reason::Quarantine { cause: Cause::Crash, left: Millis(left) }
}

#[test]
fn the_first_grant_waits_for_a_write_and_the_next_ones_do_not() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let promise = &bench.host.promises[0];
    assert!(promise.fence >= Fence(bench.now + 60_000_000) && promise.bound == Millis(1024));
    for _ in 0..20 {
        bench.release("a");
        bench.pass(1_000_000);
        bench.hold(1, "a 1024");
    }
    assert_eq!(bench.host.promises.len(), 1);
}

#[test]
fn a_longer_lease_waits_for_a_write() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    assert_eq!(bench.extend("a 2000"), Ok(true));
    bench.hold(1, "a 4000");
    bench.release("a");
    bench.hold(2, "b 8000");
    let bound: vec::Vec<u64> = bench.host.promises.iter().map(|p| p.bound.0).collect();
    assert_eq!(bound, vec![1024, 2048, 4096, 8192]);
}

#[test]
fn a_proposal_beyond_the_promise_waits_for_a_write() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.release("a");
    assert_eq!(bench.hold(1, "a 10 FENCE 300000000"), Fence(300_000_000));
    assert_eq!(bench.extend("a 10 FENCE 500000000"), Ok(true));
    let fences: vec::Vec<u64> = bench.host.promises.iter().map(|p| p.fence.0).collect();
    assert_eq!(fences, vec![61_000_000, 305_000_000, 505_000_000]);
}

#[test]
fn when_nothing_can_be_written_what_was_promised_is_still_granted() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    bench.host.disk_is_full = true;
    bench.release("a");
    bench.hold(1, "a 1000");
    assert_eq!(bench.extend("a 2000"), Err(Reason::NotDurable));
    assert_eq!(bench.acquire(1, "a 2000"), Err(Reason::NotDurable));
    assert_eq!(bench.extend("a 500"), Ok(true));
    bench.release("a");
    let fence = bench.node.durable.counter.last();
    assert_eq!(bench.acquire(1, "a 2000"), Err(Reason::NotDurable));
    assert_eq!(bench.acquire(1, "a 10 FENCE 300000000"), Err(Reason::NotDurable));
    bench.pass(61_000_000);
    assert_eq!(bench.acquire(1, "a 10"), Err(Reason::NotDurable));
    assert_eq!((bench.node.durable.counter.last(), bench.holders()), (fence, "".into()));
    assert!(!bench.node.durable.is_vouched_for());
    bench.host.disk_is_full = false;
    assert!(bench.hold(1, "a 10") > fence);
}

#[test]
fn waiters_are_served_in_order_once_the_disk_has_room() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 10 WAIT 0 FENCE 300000000");
    let c = bench.wait(3, "c 10 WAIT 0");
    bench.host.disk_is_full = true;
    bench.release("a");
    bench.pass_and_sweep(1_000_000);
    assert_eq!((bench.holders(), bench.waiters()), ("".into(), "b c".into()));
    bench.host.disk_is_full = false;
    bench.answers();
    bench.write();
    bench.sweep();
    assert_eq!((bench.holders(), bench.waiters()), ("b".into(), "c".into()));
    assert_eq!(bench.answers()[0], (b, WaitOutcome::Granted(Fence(300_000_000))));
    bench.release("b");
    assert_eq!(bench.answers().last().map(|(id, _)| *id), Some(c));
}

#[test]
fn after_a_crash_nothing_is_granted_until_the_bound_has_passed() {
    let mut bench = Bench::new();
    crashed(&mut bench, 500);
    assert_eq!(bench.acquire(1, "a 10"), Err(quarantine(500)));
    let b = bench.wait(2, "b 10 WAIT 0");
    let c = bench.wait(3, "c 10 WAIT 0");
    bench.pass_and_sweep(499_999);
    assert_eq!(bench.acquire(1, "a 10"), Err(quarantine(1)));
    assert_eq!(bench.holders(), "");
    bench.pass(1);
    assert_eq!(bench.acquire(1, "a 10"), Ok(Acquired::Denied), "b and c came first");
    assert_eq!((bench.holders(), bench.waiters()), ("b".into(), "c".into()));
    let answers = bench.answers();
    assert_eq!(answers.len(), 1);
    assert!(
        matches!(answers[0], (id, WaitOutcome::Granted(fence)) if id == b && fence.0 > 5_000_000)
    );
    bench.release("b");
    assert_eq!(bench.answers()[0].0, c);
}

#[test]
fn the_end_of_a_quarantine_wakes_the_node() {
    let mut bench = Bench::new();
    crashed(&mut bench, 500);
    bench.wait(2, "b 10 WAIT 0");
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_500));
    bench.pass_and_sweep(500_000);
    assert_eq!((bench.holders(), bench.node.durable.in_quarantine()), ("b".into(), None));
}

#[test]
fn in_quarantine_a_wait_runs_out_and_a_waiter_leaves() {
    let mut bench = Bench::new();
    crashed(&mut bench, 500);
    let b = bench.wait(2, "b 10 WAIT 100");
    let c = bench.wait(3, "c 10 WAIT 0");
    bench.pass_and_sweep(100_000);
    assert!(!bench.release("c"));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Denied), (c, WaitOutcome::Denied)]);
    bench.host.blocks = false;
    assert_eq!(bench.acquire(1, "a 10 WAIT 0"), Err(quarantine(400)));
}

#[test]
fn in_quarantine_a_holder_goes_on_if_it_names_its_fence() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 1000").0;
    bench.wait(2, "b 10 WAIT 0");
    bench.node.promoted(bench.time());
    assert!(bench.node.durable.in_quarantine().is_some());
    assert_eq!(bench.extend(&format!("a 2000 FENCE {fence}")), Ok(true));
    assert_eq!(bench.left(), 2000);
    assert_eq!(bench.extend(&format!("a 2000 FENCE {}", fence - 1)), Ok(false));
    assert!(bench.release("a"));
    assert_eq!((bench.holders(), bench.waiters()), ("".into(), "b".into()));
    bench.pass_and_sweep(2_048_000);
    assert_eq!(bench.holders(), "b");
}

#[test]
fn in_quarantine_a_client_that_never_heard_of_its_restored_grant_is_not_told_of_it() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 1000").0;
    bench.node.promoted(bench.time());
    let refused = |reason| matches!(reason, Reason::Quarantine { cause: Cause::Promoted, .. });
    for ask in ["a 1000", "a 1000 WAIT 0", "a 1000 KEEP 1000", "a 1000 WAIT 0 KEEP 1000 TURN"] {
        assert!(bench.acquire(1, ask).is_err_and(refused), "{ask}");
    }
    let larger = format!("a 2000 FENCE {}", fence + 1);
    for extend in ["a 2000", &larger, "b 2000", "b 2000 FENCE 1"] {
        assert!(bench.extend(extend).is_err_and(refused), "{extend}");
    }
    let time = bench.time();
    assert!(bench.node.check(&mut bench.host, KEY, b"a", time).is_err_and(refused));
    assert!(bench.node.check(&mut bench.host, KEY, b"b", time).is_err_and(refused));
    assert_eq!((bench.holders(), bench.left(), bench.waiters()), ("a".into(), 1000, "".into()));
    // By then every earlier lease has ended, except for the extended one.
    bench.extend(&format!("a 5000 FENCE {fence}")).unwrap();
    bench.pass_and_sweep(1_024_000);
    assert_eq!((bench.hold(1, "a 1000").0, bench.check("a")), (fence, Some(Fence(fence))));
}

#[test]
fn a_promoted_replica_waits_for_the_longest_lease_it_has_heard_of() {
    let mut bench = Bench::new();
    bench.follow();
    bench.inherit(Promise {
        fence: Fence(400_000_000),
        unix: 0,
        bound: Millis(3_000),
        ..Promise::default()
    });
    bench.node.heard_of(KEY, Fence(7), Millis(2_000));
    bench.node.promoted(bench.time());
    let refused = bench.acquire(1, "a 10");
    assert_eq!(refused, Err(Reason::Quarantine { cause: Cause::Promoted, left: Millis(3_000) }));
    bench.pass_and_sweep(3_000_000);
    assert_eq!(bench.hold(1, "a 10"), Fence(400_000_001));
}

#[test]
fn a_reply_that_was_not_written_before_a_demotion_takes_no_lease_after_the_promotion() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 60000 WAIT 0 EPHEMERAL");
    assert!(bench.release("a"));
    let fence = bench.check("b").unwrap().0;
    bench.follow();
    bench.node.promoted(bench.time());
    assert_eq!(bench.extend(&format!("b 60000 FENCE {fence}")), Ok(true));
    bench.closed(2, b);
    bench.sweep();
    assert_eq!(bench.holders(), "b");
}

#[test]
fn a_replica_forgets_long_leases_when_its_primary_does() {
    let mut bench = Bench::new();
    bench.follow();
    bench.node.heard_of(KEY, Fence(7), Millis(80_000));
    let mut write = |minutes: u64| {
        bench.pass(minutes * 60_000_000);
        bench.write().bound
    };
    assert_eq!(write(0), Millis(81_920));
    assert_eq!(write(60), Millis(81_920));
    assert_eq!(write(60), Millis(81_920), "the primary has not told");
    bench.inherit(Promise {
        fence: Fence(9),
        unix: 0,
        bound: Millis(90_000),
        ..Promise::default()
    });
    assert!(bench.node.should_promise(bench.time()));
    assert_eq!(bench.write().bound, Millis(90_112));
    bench.inherit(Promise { fence: Fence(9), unix: 0, bound: Millis(3_072), ..Promise::default() });
    bench.pass(60_000_000);
    assert_eq!(bench.write().bound, Millis(3_072));
}

#[test]
fn the_operator_can_end_a_quarantine() {
    let mut bench = Bench::new();
    crashed(&mut bench, 500);
    bench.wait(2, "b 10 WAIT 0");
    bench.node.settings.quarantine = Policy::Least(Millis(10));
    bench.sweep();
    assert_eq!(bench.holders(), "");
    bench.node.settings.quarantine = Policy::Off;
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(0));
    bench.sweep();
    assert_eq!(bench.holders(), "b");
}

#[test]
fn the_promise_covers_what_is_left_of_a_quarantine() {
    let mut bench = Bench::new();
    crashed(&mut bench, 5_000);
    let time = bench.time();
    assert!(bench.node.should_promise(time));
    let next = bench.next_promise();
    assert!(next.longest() >= Millis(5_000), "{next:?}");
    bench.pass_and_sweep(5_000_000);
    let last = bench.node.last_promise(bench.host.last_end(), bench.time().now);
    assert_eq!(last.bound, Millis(0));
}

#[test]
fn a_lease_that_ends_later_anyway_needs_no_state_file() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    bench.node.heard_of(KEY, Fence(5), Millis(60_000));
    bench.host.disk_is_full = true;
    assert_eq!(bench.extend("a 900"), Ok(true));
    for longer in ["a 1100", "a 900 FENCE 70000000"] {
        assert_eq!(bench.extend(longer), Err(Reason::NotDurable), "{longer}");
    }
}

#[test]
fn a_request_with_wait_waits_for_the_disk_too() {
    let mut bench = Bench::new();
    bench.host.disk_is_full = true;
    assert_eq!(bench.acquire(1, "a 10"), Err(Reason::NotDurable));
    let b = bench.wait(2, "b 10 WAIT 0");
    bench.host.disk_is_full = false;
    bench.write();
    bench.sweep();
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == b));
}

// --- what a replica did not receive -------------------------------------------------------------------

fn untold(left: u64) -> Reason {
    Reason::Quarantine { cause: Cause::Untold, left: Millis(left) }
}

fn promoted(left: u64) -> Reason {
    Reason::Quarantine { cause: Cause::Promoted, left: Millis(left) }
}

/// An empty disk may be a lost one, and leases and fences lost with it.
#[test]
fn a_node_without_a_state_file_waits_and_goes_on_above_all_fences_that_it_may_have_handed_out() {
    for (max_ttl, setting, left) in [(86_400_000, 60_000, 60_000), (5_000, 60_000, 5_000)] {
        let mut bench = Bench::new();
        bench.node.settings.max_ttl = max_ttl;
        bench.node.settings.newborn_quarantine = setting;
        bench.begin_anew();
        let refused = Reason::Quarantine { cause: Cause::Unknown, left: Millis(left) };
        assert_eq!(bench.acquire(1, "a 10"), Err(refused));
        // A crash at this moment makes it no shorter.
        assert_eq!(bench.write().longest(), Millis(left));
        let farthest = bench.now + MAX_LEAD;
        bench.pass_and_sweep(left * 1_000);
        assert_eq!(bench.take_at(KEY, "a 10 FENCE 5"), Fence(farthest + 1));
    }
}

/// A proposal ahead of the clock does not raise the limit of the next one.
#[test]
fn no_fence_is_larger_than_those_after_a_lost_disk() {
    let mut lost = Bench::new();
    lost.pass(15_000_000);
    for ahead in [4_900_000, 2 * MAX_FENCE_AHEAD] {
        let farthest = lost.node.durable.counter.farthest();
        let proposal = farthest.0.min(lost.now + ahead);
        lost.take_at(KEY, &format!("a 10 FENCE {proposal}"));
        lost.pass(1_000);
    }
    let last = lost.take_at(KEY, "a 10");
    let mut anew = Bench::new();
    anew.pass(lost.now - anew.now);
    anew.node.settings.newborn_quarantine = 1;
    anew.begin_anew();
    anew.pass_and_sweep(1_000);
    assert!(anew.take_at(KEY, "a 10") > last);
}

#[test]
fn a_node_that_has_never_run_grants_at_once() {
    let mut bench = Bench::new();
    bench.begin_anew();
    assert_eq!(bench.take_at(KEY, "a 10"), Fence(bench.now));
}

/// A replica with its primary's data set, and without a promise.
fn synced() -> Bench {
    let mut bench = Bench::new();
    bench.follow();
    bench.node.durable.untold();
    bench
}

#[test]
fn a_replica_that_was_told_nothing_waits_for_the_largest_of_its_setting_its_file_and_its_data_set()
{
    for (max_ttl, file, loaded, waits) in [
        (9_000, 500, 700, untold(9_000)),
        (500, 9_000, 700, promoted(9_000)),
        (500, 700, 9_000, promoted(9_000)),
    ] {
        let mut bench = Bench::new();
        bench.node.settings.max_ttl = max_ttl;
        let said = Promise { bound: Millis(file), ..Promise::default() };
        bench.node.durable.resume(&said, bench.time().now);
        bench.follow();
        bench.node.durable.untold();
        bench.node.heard_of(KEY, Fence(7), Millis(loaded));
        bench.node.promoted(bench.time());
        assert_eq!(bench.acquire(1, "a 10"), Err(waits));
    }
}

#[test]
fn the_fences_of_a_replica_that_was_told_nothing_begin_above_all_that_a_node_accepts() {
    for (told, first) in [(false, MAX_LEAD), (true, 0)] {
        let mut bench = synced();
        if told {
            bench.inherit(Promise { bound: Millis(10), ..Promise::default() });
        }
        bench.node.settings.quarantine = Policy::Off;
        bench.node.promoted(bench.time());
        assert_eq!(bench.take_at(KEY, "a 10 FENCE 5"), Fence(bench.now + first + 1));
    }
}

#[test]
fn a_replica_that_starts_again_and_was_not_told_anything_yet_waits_as_long() {
    let mut bench = Bench::new();
    let before = record(Promise { bound: Millis(500), ..Promise::default() });
    let (back, held) = (Ended::default(), Millis(0));
    let start = Start { before: Some(&before), back, held };
    bench.follow();
    bench.node.begin(&start, false, bench.time());
    bench.node.promoted(bench.time());
    assert_eq!(bench.acquire(1, "a 10"), Err(untold(DEFAULT_MAX_TTL)));
}

/// The new primary may have granted any lease. A quarantine of the former one goes on.
#[test]
fn a_node_with_another_primary_assumes_the_longest_lease_until_it_is_told() {
    let long = DEFAULT_MAX_TTL + 1_000;
    for (quarantine, waits) in
        [(None, DEFAULT_MAX_TTL), (Some(0), DEFAULT_MAX_TTL), (Some(long), long)]
    {
        let mut bench = Bench::new();
        bench.hold(1, "a 1000");
        if let Some(quarantine) = quarantine.map(Millis) {
            bench.follow();
            bench.inherit(Promise { bound: Millis(2_000), quarantine, ..Promise::default() });
        }
        let now = bench.time().now;
        bench.node.demoted(&mut bench.host, now);
        bench.node.promoted(bench.time());
        assert_eq!(bench.acquire(2, "b 10"), Err(untold(waits)));
    }
}

#[test]
fn a_lowered_max_ttl_counts_on_a_replica_once_leases_of_the_old_length_have_ended() {
    for (passed, left) in [(0, 3_600_000), (600, 3_000_000), (3_600, 1_000)] {
        let mut bench = synced();
        bench.node.settings.max_ttl = 3_600_000;
        bench.write();
        bench.node.settings.max_ttl = 1_000;
        assert!(bench.write().longest() == Millis(3_600_000), "a crash makes it no shorter");
        bench.pass(passed * 1_000_000);
        bench.node.promoted(bench.time());
        assert_eq!(bench.acquire(1, "a 10"), Err(untold(left)), "after {passed} s");
    }
}

#[test]
fn a_quarantine_is_as_long_as_the_state_file_says_even_if_new_leases_are_shorter() {
    let mut bench = Bench::new();
    bench.node.settings.max_ttl = 1_000;
    crashed(&mut bench, 86_400_000);
    assert_eq!(bench.acquire(1, "a 10"), Err(quarantine(86_400_000)));
    bench.node.settings.quarantine = Policy::Off;
    bench.hold(1, "a 10");
}

#[test]
fn a_crash_in_quarantine_leaves_the_rest_of_it_and_at_most_an_eighth_more() {
    let mut bench = Bench::new();
    crashed(&mut bench, 80_000);
    let (mut file, mut writes) = (bench.write().longest().0, 1);
    for left in (1..=80_u64).rev().map(|seconds| seconds * 1_000) {
        if bench.node.should_promise(bench.time()) {
            (file, writes) = (bench.write().longest().0, writes + 1);
        }
        assert!((left..=left * 9 / 8 + 1_000).contains(&file), "{file} where {left} are left");
        bench.pass_and_sweep(1_000_000);
    }
    assert!(writes < 30, "{writes}");
}

#[test]
fn a_lowered_max_ttl_limits_new_leases_and_ends_none() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 60000");
    bench.node.settings.max_ttl = 1_000;
    let too_long = Reason::TooLong { given: 1_001, most: 1_000 };
    for words in ["a 1001", "b 1001", "b 1001 WAIT 0"] {
        assert_eq!(bench.acquire(1, words), Err(too_long), "{words}");
    }
    assert_eq!(bench.extend("a 1001"), Err(too_long));
    bench.pass_and_sweep(59_000_000);
    assert_eq!(bench.check("a"), Some(fence));
    assert_eq!(bench.extend("a 1000"), Ok(true));
    // The state file covers the held lease, and is no longer.
    assert_eq!(bench.write().bound, Millis(60_000));
}

/// Otherwise it would grant at once if it crashed before it is promoted.
#[test]
fn a_replica_that_has_only_the_data_set_writes_that_down_until_it_is_told() {
    let mut bench = synced();
    assert!(bench.node.should_promise(bench.time()));
    assert_eq!(bench.write().longest(), Millis(DEFAULT_MAX_TTL));
    assert!(!bench.node.should_promise(bench.time()));
    bench.inherit(Promise { bound: Millis(2_048), ..Promise::default() });
    assert!(bench.node.should_promise(bench.time()));
    assert_eq!(bench.write().longest(), Millis(2_048));
}

/// The time that is left counts for later replicas, and none of it was granted as a lease.
#[test]
fn what_is_not_known_is_not_handed_on_as_known() {
    let mut first = synced();
    first.node.heard_of(KEY, Fence(7), Millis(2_000));
    first.node.promoted(first.time());
    let written = first.write();
    assert_eq!((written.bound, written.longest()), (Millis(2_048), Millis(600_000)));
    let told = first.node.promise(first.time());
    assert_eq!((told.bound, told.quarantine), (Millis(2_048), Millis(600_000)));

    let next = |told: &Promise, seconds: u64| {
        let mut next = synced();
        next.inherit(*told);
        next.pass(seconds * 1_000_000);
        next.node.promoted(next.time());
        (next.node.durable.quarantine_left(next.time().now).map(|(_, left)| left), next)
    };
    assert_eq!(next(&told, 100).0, Some(Millis(500_000)));
    assert_eq!(next(&told, 599).0, Some(Millis(2_048)));
    // The second node passes the time left on, too.
    let (_, mut second) = next(&told, 100);
    second.write();
    let told = second.node.promise(second.time());
    assert_eq!((told.bound, told.quarantine), (Millis(0), Millis(500_000)));
}

#[test]
fn a_quarantine_that_an_operator_ends_is_over_for_followers_and_after_a_crash() {
    let mut bench = synced();
    bench.node.promoted(bench.time());
    bench.write();
    assert!(!bench.node.should_promise(bench.time()));
    bench.node.settings.quarantine = Policy::Off;
    bench.sweep();
    bench.node.settings.quarantine = Policy::Auto;
    assert!(bench.node.should_promise(bench.time()));
    assert_eq!(bench.write().longest(), Millis(0));
    bench.hold(1, "a 1000");
    let told = bench.node.promise(bench.time());
    assert_eq!((told.bound, told.quarantine), (Millis(1_024), Millis(0)));
    let written = *bench.host.promises.last().unwrap();
    assert_eq!(written.longest(), Millis(1_024));
    bench.crash(written);
    assert_eq!(bench.acquire(1, "a 10"), Err(quarantine(1_024)));
}

/// The replica's own state file bounds the leases that it may not have received.
#[test]
fn a_replica_that_starts_again_goes_by_what_it_is_told() {
    let mut bench = Bench::new();
    let (now, bound) = (bench.time().now, Millis(3_600_000));
    bench.node.durable.resume(&Promise { bound, ..Promise::default() }, now);
    bench.node.demoted(&mut bench.host, now);
    assert!(bench.write().bound >= Millis(3_600_000));
    bench.inherit(Promise { bound: Millis(2_048), ..Promise::default() });
    assert!(bench.node.should_promise(bench.time()));
    assert_eq!(bench.write().longest(), Millis(2_048));
    assert!(!bench.node.should_promise(bench.time()));
}

#[test]
fn a_restored_lease_longer_than_a_new_one_is_refused_and_leaves_no_trace() {
    let mut bench = Bench::new();
    bench.node.settings.max_ttl = 1_000;
    bench.hold(1, "a 10");
    let (time, fence, said) =
        (bench.time(), bench.node.durable.counter.last(), bench.node.durable.leases.said());
    let refused = Err(Reason::TooLong { given: 1_001, most: 1_000 });
    assert_eq!(bench.node.needs((fence, Millis(1_001)), true, time), refused);
    assert_eq!(bench.node.durable.leases.said(), said);
    let needed = bench.node.needs((fence, Millis(1_000)), true, time);
    assert_eq!(needed.map(|promise| promise.map(|promise| promise.bound)), Ok(Some(Millis(1_000))));
}

#[test]
fn a_long_lease_that_arrives_with_its_slot_raises_the_bound() {
    let mut bench = Bench::new();
    bench.node.settings.max_ttl = 1_000;
    bench.hold(1, "a 10");
    let (time, fence) = (bench.time(), bench.node.durable.counter.last());
    let needed = bench.node.needs((fence, Millis(86_400_000)), false, time);
    assert!(needed.is_ok_and(|promise| promise.is_some_and(|it| it.bound >= Millis(86_400_000))));
}

#[test]
fn a_long_lease_that_is_loaded_or_replicated_raises_the_bound() {
    let mut bench = Bench::new();
    bench.node.settings.max_ttl = 1_000;
    bench.follow();
    let (time, fence) = (bench.time(), Fence(7));
    assert_eq!(bench.node.needs((fence, Millis(86_400_000)), true, time), Ok(None));
    bench.node.heard_of(KEY, fence, Millis(86_400_000));
    assert!(bench.write().bound >= Millis(86_400_000));
}

/// Otherwise its replicas would not wait for what it waits for itself.
#[test]
fn replicas_are_told_of_a_quarantine_that_is_not_written_yet() {
    let mut bench = Bench::new();
    bench.host.disk_is_full = true;
    bench.follow();
    bench.inherit(Promise { fence: Fence(7), unix: 0, bound: Millis(3_000), ..Promise::default() });
    bench.node.promoted(bench.time());
    assert_eq!(bench.node.promise(bench.time()).quarantine, Millis(3_000));
    bench.pass(1_000_000);
    assert_eq!(bench.node.promise(bench.time()).quarantine, Millis(2_000));
    bench.pass(2_000_000);
    assert_eq!(bench.node.promise(bench.time()).quarantine, Millis(0));
}

/// A lease longer than the limit would raise the bound above all limits there ever were.
#[test]
fn a_request_that_waits_gets_no_longer_lease_than_the_limit_of_now() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 5000 WAIT 0");
    bench.acquire(3, "c 5000 KEEP 5000").unwrap();
    let d = bench.wait(4, "d 1000 WAIT 0");
    bench.node.settings.max_ttl = 1_000;
    assert!(bench.release("a"));
    let too_long = WaitOutcome::Refused(Reason::TooLong { given: 5_000, most: 1_000 });
    assert!(matches!(&bench.answers()[..], [(first, answer), (last, WaitOutcome::Granted(_))]
        if (*first, *last) == (b, d) && *answer == too_long));
    assert_eq!((bench.holders(), bench.waiters()), ("d".into(), "".into()));
}
