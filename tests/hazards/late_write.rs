//! A write that arrives late at the data: its holder was paused (garbage collection, a full disk, a
//! suspended machine), its packet delayed, or it lay in a queue. The lock cannot stop it, for it is at
//! work for another holder by then; the data can.
//!
//! The recipe is a Redlock, a random value on a majority of three nodes. Its holder could look at its
//! clock before it writes, but it has done that before the pause, or never does; and no store can tell,
//! for random values have no order. The fence of dlock is the difference: it grows, every request to the
//! data carries it, and the data refuses the smaller one. Reads carry it, too: a test shows why. And a
//! guard that is looked at says that it is lost, as a Redlock does that keeps the time.

use dlock_client::{Guard, LossReason};
use harness::{Kind, Quorum, Server, Value, eventually};
use tokio::runtime::{Builder, Runtime};

use crate::library::{NODE_TIMEOUT, healthy_program, ms, run, take, wait_for};
use crate::redlock::Redlock;

/// Data, and its mark.
const MARK: &str = "{account}:mark";

/// A store that does what can be done with random values: it refuses those that it has seen before
/// and that are not the last one, for these are of holders before.
const REFUSES_OLD_VALUES: &str = "\
    if redis.call('HGET', KEYS[1], 'value') ~= ARGV[1] then \
        if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end \
        redis.call('SADD', KEYS[2], ARGV[1]) \
    end \
    redis.call('HSET', KEYS[1], 'value', ARGV[1], 'text', ARGV[2]) return 1";

#[test]
fn a_random_value_gives_a_store_nothing_to_refuse_a_late_writer_by() {
    let quorum = Quorum::with(3, |server| server.without_module());
    let store = Server::build(Kind::Valkey91).without_module().start();
    let write = |value: &str, text: &str| {
        let args = ["EVAL", REFUSES_OLD_VALUES, "2", "account", "account:values", value, text];
        store.client().run_args(&args).int()
    };
    let mut alice = Redlock::direct(&quorum, NODE_TIMEOUT);
    let alices = alice.lock("job", ms(500)).expect("it is free");
    // Alice stands still here.
    eventually("alice's leases are over", || {
        quorum.iter().all(|node| node.run("EXISTS job").int() == 0)
    });
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    let bobs = bob.lock("job", ms(60_000)).expect("it is free");
    assert_eq!(write(&bobs.value, "bob's"), 1);
    // And goes on here, with the write that was her next step.
    assert_eq!(write(&alices.value, "alice's"), 1);
    assert!(bobs.is_believed());
    assert!(!alices.is_believed(), "she would know if she looked");
    assert_eq!(store.run("HGET account text").text(), "alice's", "what bob wrote is gone");
}

/// A holder that stands still: nothing of its program runs any more, not even the renewal.
struct Paused {
    program: Runtime,
    guard: Guard,
}

impl Paused {
    fn holder(quorum: &Quorum) -> Paused {
        let program = Builder::new_current_thread().enable_all().build().expect("threads");
        let guard =
            program.block_on(async { take(&healthy_program(quorum).await, "job", ms(500)).await });
        Paused { program, guard }
    }
}

/// The fence of the next holder, after a wait until the lock is free.
fn next_fence(quorum: &Quorum) -> u64 {
    run(async {
        let bob = wait_for(&healthy_program(quorum).await, "job", ms(60_000)).await;
        let fence = bob.fence();
        bob.release().await.expect("it is held");
        fence
    })
}

#[test]
fn a_paused_holder_is_refused_by_the_data() {
    let quorum = Quorum::start(3);
    for kind in [Kind::Redis70, Kind::Redis82, Kind::Valkey81, Kind::Valkey91] {
        let data = Server::start(kind);
        let alice = Paused::holder(&quorum);
        let bob = next_fence(&quorum);
        assert!(!alice.guard.is_valid(), "she would know if she looked");
        assert_eq!(fenced(&data, bob, "SET account bob").text(), "OK");
        assert_eq!(fenced(&data, alice.guard.fence(), "SET account alice").code(), "STALE");
        assert_eq!(fenced(&data, alice.guard.fence(), "GET account").code(), "STALE");
        assert_eq!(data.run("GET account").text(), "bob");
        let loss = alice.program.block_on(alice.guard.lost());
        assert!(matches!(loss.why, LossReason::Paused), "{loss}");
    }
}

#[test]
fn a_read_without_its_fence_lets_a_late_write_be_lost() {
    let quorum = Quorum::start(3);
    let data = Server::start(Kind::Redis82);
    let alice = Paused::holder(&quorum);
    assert_eq!(fenced(&data, alice.guard.fence(), "SET account 100").text(), "OK");
    let bob = next_fence(&quorum);
    let read: i64 = data.run("GET account").text().parse().expect("a number");
    // Acknowledged, for no client has shown a larger fence.
    assert_eq!(fenced(&data, alice.guard.fence(), "SET account 150").text(), "OK");
    assert_eq!(fenced(&data, bob, &format!("SET account {}", read + 1)).text(), "OK");
    assert_eq!(data.run("GET account").text(), "101", "alice's write is gone");
}

#[test]
fn a_read_with_its_fence_refuses_the_late_write_between_it_and_the_next() {
    let quorum = Quorum::start(3);
    let data = Server::start(Kind::Redis82);
    let alice = Paused::holder(&quorum);
    assert_eq!(fenced(&data, alice.guard.fence(), "SET account 100").text(), "OK");
    let bob = next_fence(&quorum);
    let read: i64 = fenced(&data, bob, "GET account").text().parse().expect("a number");
    assert_eq!(fenced(&data, alice.guard.fence(), "SET account 150").code(), "STALE");
    assert_eq!(fenced(&data, bob, &format!("SET account {}", read + 1)).text(), "OK");
    assert_eq!(data.run("GET account").text(), "101");
}

fn fenced(data: &Server, fence: u64, words: &str) -> Value {
    data.run(&format!("DLOCK.FENCED {MARK} {fence} {words}"))
}
