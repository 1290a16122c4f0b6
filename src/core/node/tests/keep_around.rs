//! KEEP in all circumstances: bounds, a busy or paused server, quarantine, removal, other roles.

use alloc::vec;

use super::bench::{Bench, KEY};
use crate::limits::MAX_WAITERS;
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::reason::Reason;
use crate::words::{Fence, Key, Millis, Owner};

const MS: u64 = 1000;

fn left(bench: &Bench) -> u64 {
    let (_, holders) = bench.host.holders(&KEY.to_owned());
    holders[0].grant().lease.end.left(bench.time().now).0
}

#[test]
fn places_do_not_end_before_the_requests_that_came_meanwhile_are_read() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    bench.sweep();
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    bench.wait(3, "c 100 WAIT 0");
    // A long script: the next iteration comes before the request is read.
    bench.pass(5000 * MS);
    let time = bench.time();
    assert!(bench.node.sweep(&mut bench.host, time, 100, true), "it has to look again");
    assert_eq!(bench.waiters(), "b c");
    // No request overtakes meanwhile.
    assert!(!bench.release("a"));
    assert_eq!(bench.acquire(4, "d 100"), Ok(Acquired::Denied));
    bench.hold(2, "b 50 KEEP 50");
    assert_eq!(bench.waiters(), "c");
}

#[test]
fn places_do_not_end_while_requests_are_held_back() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100000");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    bench.sweep();
    bench.pass(10 * MS);
    bench.node.look_at_places(bench.time().now, true);
    bench.pass(5000 * MS);
    bench.node.look_at_places(bench.time().now, false);
    bench.pass_and_sweep(39 * MS);
    bench.pass_and_sweep(MS);
    assert_eq!(bench.waiters(), "b");
    for _ in 0..2 {
        bench.pass_and_sweep(10 * MS);
    }
    assert_eq!(bench.waiters(), "");
}

#[test]
fn in_quarantine_a_place_is_taken_and_does_not_end() {
    let mut bench = Bench::new();
    bench.node.settings.quarantine = crate::durability::quarantine::Policy::Least(Millis(1000));
    let time = bench.time();
    bench.node.promoted(time);
    let refused = bench.acquire(2, "b 50 KEEP 50");
    assert!(matches!(refused, Err(Reason::Quarantine { .. })), "{refused:?}");
    assert_eq!((bench.waiters(), bench.node.waiting.places()), ("b".into(), 1));
    bench.pass_and_sweep(999 * MS);
    assert_eq!(bench.waiters(), "b");
    bench.pass_and_sweep(MS);
    assert_eq!((bench.holders(), left(&bench)), ("b".into(), 50));
}

#[test]
fn a_request_without_keep_that_is_refused_leaves_the_one_that_waits() {
    let mut bench = Bench::new();
    bench.node.settings.quarantine = crate::durability::quarantine::Policy::Least(Millis(1000));
    bench.node.promoted(bench.time());
    bench.wait(2, "b 50 WAIT 0");
    let refused = bench.acquire(3, "b 50");
    assert!(matches!(refused, Err(Reason::Quarantine { .. })), "{refused:?}");
    assert_eq!((bench.waiters(), bench.answers().len()), ("b".into(), 0));
}

#[test]
fn while_the_disk_is_full_a_place_is_taken() {
    let mut bench = Bench::new();
    bench.host.disk_is_full = true;
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Err(Reason::NotDurable));
    bench.host.disk_is_full = false;
    assert_eq!(bench.acquire(3, "c 100"), Ok(Acquired::Denied));
    assert_eq!(bench.holders(), "b");
}

/// Clients may use ever new keys: nothing of a queue may stay.
#[test]
fn a_queue_that_is_gone_leaves_no_work_behind() {
    let mut bench = Bench::new();
    bench.leave_room(0);
    bench.hold(1, "a 1000");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    assert!(!bench.node.has_pending(), "it found no room, and was the only one");
    bench.leave_room(5);
    for words in ["b 50 KEEP 50", "c 50 KEEP 50", "b 100"] {
        assert_eq!(bench.acquire(2, words), Ok(Acquired::Denied));
    }
    assert!(bench.node.has_pending(), "the first has left, and the next may be served");
    bench.release("c");
    assert!(!bench.node.has_pending());
    // A waiter waits for the state file, too.
    assert!(bench.release("a"));
    bench.host.disk_is_full = true;
    bench.leave_room(0);
    bench.pass(10_000_000 * MS);
    let d = bench.wait(2, "d 100 WAIT 0");
    bench.gone(d);
    bench.host.disk_is_full = false;
    bench.write();
    assert!(!bench.node.has_pending());
}

