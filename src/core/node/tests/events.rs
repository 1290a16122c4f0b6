//! Keys removed from outside, foreign locks, connections that close, roles, replication.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::bench::{Bench, KEY};
use crate::command::apply::{Apply, Granted};
use crate::durability::quarantine::Policy;
use crate::node::Acquired;
use crate::node::host::{Ending, Memory, WaitOutcome};
use crate::reason::Reason;
use crate::simulated::Value;
use crate::words::{ClientId, Fence, Key, Millis, Mode, WaiterId};

#[test]
fn a_removed_lock_is_over_and_its_waiters_are_told() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let b = bench.wait(2, "b 10 WAIT 0");
    let c = bench.wait(3, "c 10 WAIT 50");
    bench.host.take(&KEY.to_owned());
    bench.removed(KEY, Fence(0));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Removed), (c, WaitOutcome::Removed)]);
    bench.sweep();
    assert_eq!((bench.holders(), bench.node.waiting.requests()), ("".into(), 0));
}

#[test]
fn a_flush_tells_the_waiters_of_its_database() {
    for (db, told) in [(None, 1), (Some(0), 1), (Some(1), 0)] {
        let mut bench = Bench::new();
        bench.hold(1, "a 10");
        bench.wait(2, "b 10 WAIT 0");
        bench.answers();
        bench.flushed(db);
        assert_eq!(bench.answers().len(), told, "{db:?}");
    }
}

#[test]
fn a_granted_or_extended_lease_does_not_end_by_a_foreign_expiry() {
    for (held, asks) in [
        ("a 10", "a 10"),
        ("a 10 SHARED", "a 10 SHARED"),
        ("a 10 SHARED", "b 10 SHARED"),
        ("a 10 LIMIT 2", "b 10 LIMIT 2"),
    ] {
        let mut bench = Bench::new();
        bench.hold(1, held);
        bench.host.expiring.insert(KEY.to_owned());
        bench.hold(2, asks);
        assert!(bench.host.expiring.is_empty(), "{held}, {asks}");
        bench.host.expiring.insert(KEY.to_owned());
        assert_eq!(bench.extend("a 10"), Ok(true));
        assert!(bench.host.expiring.is_empty(), "{held}");
        bench.host.expiring.insert(KEY.to_owned());
        assert_eq!(bench.extend("z 10"), Ok(false));
        assert!(!bench.host.expiring.is_empty(), "no lease is longer: {held}");
    }
}

#[test]
fn with_full_memory_only_requests_for_more_are_refused() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED META m");
    bench.wait(2, "w 10 WAIT 0");
    bench.host.memory = Memory { used: 5, most: 5 };
    let refused = Err(Reason::TooManyLocks { most: 5 });
    let other = Key { db: 1, name: b"other" };
    assert_eq!(bench.acquire_at(other, 3, "c 10"), refused);
    assert_eq!(bench.acquire_at(other, 3, "c 10 WAIT 0"), refused);
    assert_eq!(bench.acquire(1, "a 10 SHARED META mm"), refused);
    assert_eq!((bench.holders(), bench.node.waiting.requests()), ("a".into(), 1));
    // No holder loses its grant, and waiters are served.
    bench.hold(1, "a 10 SHARED META n");
    assert_eq!(bench.extend("a 10"), Ok(true));
    assert!(bench.release("a"));
    assert_eq!(bench.holders(), "w");
}

