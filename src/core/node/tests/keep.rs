//! KEEP: places that outlast their requests, and the turns of absent waiters.

use alloc::vec;

use super::bench::Bench;
use crate::node::Acquired;
use crate::node::host::{Ending, WaitOutcome};
use crate::words::{ClientId, Fence};

const MS: u64 = 1000;

#[test]
fn one_that_does_not_wait_has_a_place_and_is_served_in_its_turn() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    bench.wait(3, "c 100 WAIT 0");
    assert_eq!((bench.waiters(), bench.node.waiting.requests()), ("b c".into(), 1));
    bench.pass(20 * MS);
    assert!(bench.release("a"));
    assert_eq!((bench.holders(), bench.left()), ("b".into(), 50));
    let fence = bench.hold(2, "b 100");
    assert_eq!((bench.check("b"), bench.left()), (Some(fence), 100));
    assert_eq!((bench.node.waiting.places(), bench.away()), (0, 0));
}

#[test]
fn the_turn_of_one_that_does_not_come_back_lasts_for_its_whole_lease() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    let c = bench.wait(3, "c 100 WAIT 0");
    bench.pass_and_sweep(20 * MS);
    assert!(bench.release("a"));
    bench.answers();
    bench.pass_and_sweep(49 * MS);
    assert_eq!((bench.holders(), bench.left()), ("b".into(), 1));
    bench.pass_and_sweep(MS);
    assert_eq!((bench.holders(), bench.away()), ("c".into(), 0));
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == c));
}

#[test]
fn a_wait_that_is_over_or_whose_connection_breaks_leaves_a_place() {
    for breaks in [false, true] {
        let mut bench = Bench::new();
        bench.hold(1, "a 1000");
        let b = bench.wait(2, "b 50 WAIT 20 KEEP 50");
        bench.wait(3, "c 100 WAIT 0");
        if breaks {
            bench.pass(20 * MS);
            bench.gone(b);
        }
        bench.pass_and_sweep(if breaks { 0 } else { 20 * MS });
        let answers = if breaks { vec![] } else { vec![(b, WaitOutcome::Denied)] };
        assert_eq!(bench.answers(), answers);
        assert_eq!((bench.waiters(), bench.node.waiting.places()), ("b c".into(), 1));
        bench.pass_and_sweep(49 * MS);
        assert_eq!(bench.waiters(), "b c");
        bench.pass_and_sweep(2 * MS);
        assert_eq!((bench.waiters(), bench.node.waiting.places()), ("c".into(), 0));
    }
}

#[test]
fn what_becomes_of_a_connection_after_its_answer_is_nothing_to_its_place() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 WAIT 20 KEEP 50");
    bench.pass_and_sweep(20 * MS);
    bench.gone(b);
    bench.node.closed(ClientId(2));
    assert_eq!(bench.waiters(), "b");
}

#[test]
fn slices_are_served_in_the_order_in_which_they_first_came() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10000");
    for words in ["b 50 WAIT 10 KEEP 50", "c 50 WAIT 10 KEEP 50", "d 100 WAIT 0"] {
        bench.wait(2, words);
    }
    bench.pass_and_sweep(10 * MS);
    // The second comes back before the first.
    bench.wait(3, "c 50 WAIT 10 KEEP 50");
    bench.wait(2, "b 50 WAIT 10 KEEP 50");
    assert_eq!((bench.waiters(), bench.node.waiting.requests()), ("b c d".into(), 3));
    assert!(bench.release("a"));
    assert_eq!(bench.holders(), "b");
}

#[test]
fn the_newest_request_says_whether_a_place_is_kept() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(2, "b 100"), Ok(Acquired::Denied));
    assert_eq!((bench.waiters(), bench.node.waiting.places()), ("".into(), 0));
    // The same is true for a token that waits on another connection: that request ends.
    for (poll, stays) in [("b 50 KEEP 50", "b"), ("b 100", "")] {
        let b = bench.wait(2, "b 5 WAIT 20 KEEP 5");
        assert_eq!(bench.acquire(3, poll), Ok(Acquired::Denied));
        assert_eq!(bench.answers(), vec![(b, WaitOutcome::Replaced)]);
        assert_eq!(bench.waiters(), stays);
    }
}

#[test]
fn a_dead_client_costs_its_newest_keep_and_no_lease_of_an_earlier_request() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 100000 WAIT 0");
    assert_eq!(bench.acquire(3, "b 50 KEEP 50"), Ok(Acquired::Denied));
    assert!(bench.release("a"));
    bench.gone(b);
    assert_eq!((bench.holders(), bench.left()), ("b".into(), 50));
}

#[test]
fn one_that_is_away_and_comes_back_in_another_mode_keeps_its_position() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000 SHARED");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    let c = bench.wait(3, "c 100 SHARED WAIT 0");
    // First in line, and compatible now: it gets the lock, and so does the waiter behind it.
    let fence = bench.hold(2, "b 50 SHARED KEEP 50");
    assert_eq!((bench.holders(), bench.check("b")), ("a b c".into(), Some(fence)));
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Granted(Fence(fence.0 + 1)))]);
    // Not the first.
    assert_eq!(bench.acquire(2, "d 50 KEEP 50"), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(2, "e 50 KEEP 50"), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(2, "e 50 SHARED KEEP 50"), Ok(Acquired::Denied));
    assert_eq!(bench.waiters(), "d e");
}