#[test]
fn a_removal_from_outside_a_move_and_a_new_role_drop_places_in_silence() {
    for what in ["removed", "flushed", "follows", "moved"] {
        let mut bench = Bench::new();
        bench.hold(1, "a 10");
        assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
        bench.answers();
        match what {
            "removed" => bench.removed(KEY, Fence(0)),
            "flushed" => bench.flushed(None),
            "follows" => bench.follow(),
            _ => {
                bench.host.moved.insert(KEY.to_owned());
                bench.pass_and_sweep(11 * MS);
            }
        }
        assert_eq!((bench.answers(), bench.waiters()), (vec![], "".into()), "{what}");
        assert_eq!(bench.node.waiting.places(), 0, "{what}");
    }
}

#[test]
fn a_client_without_room_leaves_without_a_place_and_other_clients_keep_theirs() {
    let mut bench = Bench::new();
    bench.leave_room(2);
    bench.hold(1, "a 1000");
    for words in ["b 50 KEEP 50", "c 50 KEEP 50", "d 50 KEEP 50"] {
        assert_eq!(bench.acquire(2, words), Ok(Acquired::Denied));
    }
    assert_eq!((bench.waiters(), bench.node.waiting.places_refused()), ("b c".into(), 1));
    // A token with a place can renew it.
    assert_eq!(bench.acquire(2, "c 60 KEEP 60"), Ok(Acquired::Denied));
    assert_eq!(bench.waiters(), "b c");
    // A wait that finds no room for its place ends like any other.
    let e = bench.wait(2, "e 50 WAIT 10 KEEP 50");
    bench.host.owner = Owner(2);
    assert_eq!(bench.acquire(3, "f 50 KEEP 50"), Ok(Acquired::Denied));
    bench.pass_and_sweep(10 * MS);
    assert_eq!(bench.answers(), vec![(e, WaitOutcome::Denied)]);
    assert_eq!((bench.waiters(), bench.node.waiting.places_refused()), ("b c f".into(), 2));
}

#[test]
fn a_place_with_a_long_name_counts_for_several() {
    let mut bench = Bench::new();
    bench.leave_room(3);
    bench.hold(1, "a 1000");
    let meta = alloc::format!("b 50 KEEP 50 META {}", "x".repeat(1020));
    assert_eq!(bench.acquire(2, &meta), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(2, "c 50 KEEP 50"), Ok(Acquired::Denied));
    assert_eq!(bench.waiters(), "b");
}

#[test]
fn too_many_waiters_leave_one_that_is_away_its_place() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    bench.node.waiting.shares.add(bench.host.owner, MAX_WAITERS - 1);
    bench.wait(3, "c 100 WAIT 0");
    assert_eq!(bench.acquire(2, "b 100 WAIT 0"), Err(Reason::TooManyWaiters));
    assert_eq!(bench.waiters(), "b c");
}

#[test]
fn a_plain_string_is_polled_for_requests_and_not_for_places() {
    let mut bench = Bench::new();
    bench.node.is_deaf = true;
    bench.set_text("old", None);
    assert_eq!(bench.acquire(2, "b 100 KEEP 50000"), Ok(Acquired::Denied));
    bench.sweep();
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(51_000));
    bench.wait(2, "b 100 WAIT 0 KEEP 50000");
    assert!(bench.node.next_wake().is_some_and(|end| end.0 < 1_100));
}

#[test]
fn turns_of_the_server_in_which_it_may_not_write_do_not_end_places() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100000");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    for _ in 0..100 {
        bench.pass(MS);
        let time = bench.time();
        bench.node.sweep(&mut bench.host, time, 100, false);
    }
    bench.sweep();
    assert_eq!(bench.waiters(), "b");
}

#[test]
fn one_turn_of_the_server_ends_so_many_waits_and_places_and_leaves_the_rest() {
    let mut bench = Bench::new();
    for n in 0..20_u64 {
        let name = alloc::format!("key {n}");
        let key = Key { db: 0, name: name.as_bytes() };
        assert!(matches!(bench.acquire_at(key, 1, "a 100000"), Ok(Acquired::Granted(_))));
        let waits = bench.acquire_at(key, 2 + n, "b 10 WAIT 10 KEEP 10");
        assert!(matches!(waits, Ok(Acquired::Waiting(_))), "{waits:?}");
    }
    let sweep = |bench: &mut Bench| {
        let time = bench.time();
        bench.node.sweep(&mut bench.host, time, 10, true);
    };
    bench.pass(10 * MS);
    sweep(&mut bench);
    assert_eq!((bench.answers().len(), bench.node.waiting.places()), (5, 5));
    bench.sweep();
    assert_eq!((bench.node.waiting.requests(), bench.node.waiting.places()), (0, 20));
    bench.pass(11 * MS);
    // Requests that came meanwhile are read after the first iteration.
    for left in [20, 15, 10] {
        sweep(&mut bench);
        assert_eq!(bench.node.waiting.places(), left);
    }
}
