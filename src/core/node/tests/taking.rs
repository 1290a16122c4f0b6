//! ACQUIRE, granted or denied at once.

use super::bench::{Bench, KEY};
use crate::command::release::Release;
use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD, MAX_HOLDERS};
use crate::lock::{Crowd, Grant};
use crate::node::Acquired;
use crate::reason::Reason;
use crate::simulated::{Report, Value};
use crate::words::{ClientId, Fence, Instant, Lease, Millis, Mode};

#[test]
fn a_free_lock_is_granted_and_a_held_one_is_not() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    for words in ["b 10", "b 10 SHARED", "b 10 LIMIT 5"] {
        assert_eq!(bench.acquire(2, words), Ok(Acquired::Denied));
    }
    assert_eq!(bench.holders(), "a");
}

#[test]
fn readers_share_and_exclude_the_others() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 SHARED");
    bench.hold(2, "b 10 SHARED");
    assert_eq!(bench.acquire(3, "c 10"), Ok(Acquired::Denied));
    assert_eq!(bench.acquire(3, "c 10 LIMIT 9"), Ok(Acquired::Denied));
    assert_eq!(bench.holders(), "a b");
}

#[test]
fn a_semaphore_has_its_permits_and_no_more() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 LIMIT 2");
    bench.hold(2, "b 10 LIMIT 2");
    assert_eq!(bench.acquire(3, "c 10 LIMIT 2"), Ok(Acquired::Denied));
    assert!(bench.release("a"));
    bench.hold(3, "c 10 LIMIT 2");
    assert_eq!(bench.holders(), "b c");
}

#[test]
fn a_request_says_how_many_permits_there_are_for_itself() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 LIMIT 2");
    bench.hold(2, "b 10 LIMIT 3");
    assert_eq!(bench.acquire(3, "c 10 LIMIT 2"), Ok(Acquired::Denied));
    bench.hold(3, "c 10 LIMIT 3");
    let d = bench.wait(4, "d 10 LIMIT 2 WAIT 0");
    assert!(bench.release("a"));
    assert_eq!(bench.holders(), "b c");
    assert!(bench.release("b"));
    assert_eq!((bench.holders(), bench.answers()[0].0), ("c d".into(), d));
    // Its own number changes nothing for a holder that asks again.
    bench.hold(3, "c 10 LIMIT 1");
    assert_eq!(bench.holders(), "c d");
}

#[test]
fn one_lock_has_so_many_readers_and_no_more() {
    let mut bench = Bench::new();
    let mut crowd = Crowd::new(Mode::Shared);
    for i in 0..MAX_HOLDERS as u64 - 1 {
        crowd.add(
            Mode::Shared,
            Grant {
                token: &i.to_be_bytes(),
                fence: Fence(1),
                lease: Lease::begin(Instant(bench.now), Millis(10)),
                client: ClientId(1),
                ephemeral: false,
                meta: b"",
            },
        );
    }
    bench.host.set(&KEY.to_owned(), Value::Many(crowd));
    bench.hold(1, "last 10 SHARED");
    let counter = bench.node.durable.counter.last();
    assert_eq!(bench.acquire(2, "more 10 SHARED WAIT 0"), Err(Reason::TooManyHolders));
    assert_eq!((bench.node.durable.counter.last(), bench.node.waiting.requests()), (counter, 0));
}

#[test]
fn the_same_token_gets_the_same_fence() {
    let mut bench = Bench::new();
    for mode in ["", " SHARED", " LIMIT 2"] {
        let (first, again) = match mode {
            "" => (bench.hold(1, "a 10"), bench.hold(2, "a 10 WAIT 0")),
            " SHARED" => (bench.hold(1, "a 10 SHARED"), bench.hold(2, "a 10 SHARED")),
            _ => (bench.hold(1, "a 10 LIMIT 2"), bench.hold(2, "a 10 LIMIT 2")),
        };
        assert_eq!(first, again);
        assert_eq!(bench.node.durable.counter.last(), first);
        assert_eq!(bench.holders(), "a");
        assert!(bench.release("a"));
    }
}

#[test]
fn the_same_token_gets_a_longer_lease_and_never_a_shorter_one() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10");
    bench.pass(5_000);
    bench.hold(1, "a 2");
    bench.pass(4_999);
    assert!(bench.check("a").is_some());
    bench.hold(1, "a 10");
    bench.pass(9_999);
    assert!(bench.check("a").is_some());
    bench.pass(1_001);
    assert_eq!(bench.check("a"), None);
}

