//! FINAL: a released token, and its overtaken request.

use alloc::string::ToString;
use alloc::vec;

use super::bench::{Bench, KEY};
use crate::command::release::Release;
use crate::limits::FINAL_TOKENS;
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::reason::Reason;
use crate::simulated::Value;
use crate::words::{Fence, Key};

const MINUTE: u64 = 60_000_000;

#[test]
fn an_acquire_that_was_overtaken_by_its_final_release_is_an_error() {
    let mut bench = Bench::new();
    assert_eq!(bench.finish("a"), Ok(false));
    assert_eq!(bench.acquire(1, "a 10 WAIT 0 KEEP 50"), Err(Reason::Final));
    assert_eq!(
        (bench.holders(), bench.waiters(), bench.node.durable.counter.last()),
        ("".into(), "".into(), Fence(0))
    );
    // This token alone is final, and at this key alone.
    bench.hold(1, "b 10");
    assert!(matches!(bench.acquire_at(Key { db: 1, ..KEY }, 1, "a 10"), Ok(Acquired::Granted(_))));
}

#[test]
fn a_final_release_ends_a_lease_a_wait_and_a_place() {
    let mut bench = Bench::new();
    bench.hold(1, "a 100");
    let b = bench.wait(2, "b 50 WAIT 0 KEEP 50");
    assert_eq!(bench.acquire(3, "c 50 KEEP 50"), Ok(Acquired::Denied));
    assert_eq!((bench.finish("b"), bench.finish("c")), (Ok(false), Ok(false)));
    assert_eq!((bench.answers(), bench.waiters()), (vec![(b, WaitOutcome::Denied)], "".into()));
    assert_eq!((bench.finish("a"), bench.finish("a")), (Ok(true), Ok(false)));
    assert_eq!(bench.acquire(1, "a 100"), Err(Reason::Final));
}

#[test]
fn it_is_remembered_for_a_minute() {
    let mut bench = Bench::new();
    assert_eq!(bench.finish("a"), Ok(false));
    bench.pass(MINUTE - 1);
    assert_eq!(bench.acquire(1, "a 10"), Err(Reason::Final));
    assert_eq!(bench.finish("b"), Ok(false));
    bench.pass(1);
    bench.hold(1, "a 10");
    assert_eq!(bench.acquire(1, "b 10"), Err(Reason::Final));
}

#[test]
fn there_is_always_room_and_the_newest_are_remembered() {
    let mut bench = Bench::new();
    let time = bench.time();
    let finals = 4 * FINAL_TOKENS;
    for n in 0..finals {
        let token = n.to_string();
        let ask = Release { token: token.as_bytes(), is_final: true, done: None };
        assert_eq!(bench.node.release(&mut bench.host, KEY, &ask, time), Ok(false));
    }
    let is_final = |n: &usize| bench.node.final_tokens.has(KEY, n.to_string().as_bytes(), time.now);
    assert!((finals - FINAL_TOKENS / 8..finals).filter(is_final).count() > FINAL_TOKENS / 9);
    assert!((0..finals).filter(is_final).count() <= FINAL_TOKENS);
}

#[test]
fn nothing_is_remembered_of_a_key_with_other_data_or_by_a_follower() {
    let mut bench = Bench::new();
    bench.host.set(&KEY.to_owned(), Value::Other);
    assert_eq!(bench.finish("a"), Err(Reason::WrongType));
    bench.host.take(&KEY.to_owned());
    bench.follow();
    assert_eq!(bench.finish("a"), Ok(false));
    assert!(!bench.node.final_tokens.has(KEY, b"a", bench.time().now));
}
