//! Queues: waiters, turns, departures.

use alloc::format;
use alloc::vec;

use super::bench::{Bench, KEY};
use crate::limits::{MAX_FENCE, MAX_WAITERS, WAITERS_OF_ALL};
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::reason::Reason;
use crate::simulated::Report;
use crate::words::{ClientId, Fence, Key, Owner};

#[test]
fn a_release_hands_the_lock_to_the_oldest_waiter() {
    let mut bench = Bench::new();
    let first = bench.hold(1, "a 10");
    let b = bench.wait(2, "b 10 WAIT 0");
    bench.wait(3, "c 10 WAIT 0");
    assert!(bench.release("a"));
    let fence = Fence(first.0 + 1);
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Granted(fence))]);
    assert_eq!(bench.check("b"), Some(fence));
    assert_eq!((bench.holders(), bench.waiters()), ("b".into(), "c".into()));
}

#[test]
fn a_lease_runs_from_the_grant_and_not_from_the_request() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.wait(2, "b 10 WAIT 0");
    bench.pass_and_sweep(10_000);
    bench.pass(9_999);
    assert!(bench.check("b").is_some());
}

#[test]
fn a_request_without_wait_never_overtakes() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.wait(2, "b 10 WAIT 0");
    assert_eq!(bench.acquire(3, "c 10 SHARED"), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(3, "a 10 SHARED"), Ok(Acquired::Granted(Fence(1_000_000))));
}

#[test]
fn a_reader_queues_behind_a_waiting_writer() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.wait(2, "writer 10 WAIT 0");
    bench.wait(3, "reader 10 SHARED WAIT 0");
    bench.wait(4, "other 10 SHARED WAIT 0");
    assert!(bench.release("a"));
    assert_eq!(bench.holders(), "writer");
    assert!(bench.release("writer"));
    assert_eq!((bench.holders(), bench.waiters()), ("other reader".into(), "".into()));
}

#[test]
fn as_many_waiters_as_there_are_permits_are_served_at_once() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    for (client, words) in
        [(2, "b 10 LIMIT 2 WAIT 0"), (3, "c 10 LIMIT 2 WAIT 0"), (4, "d 10 LIMIT 2 WAIT 0")]
    {
        bench.wait(client, words);
    }
    bench.wait(5, "e 10 LIMIT 3 WAIT 0");
    assert!(bench.release("a"));
    assert_eq!((bench.holders(), bench.waiters()), ("b c".into(), "d e".into()));
    assert!(bench.release("b"));
    assert_eq!((bench.holders(), bench.waiters()), ("c d e".into(), "".into()));
}

#[test]
fn where_nothing_may_block_the_answer_is_null() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.host.blocks = false;
    assert_eq!(bench.acquire(2, "b 10 WAIT 0"), Ok(Acquired::Denied));
    assert_eq!(bench.node.waiting.requests(), 0);
}

#[test]
fn a_waiter_gives_up_when_its_time_is_over_and_not_before() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    let b = bench.wait(2, "b 10 WAIT 20");
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_020));
    bench.pass_and_sweep(19_999);
    assert_eq!(bench.answers(), vec![]);
    bench.pass_and_sweep(1);
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Denied)]);
    assert_eq!((bench.node.waiting.requests(), bench.node.next_wake()), (0, None));
}

#[test]
fn waits_end_where_nothing_may_be_written_and_the_next_is_served_later() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100 SHARED");
    bench.wait(2, "b 10 WAIT 20");
    let c = bench.wait(3, "c 100 SHARED WAIT 0");
    bench.answers();
    bench.pass(20_000);
    let time = bench.time();
    assert!(!bench.node.sweep(&mut bench.host, time, 10, false));
    assert_eq!((bench.holders(), bench.node.has_pending()), ("a".into(), true));
    bench.sweep();
    assert_eq!(bench.holders(), "a c");
    assert_eq!(bench.answers()[1], (c, WaitOutcome::Granted(Fence(1_020_000))));
}

#[test]
fn a_token_that_asks_again_takes_its_old_place() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let old = bench.wait(2, "b 10 WAIT 5");
    bench.wait(3, "c 10 WAIT 0");
    let new = bench.wait(4, "b 10 WAIT 0");
    assert_eq!(bench.answers(), vec![(old, WaitOutcome::Replaced)]);
    // The end of the old request changes nothing.
    bench.gone(old);
    bench.pass_and_sweep(5_000);
    assert_eq!(bench.waiters(), "b c");
    assert!(bench.release("a"));
    assert_eq!(bench.answers(), vec![(new, WaitOutcome::Granted(Fence(1_005_000)))]);
    let (_, holders) = bench.host.holders(&KEY.to_owned());
    assert_eq!(holders[0].grant().client, ClientId(4));
}

#[test]
fn a_token_that_asks_again_for_less_may_be_served_at_once() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    let old = bench.wait(2, "b 10 WAIT 0");
    let c = bench.wait(4, "c 10 SHARED WAIT 0");
    assert_eq!(bench.hold(3, "b 10 SHARED"), Fence(1_000_001));
    let granted = WaitOutcome::Granted(Fence(1_000_002));
    assert_eq!(bench.answers(), vec![(old, WaitOutcome::Replaced), (c, granted)]);
    assert_eq!(bench.holders(), "a b c");
}

