//! A write that arrives late at the data: its holder was paused (garbage collection, a full disk, a suspended
//! machine), or its packet was delayed, or lay in a queue. The lock cannot stop it: another client holds it
//! by then. The data can.
//!
//! The recipe is a Redlock, a random value on a majority of three nodes. Its holder could look at its clock
//! before it writes, but it did so before the pause, or never does. No store can tell, for random values have
//! no order. dlock's fence grows, every request to the data carries it, and the data refuses the smaller one.
//! Reads carry it, too: a test shows why. A guard reports its loss when it is checked, as a Redlock does that
//! keeps the time.

use dlock_client::{Guard, LossReason};
use harness::{Kind, Quorum, Server, Value, eventually};
use tokio::runtime::{Builder, Runtime};

use crate::library::{NODE_TIMEOUT, healthy_program, ms, run, wait_for};
use crate::redlock::Redlock;

/// Data, and its mark.
const MARK: &str = "{account}:mark";

/// A store that does as much as random values allow: it refuses values of earlier holders. These it has seen
/// before, and they are not the last one.
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
    let alices = alice.lock("job", ms(3_000)).expect("it is free");
    // Alice is paused here.
    eventually("alice's leases are over", || {
        quorum.iter().all(|node| node.run("EXISTS job").int() == 0)
    });
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    let bobs = bob.lock("job", ms(60_000)).expect("it is free");
    assert_eq!(write(&bobs.value, "bob's"), 1);
    // Alice resumes here, with the write that was her next step.
    assert_eq!(write(&alices.value, "alice's"), 1);
    assert!(bobs.is_believed());
    assert!(!alices.is_believed(), "she would know if she looked");
    assert_eq!(store.run("HGET account text").text(), "alice's", "what bob wrote is gone");
}

/// A paused holder: nothing of its program runs any more, not even the renewal.
struct Paused {
    program: Runtime,
    guard: Guard,
}

impl Paused {
    fn holder(quorum: &Quorum) -> Paused {
        let program = Builder::new_current_thread().enable_all().build().expect("threads");
        let guard = program
            .block_on(async { wait_for(&healthy_program(quorum).await, "job", ms(500)).await });
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
    let data = Server::start(Kind::Redis82);
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

#[test]
fn a_read_without_its_fence_lets_a_late_write_be_lost() {
    let quorum = Quorum::start(3);
    let data = Server::start(Kind::Redis82);
    let alice = Paused::holder(&quorum);
    assert_eq!(fenced(&data, alice.guard.fence(), "SET account 100").text(), "OK");
    let bob = next_fence(&quorum);
    let read: i64 = data.run("GET account").text().parse().expect("a number");
    // Accepted, for no client has shown a larger fence.
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