#[test]
fn what_the_newest_request_said_of_itself_counts() {
    let mut bench = Bench::new();
    bench.hold(1, "a 10 META one EPHEMERAL");
    bench.hold(2, "a 10 META two");
    let (_, holders) = bench.host.holders(&KEY.to_owned());
    let Grant { client, meta, ephemeral, .. } = holders[0].grant();
    assert_eq!((client, meta, ephemeral), (ClientId(2), &b"two"[..], false));
    assert!(matches!(bench.host.log.last(), Some(Report::Renewed { .. })));
}

#[test]
fn the_same_token_in_another_mode_is_an_error() {
    let mut bench = Bench::new();
    let fence = bench.hold(1, "a 10");
    let refused = Reason::OtherMode { held: Mode::Exclusive, asked: Mode::Shared };
    assert_eq!(bench.acquire(1, "a 10 SHARED"), Err(refused));
    assert_eq!(bench.check("a"), Some(fence));
}

#[test]
fn a_fence_is_the_largest_of_last_and_proposal_and_time() {
    let mut bench = Bench::new();
    let first = bench.hold(1, "a 10");
    assert_eq!(first, Fence(1_000_000));
    assert!(bench.release("a"));
    assert_eq!(bench.hold(1, "b 10"), Fence(1_000_001));
    assert!(bench.release("b"));
    assert_eq!(bench.hold(1, "c 10 FENCE 2000000"), Fence(2_000_000));
    assert!(bench.release("c"));
    assert_eq!(bench.hold(1, "d 10 FENCE 7"), Fence(2_000_001));
}

#[test]
fn a_proposal_too_far_ahead_is_an_error_even_for_a_holder() {
    let mut bench = Bench::new();
    let most = MAX_FENCE_AHEAD;
    assert_eq!(most, 600_000_000);
    let refused = Reason::TooFar { given: most + 1, most };
    assert_eq!(bench.acquire(1, "a 10 FENCE 600000001"), Err(refused));
    assert_eq!((bench.node.durable.counter.last(), bench.host.log.len()), (Fence(0), 0));
    assert_eq!(bench.hold(1, "a 10 FENCE 600000000"), Fence(most));
    // The counter is ahead of the clock now, and the limit does not follow it.
    assert_eq!(bench.acquire(1, "a 10 FENCE 600000001"), Err(refused));
}

#[test]
fn when_the_fences_are_used_up_nothing_is_granted() {
    let mut bench = Bench::new();
    bench.node.heard_of(KEY, Fence(MAX_FENCE - 1), Millis(1));
    assert_eq!(bench.hold(1, "a 10"), Fence(MAX_FENCE));
    assert!(bench.release("a"));
    assert_eq!(bench.acquire(1, "b 10"), Err(Reason::Exhausted));
    assert_eq!(bench.holders(), "");
}

#[test]
fn other_data_at_the_key_is_an_error() {
    let mut bench = Bench::new();
    bench.host.set(&KEY.to_owned(), Value::Other);
    let time = bench.time();
    assert_eq!(bench.acquire(1, "a 10 WAIT 0"), Err(Reason::WrongType));
    assert_eq!(bench.extend("a 10"), Err(Reason::WrongType));
    let Bench { mut node, mut host, .. } = bench;
    assert_eq!(
        node.release(&mut host, KEY, &Release { token: b"a", is_final: false, done: None }, time),
        Err(Reason::WrongType)
    );
    assert_eq!(node.check(&mut host, KEY, b"a", time), Err(Reason::WrongType));
    assert_eq!(node.break_lock(&mut host, KEY, None, time), Err(Reason::WrongType));
    assert!(host.log.is_empty());
}

#[test]
fn a_lease_that_is_over_blocks_no_client() {
    let mut bench = Bench::new();
    let first = bench.hold(1, "a 10");
    bench.pass(9_999);
    assert_eq!(bench.acquire(2, "b 10"), Ok(Acquired::Denied));
    bench.pass(1);
    assert!(bench.hold(2, "b 10") > first);
    assert_eq!(bench.holders(), "b");
}

#[test]
fn a_holder_whose_lease_is_over_asks_as_a_newcomer() {
    let mut bench = Bench::new();
    let first = bench.hold(1, "a 10");
    bench.pass(10_000);
    assert!(bench.hold(1, "a 10") > first);
}
