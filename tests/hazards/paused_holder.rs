//! A holder of a Redlock that is paused before it writes.
//!
//! The recipe: a random value on a majority of three nodes. The holder stands still (garbage
//! collection, a full disk, a suspended machine) until its leases are over and the next one has
//! written; then it goes on and writes. The holder could have looked at its clock first, but it had
//! done that before the pause, or never does. No store can tell: random values have no order. The
//! fence of dlock is the difference: it grows, and the store refuses the smaller one. And a guard
//! that is looked at says that it is lost, as a Redlock does that keeps the time.

use std::time::Duration;

use dlock_client::{Guard, LossReason};
use harness::{Kind, Quorum, Server, Value, eventually};
use tokio::runtime::Builder;

use crate::library::{NODE_TIMEOUT, healthy_program, ms, run, take, wait_for};
use crate::redlock::Redlock;

const TTL: Duration = ms(500);

/// A store that does what can be done with random values: it refuses those that it has seen before
/// and that are not the last one, for these are of holders before.
const REFUSES_OLD_VALUES: &str = "\
    if redis.call('HGET', KEYS[1], 'value') ~= ARGV[1] then \
        if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end \
        redis.call('SADD', KEYS[2], ARGV[1]) \
    end \
    redis.call('HSET', KEYS[1], 'value', ARGV[1], 'text', ARGV[2]) return 1";

/// A store that keeps the largest fence that it has seen.
const REFUSES_SMALLER_FENCES: &str = "\
    if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then return 0 end \
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'text', ARGV[2]) return 1";

#[test]
fn a_random_value_gives_a_store_nothing_to_refuse_a_late_writer_by() {
    let quorum = Quorum::with(3, |server| server.without_module());
    let store = store();
    let mut alice = Redlock::direct(&quorum, NODE_TIMEOUT);
    let alices = alice.lock("job", TTL).expect("it is free");
    // Alice stands still here.
    eventually("alice's leases are over", || {
        quorum.iter().all(|node| node.run("EXISTS job").int() == 0)
    });
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    let bobs = bob.lock("job", ms(60_000)).expect("it is free");
    assert_eq!(write(&store, REFUSES_OLD_VALUES, &bobs.value, "bob's"), 1);
    // And goes on here, with the write that was her next step.
    assert_eq!(write(&store, REFUSES_OLD_VALUES, &alices.value, "alice's"), 1);
    assert!(bobs.is_believed());
    assert!(!alices.is_believed(), "she would know if she looked");
    assert_eq!(store.run("HGET account text").text(), "alice's", "what bob wrote is gone");
}

#[test]
fn a_fence_refuses_a_late_writer_and_its_guard_says_that_it_is_lost() {
    let quorum = Quorum::start(3);
    let store = store();
    // Nothing of alice's program runs but what is run here, not even the renewal.
    let alice = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let alices = alice.block_on(async { take(&healthy_program(&quorum).await, "job", TTL).await });
    // Alice stands still here.
    run(async {
        let bob = healthy_program(&quorum).await;
        let bobs = wait_for(&bob, "job", ms(60_000)).await;
        assert!(!alices.is_valid(), "she would know if she looked");
        assert!(bobs.fence() > alices.fence());
        assert_eq!(write_with_fence(&store, &bobs, "bob's"), 1);
        // And goes on here, with the write that was her next step.
        assert_eq!(write_with_fence(&store, &alices, "alice's"), 0);
        assert!(bobs.is_valid());
        assert_eq!(write_with_fence(&store, &bobs, "bob's again"), 1);
        assert_eq!(store.run("HGET account text").text(), "bob's again");
        bobs.release().await.expect("it is held");
    });
    let loss = alice.block_on(alices.lost());
    assert!(matches!(loss.why, LossReason::Paused), "{loss}");
}

fn store() -> Server {
    Server::build(Kind::Valkey91).without_module().start()
}

fn write_with_fence(store: &Server, guard: &Guard, text: &str) -> i64 {
    write(store, REFUSES_SMALLER_FENCES, &guard.fence().to_string(), text)
}

/// Writes with a value or a fence, and gives 1 if the store took it.
fn write(store: &Server, script: &str, number: &str, text: &str) -> i64 {
    let args = ["EVAL", script, "2", "account", "account:values", number, text];
    let answer: Value = store.client().run_args(&args);
    answer.int()
}
