//! A write that arrives late at the data: its holder was paused, its packet delayed, or it lay in a
//! queue. The lock cannot stop it, for it is at work for somebody else by then; the data can.
//!
//! The recipe checks the lock and then writes. With dlock every request to the data carries the
//! fence, and reads do, too: a test shows why.

use dlock_client::Guard;
use harness::{Kind, Quorum, Server, Value, eventually};
use tokio::runtime::{Builder, Runtime};

use crate::library::{NODE_TIMEOUT, healthy_program, ms, run, take, wait_for};
use crate::redlock::Redlock;

/// Data, and its mark.
const MARK: &str = "{account}:mark";

/// A holder that stands still: nothing of its program runs any more, not even the renewal.
struct Paused {
    _program: Runtime,
    guard: Guard,
}

impl Paused {
    fn holder(quorum: &Quorum) -> Paused {
        let program = Builder::new_current_thread().enable_all().build().expect("threads");
        let guard =
            program.block_on(async { take(&healthy_program(quorum).await, "job", ms(500)).await });
        Paused { _program: program, guard }
    }
}

/// The fence of the next holder, who waits until the lock is free.
fn next_fence(quorum: &Quorum) -> u64 {
    run(async {
        let bob = wait_for(&healthy_program(quorum).await, "job", ms(60_000)).await;
        let fence = bob.fence();
        bob.release().await.expect("it is held");
        fence
    })
}

#[test]
fn with_a_redlock_a_late_write_lands_after_that_of_the_next_holder() {
    let quorum = Quorum::with(3, |server| server.without_module());
    let data = Server::build(Kind::Redis82).without_module().start();
    let mut alice = Redlock::direct(&quorum, NODE_TIMEOUT);
    let held = alice.lock("job", ms(500)).expect("it is free");
    assert!(held.is_believed(), "she looks, and stands still then");
    eventually("alice's leases are over", || {
        quorum.iter().all(|node| node.run("EXISTS job").int() == 0)
    });
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    bob.lock("job", ms(60_000)).expect("it is free");
    assert_eq!(data.run("SET account bob").text(), "OK");
    assert_eq!(data.run("SET account alice").text(), "OK");
    assert_eq!(data.run("GET account").text(), "alice");
}

#[test]
fn a_paused_holder_is_refused_by_the_data() {
    let quorum = Quorum::start(3);
    for kind in [Kind::Redis70, Kind::Redis82, Kind::Valkey81, Kind::Valkey91] {
        let data = Server::start(kind);
        let alice = Paused::holder(&quorum);
        let bob = next_fence(&quorum);
        assert_eq!(fenced(&data, bob, "SET account bob").text(), "OK");
        assert_eq!(fenced(&data, alice.guard.fence(), "SET account alice").code(), "STALE");
        assert_eq!(fenced(&data, alice.guard.fence(), "GET account").code(), "STALE");
        assert_eq!(data.run("GET account").text(), "bob");
    }
}

#[test]
fn a_delayed_packet_and_a_queue_change_nothing() {
    let quorum = Quorum::start(3);
    let data = Server::start(Kind::Valkey91);
    let alice = Paused::holder(&quorum);
    // Written while she held; on its way for as long as it likes.
    let queued = format!("DLOCK.FENCED {MARK} {} SET account alice", alice.guard.fence());
    let bob = next_fence(&quorum);
    assert_eq!(fenced(&data, bob, "SET account bob").text(), "OK");
    assert_eq!(data.run(&queued).code(), "STALE");
    assert_eq!(data.run("GET account").text(), "bob");
}

#[test]
fn a_read_without_its_fence_lets_a_late_write_be_lost() {
    let quorum = Quorum::start(3);
    let data = Server::start(Kind::Redis82);
    let alice = Paused::holder(&quorum);
    assert_eq!(fenced(&data, alice.guard.fence(), "SET account 100").text(), "OK");
    let bob = next_fence(&quorum);
    let read: i64 = data.run("GET account").text().parse().expect("a number");
    // Acknowledged, for nobody has shown a larger fence.
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