#[test]
fn with_full_memory_no_request_waits_for_more_than_its_turn_frees() {
    let refused = Err(Reason::TooManyLocks { most: 5 });
    let long = format!("b 10 KEEP 50 META {}", "m".repeat(70));
    for holder in ["string", "quarantine", "a 10 META m", "a 10 SHARED"] {
        let mut bench = Bench::new();
        match holder {
            "string" => bench.set_text("old", None),
            "quarantine" => {
                bench.node.settings.quarantine = Policy::Least(Millis(1000));
                let time = bench.time();
                bench.node.promoted(time);
            }
            _ => assert!(bench.hold(1, holder).0 > 0),
        }
        let is_held = holder.starts_with('a');
        if is_held {
            bench.wait(2, "w 10 LIMIT 2 WAIT 0 META mm");
        }
        let before = bench.waiters();
        bench.host.memory = Memory { used: 5, most: 5 };
        let as_much = ["c 10 WAIT 0", "d 10 KEEP 50 META nnn"];
        let mut more = vec!["b 10 LIMIT 2 WAIT 0", "b 10 SHARED KEEP 50"];
        more.extend((holder != "a 10 SHARED").then_some(&*long));
        more.extend(as_much.into_iter().filter(|_| !is_held));
        for words in more {
            assert_eq!(bench.acquire(3, words), refused, "{holder}: {words}");
        }
        assert_eq!(bench.waiters(), before, "{holder}");
        if !is_held {
            continue;
        }
        bench.wait(3, as_much[0]);
        assert_eq!(bench.acquire(4, as_much[1]), Ok(Acquired::Denied));
        // A waiter that had room when it came asks again, and gets its turn.
        bench.wait(2, "w 10 LIMIT 2 WAIT 0 META nn");
        assert_eq!(bench.acquire(2, "w 10 SHARED WAIT 0"), refused);
        assert_eq!(bench.waiters(), "w c d");
        for (token, next) in [("a", "w"), ("w", "c"), ("c", "d")] {
            assert!(bench.release(token));
            assert_eq!(bench.holders(), next);
        }
    }
}

#[test]
fn a_foreign_lock_is_held_until_it_is_deleted() {
    let mut bench = Bench::new();
    bench.set_text("old", None);
    assert_eq!(bench.acquire(1, "a 10"), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(1, "old 10"), Ok(Acquired::Denied));
    bench.wait(2, "b 10 WAIT 0");
    bench.sweep();
    assert_eq!(bench.holders(), "");
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(2_000), "a look, and no poll");
    bench.host.take(&KEY.to_owned());
    bench.node.maybe_free(KEY);
    assert!(bench.node.has_pending());
    bench.sweep();
    assert_eq!(bench.holders(), "b");
}

/// One copy is for the queue and the checks, the other for the search by name.
#[test]
fn a_queue_at_a_foreign_lock_and_the_plan_to_check_it_share_one_name() {
    let mut bench = Bench::new();
    bench.set_text("old", Some(10));
    bench.wait(2, "b 10 WAIT 0");
    let waiting = &bench.node.waiting;
    let (queue, planned) = (waiting.queue(KEY).unwrap(), waiting.rechecks.keys().next().unwrap());
    assert!(alloc::sync::Arc::ptr_eq(&queue.key(), planned));
}

#[test]
fn a_foreign_lock_is_held_until_it_expires() {
    let mut bench = Bench::new();
    bench.set_text("old", Some(10));
    bench.wait(2, "b 10 WAIT 0");
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_010));
    bench.pass_and_sweep(9_999);
    assert_eq!(bench.holders(), "");
    bench.pass_and_sweep(1);
    assert_eq!((bench.holders(), bench.node.next_wake()), ("b".into(), None));
}

#[test]
fn a_server_that_tells_nothing_is_asked_again_and_again() {
    let mut bench = Bench::new();
    bench.node.is_deaf = true;
    bench.set_text("old", None);
    bench.wait(2, "b 10 WAIT 0");
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_002));
    bench.pass_and_sweep(2_000);
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_004));
    bench.host.take(&KEY.to_owned());
    bench.pass_and_sweep(2_000);
    assert_eq!((bench.holders(), bench.node.next_wake()), ("b".into(), None));
}

#[test]
fn a_foreign_lock_is_not_its_tokens_to_release_or_extend() {
    let mut bench = Bench::new();
    bench.set_text("old", Some(10));
    assert_eq!((bench.extend("old 20"), bench.check("old")), (Ok(false), None));
    assert!(!bench.release("old"));
    assert_eq!(bench.acquire(1, "old 10"), Ok(Acquired::Denied));
}