#[test]
fn a_released_waiter_leaves_and_the_next_is_served() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    let b = bench.wait(2, "b 10 WAIT 0");
    let c = bench.wait(3, "c 10 SHARED WAIT 0");
    assert!(!bench.release("b"));
    let granted = WaitOutcome::Granted(Fence(1_000_001));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Denied), (c, granted)]);
}

#[test]
fn a_waiter_that_is_gone_leaves_without_an_answer_and_the_next_is_served() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    let b = bench.wait(2, "b 10 WAIT 0");
    let c = bench.wait(3, "c 10 SHARED WAIT 0");
    bench.gone(b);
    bench.sweep();
    assert_eq!(bench.answers(), vec![(c, WaitOutcome::Granted(Fence(1_000_001)))]);
}

#[test]
fn a_grant_of_a_request_that_was_unblocked_stays_because_its_connection_may_ask_again() {
    for asks_again in [true, false] {
        let mut bench = Bench::new();
        bench.hold(1, "a 10");
        let b = bench.wait(2, "b 10 WAIT 0");
        assert!(bench.release("a"));
        bench.gone(b);
        if asks_again {
            bench.hold(2, "b 10");
        }
        bench.sweep();
        assert_eq!(bench.holders(), "b");
    }
}

#[test]
fn a_node_has_so_many_waiters_and_no_more() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    for n in 0..MAX_WAITERS {
        bench.wait(2, &format!("{n} 10 WAIT 0"));
    }
    assert_eq!(bench.acquire(4, "d 10 WAIT 0"), Err(Reason::TooManyWaiters));
    assert_eq!(bench.node.waiting.requests() as u64, MAX_WAITERS);
    // The same token on another connection does not count again.
    bench.wait(4, "7 10 WAIT 0");
    assert_eq!(bench.node.waiting.requests() as u64, MAX_WAITERS);
}

#[test]
fn waiters_learn_that_the_fences_are_used_up() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let b = bench.wait(2, "b 10 WAIT 0");
    bench.node.heard_of(KEY, Fence(MAX_FENCE), crate::words::Millis(1));
    assert!(bench.release("a"));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Refused(Reason::Exhausted))]);
    assert_eq!((bench.holders(), bench.node.waiting.requests()), ("".into(), 0));
}

#[test]
fn a_waiters_fence_is_at_least_its_proposal() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    let b = bench.wait(2, "b 10 WAIT 0 FENCE 5000000");
    assert!(bench.release("a"));
    assert_eq!(bench.answers(), vec![(b, WaitOutcome::Granted(Fence(5_000_000)))]);
}

#[test]
fn a_node_wakes_for_what_ends_first() {
    for (wait, keep) in [("b 10 WAIT 20", "c 10 KEEP 30"), ("b 10 WAIT 30", "c 10 KEEP 20")] {
        let mut bench = Bench::new();
        bench.hold(1, "a 1000");
        bench.wait(2, wait);
        assert_eq!(bench.acquire(3, keep), Ok(Acquired::Denied));
        assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_020), "{wait}, {keep}");
    }
}

/// A grant costs more than the end of a lease: other clients wait as long behind a burst of either.
#[test]
fn an_iteration_grants_less_than_it_ends() {
    let done = |waits: bool| {
        let mut bench = Bench::new();
        for name in 0..100 {
            let key = Key { db: 0, name: &[name] };
            assert!(matches!(bench.acquire_at(key, 1, "a 10"), Ok(Acquired::Granted(_))));
            if waits {
                assert!(matches!(
                    bench.acquire_at(key, 2, "b 10 WAIT 0"),
                    Ok(Acquired::Waiting(_))
                ));
            }
        }
        bench.pass(10_000);
        bench.host.log.clear();
        let time = bench.time();
        assert!(bench.node.sweep(&mut bench.host, time, 40, true), "nothing is left");
        bench.host.log.iter().filter(|report| matches!(report, Report::Ended { .. })).count()
    };
    assert_eq!((done(false), done(true)), (40, 8));
}

#[test]
fn one_users_waiters_leave_room_for_others() {
    let mut bench = Bench::new();
    let all = MAX_WAITERS * WAITERS_OF_ALL;
    // Room for as many as 100 requests is left.
    bench.node.waiting.shares.add(Owner(9), all - 100);
    bench.hold(1, "a 10");
    let mut count = |owner, most: u64| {
        bench.host.owner = Owner(owner);
        let words = |n| format!("{owner}-{n} 10 WAIT 0");
        let mut waits = |n| bench.acquire(2, &words(n)) != Err(Reason::TooManyWaiters);
        (0..most).take_while(|n| waits(*n)).count()
    };
    assert_eq!([count(1, 99), count(2, 99), count(3, 99), count(4, 2)], [50, 25, 12, 2]);
    // Another user's request replaces one that is there, and counts for this user.
    assert_eq!(bench.acquire(2, "1-0 10 WAIT 0").map(|_| ()), Ok(()));
    assert_eq!(bench.node.waiting.requests() as u64, all - 11);
    bench.node.waiting.shares.give_back(Owner(9), all - 100);
    bench.host.owner = Owner(1);
    bench.removed(KEY, Fence(0));
    bench.sweep();
    assert_eq!(bench.node.waiting.requests(), 0);
    assert_eq!(bench.node.waiting.shares.taken(), 0);
    bench.hold(1, "a 10");
    bench.wait(2, "b 10 WAIT 0");
}
