//! Redlock that asks its nodes one after the other, and one of them is slow.
//!
//! The recipe: `SET NX PX` on each node in turn, and each may take long to answer. The first leases
//! are over before the last answer is there. Who counts the lease from that answer believes that the
//! lock is held, and so does somebody else; who counts from the first request never has the lock at
//! all. dlock asks all nodes at once, does not wait for the slow one, and counts from the requests.

use std::thread;
use std::time::Duration;

use harness::{Quorum, Way, eventually};

use crate::library::{connect, healthy_program, ms, run, take, wait_for};
use crate::redlock::{Held, Redlock, Validity};

const TTL: Duration = ms(600);

/// For a node's answer. Many clients have none at all unless somebody sets one.
const LONG: Duration = ms(10_000);

#[test]
fn a_lease_counted_from_the_last_answer_is_held_twice() {
    let quorum = plain_servers();
    let alice = Redlock::through_networks(&quorum, LONG).counting(Validity::FromTheLastAnswer);
    let (alices, bobs) = a_slow_answer(&quorum, alice);
    let alices = alices.expect("two of three said OK, though long ago");
    assert!(alices.is_believed() && bobs.is_believed(), "both are in the critical section");
    for node in quorum.iter() {
        assert_eq!(node.run("GET job").text(), bobs.value, "of alice's lock nothing is left");
    }
}

#[test]
fn a_lease_counted_from_the_first_request_is_never_had_while_a_node_is_slow() {
    let quorum = plain_servers();
    let (alices, bobs) = a_slow_answer(&quorum, Redlock::through_networks(&quorum, LONG));
    assert!(alices.is_none() && bobs.is_believed(), "this is safe");
    // It is also of no use: two of three nodes are well and the lock is free, and yet.
    let mut bob = Redlock::direct(&quorum, LONG);
    assert_eq!(bob.unlock(&bobs), 3);
    quorum[1].network().delay(TTL / 2);
    let mut alice = Redlock::through_networks(&quorum, LONG);
    for _ in 0..2 {
        assert!(alice.lock("job", TTL).is_none(), "the lock is free");
    }
}

#[test]
fn a_slow_node_neither_delays_nor_doubles_a_guard() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = connect(&quorum.urls(), LONG).await;
        let bob = healthy_program(&quorum).await;
        quorum[1].network().keep_back(Way::Down);
        let guard = take(&alice, "job", TTL).await;
        assert!(guard.valid_for() < TTL, "counted from the requests");
        eventually("the slow node's answer is on its way all the while", || {
            quorum[1].network().kept(Way::Down) > 0
        });
        assert!(bob.lock("job").try_acquire().await.is_err());
        assert!(guard.is_valid());
        quorum[1].network().pass();
        guard.release().await.expect("it is held");
        wait_for(&bob, "job", TTL).await.release().await.expect("it is held");
    });
}

/// The timeline of the first test, and one slow node more: with that, there is no majority in time.
#[test]
fn answers_that_come_after_the_lease_make_no_guard() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (connect(&quorum.urls(), LONG).await, healthy_program(&quorum).await);
        for node in &quorum[1..] {
            node.network().keep_back(Way::Down);
        }
        let alices = alice.lock("job").ttl(TTL);
        let alices = tokio::spawn(async move { alices.try_acquire().await });
        eventually("alice's request is granted on all nodes", || quorum.held("job") == 3);
        let bobs = wait_for(&bob, "job", ms(60_000)).await;
        for node in &quorum[1..] {
            node.network().pass();
        }
        let alices = alices.await.expect("no panic");
        assert!(alices.is_err(), "two of three said yes, though long ago");
        assert!(bobs.is_valid());
        bobs.release().await.expect("it is held");
    });
}

/// Alice's second node has her request at once, but its answer is on its way until all of her leases
/// are over and bob has the lock.
fn a_slow_answer(quorum: &Quorum, mut alice: Redlock) -> (Option<Held>, Held) {
    let slow = quorum[1].network();
    slow.keep_back_from(Way::Down, "OK");
    let alices = thread::spawn(move || alice.lock("job", TTL));
    eventually("the second node's answer is on its way", || slow.has_kept_back());
    eventually("the first leases are over", || {
        quorum.iter().all(|node| node.run("EXISTS job").int() == 0)
    });
    let bobs = Redlock::direct(quorum, LONG).lock("job", ms(60_000)).expect("the lock is free");
    slow.pass();
    (alices.join().expect("no panic"), bobs)
}

fn plain_servers() -> Quorum {
    Quorum::with(3, |server| server.without_module())
}