#[test]
fn a_waiter_can_leave_the_queue_of_a_foreign_lock() {
    let mut bench = Bench::new();
    bench.set_text("old", None);
    let b = bench.wait(2, "b 10 WAIT 0");
    assert!(!bench.release("b"));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Denied)]);
}

#[test]
fn waiters_are_told_when_other_data_takes_the_place_of_a_foreign_lock() {
    let mut bench = Bench::new();
    bench.set_text("old", None);
    let b = bench.wait(2, "b 10 WAIT 0");
    // The server does not report SUNIONSTORE, for example.
    bench.host.set(&KEY.to_owned(), Value::Other);
    bench.pass_and_sweep(999_000);
    assert_eq!(bench.answers(), vec![]);
    bench.pass_and_sweep(1_000);
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Removed)]);
}

#[test]
fn an_ephemeral_grant_ends_with_its_connection() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED EPHEMERAL");
    bench.hold(1, "b 10 SHARED");
    bench.hold(2, "c 10 SHARED EPHEMERAL");
    bench.node.closed(ClientId(1));
    bench.sweep();
    assert_eq!(bench.holders(), "b c");
    assert_eq!(bench.endings(), vec![("a".into(), Ending::Disconnected)]);
}

#[test]
fn an_ephemeral_grant_goes_with_the_connection_that_asked_last() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 EPHEMERAL");
    bench.node.closed(ClientId(1));
    bench.hold(2, "a 10 EPHEMERAL");
    bench.sweep();
    assert_eq!(bench.holders(), "a");
    bench.node.closed(ClientId(2));
    bench.sweep();
    assert_eq!(bench.holders(), "");
}

#[test]
fn a_waiters_ephemeral_grant_ends_with_its_connection() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.wait(2, "b 10 WAIT 0 EPHEMERAL");
    assert!(bench.release("a"));
    bench.node.closed(ClientId(2));
    bench.sweep();
    assert_eq!(bench.holders(), "");
}

#[test]
fn a_removed_ephemeral_lock_is_forgotten() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 EPHEMERAL");
    bench.host.take(&KEY.to_owned());
    bench.node.lost(KEY, b"a", ClientId(1));
    bench.removed(KEY, Fence(0));
    assert!(bench.node.ephemeral.all().count() == 0);
}

#[test]
fn a_grant_that_is_not_ephemeral_outlives_its_connection() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 EPHEMERAL");
    // The lock is removed, and the node does not learn its former holder.
    bench.host.take(&KEY.to_owned());
    bench.removed(KEY, Fence(0));
    let fence = bench.hold(1, "a 10");
    bench.node.closed(ClientId(1));
    bench.sweep();
    assert_eq!(bench.check("a"), Some(fence));
}

#[test]
fn a_flushed_ephemeral_lock_is_forgotten() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 EPHEMERAL");
    bench.host.take(&KEY.to_owned());
    bench.flushed(Some(1));
    assert!(bench.node.ephemeral.all().count() > 0);
    bench.flushed(Some(0));
    assert!(bench.node.ephemeral.all().count() == 0);
}

#[test]
fn waiters_for_a_lock_that_has_moved_are_told_and_nothing_is_granted() {
    let mut bench = Bench::new();
    bench.set_text("old", None);
    let b = bench.wait(2, "b 10 WAIT 0");
    bench.host.take(&KEY.to_owned());
    bench.host.moved.insert(KEY.to_owned());
    bench.node.maybe_free(KEY);
    bench.sweep();
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Removed)]);
    assert_eq!(bench.holders(), "");
}

