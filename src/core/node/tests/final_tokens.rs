//! FINAL: a released token, and its overtaken request.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

use super::bench::{Bench, KEY};
use crate::command::release::Release;
use crate::limits::{BYTES_PER_UNIT, MAX_FINALS};
use crate::node::Acquired;
use crate::node::host::WaitOutcome;
use crate::reason::Reason;
use crate::simulated::Value;
use crate::words::{Fence, Key, Owner};

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
fn it_is_remembered_for_a_minute_and_not_for_ever() {
    let mut bench = Bench::new();
    assert_eq!(bench.finish("a"), Ok(false));
    for _ in 1..60 {
        bench.pass(MINUTE / 60);
        bench.node.look_at_places(bench.time().now, false);
    }
    assert_eq!(bench.acquire(1, "a 10"), Err(Reason::Final));
    assert_eq!(bench.finish("b"), Ok(false));
    bench.pass(MINUTE - 1);
    assert_eq!(bench.acquire(1, "b 10"), Err(Reason::Final));
    bench.pass(2 * MINUTE);
    bench.node.look_at_places(bench.time().now, false);
    bench.pass(MINUTE);
    bench.node.look_at_places(bench.time().now, false);
    assert!(bench.node.final_tokens.is_empty());
    bench.hold(1, "a 10");
}

#[test]
fn a_full_store_takes_no_more_tokens_of_the_user_that_filled_it_and_still_releases() {
    let mut bench = Bench::new();
    bench.host.owner = Owner(2);
    assert_eq!(bench.finish("other"), Ok(false));
    bench.host.owner = Owner(1);
    let fill = |bench: &mut Bench, n| bench.finish(Box::leak(format!("t{n}").into_boxed_str()));
    (0..MAX_FINALS).for_each(|n| assert_eq!(fill(&mut bench, n), Ok(false)));
    bench.hold(1, "a 100");
    assert_eq!((bench.finish("a"), bench.holders()), (Ok(true), "".into()));
    bench.hold(1, "a 10");
    bench.release("a");
    for remembered in ["t0 10", "other 10"] {
        assert_eq!(bench.acquire(1, remembered), Err(Reason::Final), "{remembered}");
    }
    bench.host.owner = Owner(2);
    assert_eq!(bench.finish("more"), Ok(false));
    assert_eq!(bench.acquire(1, "more 10"), Err(Reason::Final));
}

#[test]
fn nothing_is_remembered_of_a_key_with_other_data_or_by_a_follower() {
    let mut bench = Bench::new();
    bench.host.set(&KEY.to_owned(), Value::Other);
    assert_eq!(bench.finish("a"), Err(Reason::WrongType));
    bench.host.take(&KEY.to_owned());
    bench.follow();
    assert_eq!(bench.finish("a"), Ok(false));
    assert!(bench.node.final_tokens.is_empty());
}

#[test]
fn long_names_take_the_room_of_several() {
    let name = vec![b'n'; 100 * BYTES_PER_UNIT];
    let key = Key { db: 0, name: &name };
    let mut bench = Bench::new();
    let time = bench.time();
    for n in 0..MAX_FINALS / 100 {
        let token = format!("{n:06}");
        let ask = Release { token: token.as_bytes(), is_final: true, done: None };
        assert_eq!(bench.node.release(&mut bench.host, key, &ask, time), Ok(false));
    }
    let remembered = (0..MAX_FINALS / 100)
        .filter(|n| bench.node.final_tokens.has(key, format!("{n:06}").as_bytes(), time.now));
    assert_eq!(remembered.count() as u64, MAX_FINALS / 2 / 101);
}
