//! TURN: the next in line is told its turn while the holder still holds.

use alloc::vec;

use super::bench::{Bench, KEY};
use crate::node::host::WaitOutcome;
use crate::words::Fence;

#[test]
fn the_next_in_line_is_told_at_once_and_keeps_its_place() {
    let mut bench = Bench::new();
    let held = bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Turn(held))]);
    assert_eq!((bench.waiters(), bench.node.waiting.places()), ("b".into(), 1));
    bench.wait(2, "b 50 WAIT 0 KEEP 50");
    assert!(bench.release("a"));
    assert_eq!(bench.holders(), "b");
}

#[test]
fn a_later_waiter_is_told_when_it_becomes_next() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50");
    let c = bench.wait(3, "c 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![]);
    assert!(bench.release("a"));
    let fence = Fence(1_000_001);
    assert_eq!(
        bench.answers(),
        vec![(b, WaitOutcome::Granted(fence)), (c, WaitOutcome::Turn(fence))]
    );
}

#[test]
fn behind_an_absent_waiter_no_waiter_has_a_turn() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50");
    let c = bench.wait(3, "c 50 WAIT 0 KEEP 50 TURN");
    bench.gone(b);
    bench.sweep();
    assert_eq!(bench.answers(), vec![]);
    for _ in 0..2 {
        bench.pass_and_sweep(51_000);
    }
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Turn(_))] if id == c));
}

#[test]
fn while_the_holder_has_asked_with_turn_only_no_waiter_is_told() {
    for (ask, is_told) in [("a 1000", true), ("a 50 WAIT 0 KEEP 50 TURN", false)] {
        let mut bench = Bench::new();
        let held = bench.hold(1, "a 50 KEEP 50 TURN");
        let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
        assert_eq!(bench.answers(), vec![]);
        assert_eq!(bench.hold(1, ask), held);
        let told = vec![(b, WaitOutcome::Turn(held))];
        assert_eq!(bench.answers(), if is_told { told } else { vec![] });
        assert_eq!(bench.away(), usize::from(!is_told));
    }
}

#[test]
fn a_waiter_that_extends_the_grant_of_its_turn_is_back_and_the_next_is_told() {
    let mut bench = Bench::new();
    let held = bench.hold(1, "a 50 KEEP 50 TURN");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.extend("a 1000"), Ok(true));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Turn(held))]);
}

#[test]
fn a_waiter_granted_before_it_was_told_asks_without_turn_before_the_next_is_told() {
    let mut bench = Bench::new();
    bench.hold(1, "a 50 KEEP 50 TURN");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    let c = bench.wait(3, "c 50 WAIT 0 KEEP 50 TURN");
    assert!(bench.release("a"));
    let fence = Fence(1_000_001);
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Granted(fence))]);
    bench.hold(2, "b 100");
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Turn(fence))]);
}

#[test]
fn a_waiter_told_and_granted_while_away_asks_before_the_next_is_told() {
    let mut bench = Bench::new();
    let held = bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    let c = bench.wait(3, "c 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Turn(held))]);
    assert!(bench.release("a"));
    assert_eq!((bench.holders(), bench.answers()), ("b".into(), vec![]));
    let fence = bench.hold(2, "b 50 WAIT 0 KEEP 50");
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Turn(fence))]);
}

#[test]
fn behind_readers_the_next_is_told_though_one_of_them_has_asked_with_turn_only() {
    let mut bench = Bench::new();
    let held = bench.hold(1, "a 50 SHARED KEEP 50 TURN");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Turn(held))]);
}

#[test]
fn all_waiters_that_would_be_granted_together_are_told() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 LIMIT 2 WAIT 0 KEEP 50 TURN");
    let c = bench.wait(3, "c 50 LIMIT 2 WAIT 0 KEEP 50 TURN");
    let d = bench.wait(4, "d 50 LIMIT 2 WAIT 0 KEEP 50 TURN");
    let turn = WaitOutcome::Turn(Fence(1_000_000));
    assert_eq!(bench.answers(), vec![(b, turn), (c, turn)]);
    assert!(!bench.release("b"));
    assert_eq!(bench.answers(), vec![(d, turn)]);
}

#[test]
fn a_waiter_that_moves_up_because_another_gives_up_is_told() {
    let mut bench = Bench::new();
    let held = bench.hold(1, "a 1000");
    bench.wait(2, "b 100 LIMIT 2 WAIT 0");
    let c = bench.wait(3, "c 100 LIMIT 2 WAIT 0");
    let d = bench.wait(4, "d 50 LIMIT 2 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![]);
    bench.gone(c);
    bench.sweep();
    assert_eq!(bench.answers(), vec![(d, WaitOutcome::Turn(held))]);
}

#[test]
fn a_holder_with_a_plain_string_is_waited_for_in_turn() {
    let mut bench = Bench::new();
    bench.set_text("old", None);
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Turn(Fence(0)))]);
}

#[test]
fn it_says_the_largest_fence_of_the_key_and_not_of_the_holder() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000 SHARED");
    bench.hold(2, "b 1000 SHARED FENCE 3000000");
    assert!(bench.release("b"));
    let c = bench.wait(3, "c 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Turn(Fence(3_000_000)))]);
}

#[test]
fn a_waiter_that_cannot_keep_its_place_is_not_told_and_waits_for_the_lock() {
    let mut bench = Bench::new();
    bench.leave_room(0);
    bench.hold(1, "a 1000");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![]);
    assert!(bench.release("a"));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Granted(Fence(1_000_001)))]);
    assert_eq!(bench.node.waiting.places_refused(), 0, "it got the lock");
    let c = bench.wait(3, "c 50 WAIT 5 KEEP 50 TURN");
    bench.pass_and_sweep(5_000);
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Denied)]);
    assert_eq!(bench.node.waiting.places_refused(), 1);
}

#[test]
fn in_quarantine_no_waiter_has_a_turn() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100000");
    let time = bench.time();
    bench.node.promoted(time);
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50 TURN");
    assert_eq!(bench.answers(), vec![]);
    bench.node.settings.quarantine = crate::durability::quarantine::Policy::Off;
    bench.sweep();
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Turn(_))] if id == b));
    assert!(bench.node.waiting.queue(KEY).is_some());
}