#[test]
fn a_node_that_becomes_a_replica_tells_its_waiters_and_ends_nothing() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let b = bench.wait(2, "b 10 WAIT 0");
    bench.follow();
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Demoted)]);
    bench.pass(10_000);
    let time = bench.time();
    assert!(!bench.node.sweep(&mut bench.host, time, 10, true));
    assert_eq!((bench.holders(), bench.check("a")), ("a".into(), None));
    bench.node.lead(bench.time());
    bench.sweep();
    assert_eq!(bench.holders(), "");
}

fn granted(token: &'static [u8], fence: u64, mode: Mode) -> Apply<'static> {
    let (ttl, fence) = (Millis(10), Fence(fence));
    Apply::Grant(Granted { token, ttl, fence, mode, ephemeral: true, meta: b"m" })
}

#[test]
fn a_replica_does_as_it_is_told() {
    let mut bench = Bench::new();
    bench.follow();
    let time = bench.time();
    for (apply, holders) in [
        (granted(b"a", 7, Mode::Shared), "a"),
        (granted(b"b", 8, Mode::Shared), "a b"),
        (granted(b"a", 7, Mode::Shared), "a b"),
        (Apply::End(b"a"), "b"),
        (granted(b"c", 9, Mode::Exclusive), "c"),
        (granted(b"c", 9, Mode::Exclusive), "c"),
        (granted(b"d", 10, Mode::Limit(2)), "d"),
        (Apply::End(b"nobody"), "d"),
        (Apply::End(b"d"), ""),
    ] {
        bench.node.apply(&mut bench.host, KEY, &apply, time);
        assert_eq!(bench.holders(), holders, "{apply:?}");
    }
    assert_eq!(bench.node.durable.counter.last(), Fence(10));
}

#[test]
fn a_replica_with_another_clock_accepts_what_its_primary_accepted() {
    let mut bench = Bench::new();
    bench.follow();
    let time = bench.time();
    bench.node.apply(&mut bench.host, KEY, &granted(b"a", 7, Mode::Exclusive), time);
    assert_eq!(bench.extend("a 10 FENCE 9000000000"), Ok(true));
    assert_eq!(bench.check("a"), Some(Fence(9_000_000_000)));
    assert_eq!(bench.node.durable.counter.last(), Fence(9_000_000_000));
}

#[test]
fn a_replica_extends_what_its_primary_extended_though_it_is_over_here() {
    let mut bench = Bench::new();
    bench.follow();
    let time = bench.time();
    for (token, mode) in [(&b"a"[..], Mode::Exclusive), (b"b", Mode::Shared)] {
        bench.node.apply(&mut bench.host, KEY, &granted(token, 7, mode), time);
        bench.pass(10_000);
        let words = if token == b"a" { "a 10" } else { "b 20" };
        assert_eq!(bench.extend(words), Ok(true));
        assert_eq!(bench.holders().as_bytes(), token);
    }
}

#[test]
fn a_replica_removes_what_the_primary_removed_whatever_it_is() {
    let mut bench = Bench::new();
    bench.follow();
    let apply = |bench: &mut Bench, effect: Apply<'_>| {
        let time = bench.time();
        bench.node.apply(&mut bench.host, KEY, &effect, time);
    };
    for mode in [Mode::Exclusive, Mode::Shared] {
        let (token, fence, ttl) = (&b"a"[..], Fence(7), Millis(10));
        apply(
            &mut bench,
            Apply::Grant(Granted { token, ttl, fence, mode, ephemeral: false, meta: b"" }),
        );
        assert_eq!(bench.holders(), "a");
        apply(&mut bench, Apply::Remove);
        assert_eq!(bench.holders(), "");
    }
    bench.set_text("old", None);
    apply(&mut bench, Apply::Remove);
    assert!(bench.host.values.is_empty());
    // A key that is gone, or has not arrived, does no harm.
    apply(&mut bench, Apply::Remove);
}

#[test]
fn a_flush_leaves_the_watch_on_foreign_locks_of_other_databases() {
    let mut bench = Bench::new();
    bench.set_text("old", Some(10));
    bench.wait(2, "b 10 WAIT 0");
    bench.flushed(Some(1));
    bench.pass_and_sweep(10_000);
    assert_eq!(bench.holders(), "b");
}