#[test]
fn readers_and_permits_have_places_like_others() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    assert_eq!(bench.acquire(2, "b 50 LIMIT 2 KEEP 50"), Ok(Acquired::Denied));
    for words in ["c 100 LIMIT 2 WAIT 0", "d 100 LIMIT 2 WAIT 0"] {
        bench.wait(3, words);
    }
    assert!(bench.release("a"));
    assert_eq!((bench.holders(), bench.waiters()), ("b c".into(), "d".into()));
    assert_eq!(bench.away(), 1);
    for _ in 0..2 {
        bench.pass_and_sweep(50 * MS);
    }
    assert_eq!((bench.holders(), bench.away()), ("d".into(), 0));
}

#[test]
fn a_crowd_that_dies_at_once_costs_one_keep_in_all() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    for words in ["b 50 WAIT 0 KEEP 50", "c 50 WAIT 0 KEEP 50", "d 50 WAIT 0 KEEP 50"] {
        let dead = bench.wait(2, words);
        bench.gone(dead);
    }
    bench.wait(3, "e 99 WAIT 0");
    assert!(bench.release("a"));
    for _ in 0..26 {
        bench.pass_and_sweep(2 * MS);
    }
    assert_eq!((bench.holders(), bench.node.waiting.places()), ("e".into(), 0));
}

#[test]
fn a_grant_whose_reply_was_not_written_lasts_for_its_whole_lease() {
    for keep in ["", " KEEP 50"] {
        let mut bench = Bench::new();
        bench.hold(1, "a 100");
        let b = bench.wait(2, &std::format!("b 50 WAIT 0{keep}"));
        bench.wait(3, "c 100 WAIT 0");
        assert!(bench.release("a"));
        bench.closed(2, b);
        bench.sweep();
        assert_eq!((bench.holders(), bench.left()), ("b".into(), 50));
        assert_eq!(bench.hold(4, "b 100000"), bench.check("b").unwrap());
        assert_eq!(bench.left(), 100_000);
    }
}

#[test]
fn a_grant_that_ends_with_a_connection_is_not_kept_by_an_extension_over_another_one() {
    for keep in ["", " KEEP 50"] {
        let mut bench = Bench::new();
        bench.hold(1, "a 100");
        let b = bench.wait(2, &alloc::format!("b 50 WAIT 0 EPHEMERAL{keep}"));
        assert!(bench.release("a"));
        assert_eq!(bench.extend("b 99"), Ok(true));
        bench.gone(b);
        bench.node.closed(ClientId(2));
        bench.sweep();
        assert_eq!(bench.holders(), "");
    }
}

#[test]
fn the_turn_of_one_that_asked_for_ephemeral_is_tied_by_its_next_request() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    assert_eq!(bench.acquire(2, "b 50 EPHEMERAL KEEP 50"), Ok(Acquired::Denied));
    assert!(bench.release("a"));
    bench.node.closed(ClientId(2));
    bench.sweep();
    assert_eq!(bench.holders(), "b");
    bench.hold(3, "b 100 EPHEMERAL");
    bench.node.closed(ClientId(3));
    bench.sweep();
    assert_eq!(bench.holders(), "");
}

#[test]
fn one_that_is_away_may_extend_or_release_what_its_turn_has_brought() {
    for extends in [false, true] {
        let mut bench = Bench::new();
        bench.hold(1, "a 100");
        assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
        assert!(bench.release("a"));
        if extends {
            assert_eq!(bench.extend("b 200"), Ok(true));
            assert_eq!(bench.left(), 200);
        } else {
            assert!(bench.release("b"));
            assert_eq!(bench.holders(), "");
        }
        assert_eq!(bench.away(), 0);
    }
}

#[test]
fn a_release_or_a_break_with_its_token_removes_a_place() {
    for breaks in [false, true] {
        let mut bench = Bench::new();
        bench.hold(1, "a 1000 SHARED");
        assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
        bench.wait(3, "c 100 SHARED WAIT 0");
        if breaks {
            assert_eq!(bench.break_lock(Some("b")), 1);
        } else {
            assert!(!bench.release("b"));
        }
        assert_eq!((bench.holders(), bench.node.waiting.places()), ("a c".into(), 0));
    }
}

#[test]
fn only_time_ends_the_grants_of_absent_waiters() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    assert_eq!(bench.acquire(2, "b 50 KEEP 50"), Ok(Acquired::Denied));
    assert!(bench.release("a"));
    bench.endings();
    for _ in 0..3 {
        bench.pass_and_sweep(60 * MS);
    }
    assert_eq!(bench.endings(), vec![("b".into(), Ending::Expired)]);
}