#[test]
fn what_was_put_off_by_one_that_leads_no_more_is_never_done() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000 EPHEMERAL");
    bench.node.closed(ClientId(1));
    assert!(bench.node.has_pending());
    bench.follow();
    let time = bench.time();
    bench.node.replaced(time);
    bench.sweep();
    assert_eq!(bench.holders(), "a");
}

/// A removed lock with a hundred waiters; the last two of them keep their places.
fn removed_with_a_crowd() -> (Bench, Vec<WaiterId>) {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let mut ids = Vec::new();
    for n in 0..98 {
        let words = format!("t{n} 1000 WAIT {}", if n < 90 { 0 } else { 5 });
        ids.push(bench.wait(2, &words));
    }
    ids.push(bench.wait(2, "kept 5 WAIT 0 KEEP 5"));
    assert_eq!(bench.acquire(2, "away 5 KEEP 5"), Ok(Acquired::Denied));
    bench.answers();
    bench.host.take(&KEY.to_owned());
    bench.removed(KEY, Fence(0));
    (bench, ids)
}

#[test]
fn a_crowd_is_told_of_the_removal_a_part_in_each_turn() {
    let (mut bench, ids) = removed_with_a_crowd();
    assert_eq!(bench.waiters(), "", "no client waits there any more");
    let mut told: Vec<(WaiterId, WaitOutcome)> = Vec::new();
    while bench.node.has_pending() {
        let now = bench.answers();
        assert!((1..=16).contains(&now.len()), "{now:?}");
        told.extend(now);
        let time = bench.time();
        bench.node.sweep(&mut bench.host, time, 20, false);
    }
    told.extend(bench.answers());
    let all: Vec<_> = ids.iter().map(|id| (*id, WaitOutcome::Removed)).collect();
    assert_eq!(told, all, "each once, in order");
    assert_eq!((bench.node.waiting.requests(), bench.node.waiting.places()), (0, 0));
    assert_eq!((bench.node.waiting.stands.len(), bench.node.waiting.ends.len()), (0, 0));
}

#[test]
fn events_before_a_dismissed_crowd_is_told_concern_later_waiters() {
    let (mut bench, ids) = removed_with_a_crowd();
    let told = bench.answers().len();
    // The same tokens come anew: they wait for another holder.
    bench.hold(1, "b 1000");
    let again = bench.wait(3, "t20 1000 WAIT 0 KEEP 60000");
    let other = bench.wait(3, "t30 1000 WAIT 0");
    assert_eq!(bench.answers(), vec![], "the old requests are told what they were to be told");
    bench.gone(ids[20]);
    bench.gone(ids[98]);
    // Waits and places are over by now.
    bench.pass(10_000);
    bench.sweep();
    bench.sweep();
    let left: Vec<WaiterId> = bench.answers().into_iter().map(|(id, _)| id).collect();
    let expected = ids.iter().skip(told).filter(|id| ![ids[20], ids[98]].contains(id));
    assert!(left.iter().eq(expected), "all but those that are gone: {left:?}");
    assert_eq!((bench.waiters(), bench.node.waiting.requests()), ("t20 t30".into(), 2));
    assert_eq!((bench.node.waiting.places(), bench.node.waiting.stands.len()), (0, 2));
    assert!(bench.release("b"));
    assert_eq!(bench.holders(), "t20");
    bench.gone(again);
    bench.gone(other);
    assert_eq!(bench.waiters(), "");
}

#[test]
fn a_dismissed_crowd_is_told_before_the_node_follows() {
    let (mut bench, _) = removed_with_a_crowd();
    bench.follow();
    assert_eq!(bench.answers().len(), 99);
    assert_eq!((bench.node.waiting.stands.len(), bench.node.waiting.places()), (0, 0));
}
