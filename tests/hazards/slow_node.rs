//! Redlock that asks its nodes one after the other, and one of them is slow.
//!
//! The recipe: `SET NX PX` on each node in turn, with a time-out for each as long as the lock. The first
//! lease is over when the last node is asked. A client that counts the lock from the last answer believes
//! that it holds, and so does another client. A client that counts from the first request does not get a lock
//! that is free. A short time-out for each node cures the second fault, and only reduces the first. dlock
//! asks all nodes at once, does not wait for the slow one, and counts from its request.

use std::time::Duration;

use harness::{Quorum, Way, eventually};

use crate::library::{
    LONG, NODE_TIMEOUT, assert_held, healthy_program, ms, program, run, take, wait_for,
};
use crate::redlock::{Held, Redlock, Validity};

const TTL: Duration = ms(8_000);

#[test]
fn a_lease_counted_from_the_last_answer_is_held_twice() {
    let quorum = plain_servers();
    let alice = Redlock::through_networks(&quorum, TTL).counting(Validity::FromTheLastAnswer);
    let (alices, bobs) = a_slow_answer(&quorum, alice);
    let alices = alices.expect("two of three said OK");
    assert!(alices.is_believed() && bobs.is_believed(), "both are in the critical section");
    assert_eq!(quorum[0].run("GET job").text(), bobs.value);
    assert_eq!(quorum[1].run("GET job").text(), bobs.value);
    assert_eq!(quorum[2].run("GET job").text(), alices.value, "all that is left of alice's lock");
}

#[test]
fn a_lease_counted_from_the_first_request_is_never_had_while_a_node_is_slow() {
    let quorum = plain_servers();
    let (alices, bobs) = a_slow_answer(&quorum, Redlock::through_networks(&quorum, TTL));
    // This is safe, but useless: two of three nodes were well, and the lock was free.
    assert!(alices.is_none() && bobs.is_believed());
    assert!(quorum.iter().all(|node| node.run("GET job").text() == bobs.value));
}

#[test]
fn a_slow_node_neither_delays_nor_doubles_a_guard() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let slow = quorum[1].network();
        slow.keep_back_all(Way::Down);
        let guard = take(&alice, "job", TTL).await;
        let held = |node: usize| quorum[node].holder("job")["held-ms"].int();
        let whole = TTL.as_millis() as i64;
        eventually("the first leases would be over", || held(0) > whole && held(2) > whole);
        assert!(
            slow.has_kept_back(Way::Down),
            "the slow node's answer is on its way all the while"
        );
        assert!(guard.is_valid());
        assert_held(bob.lock("job").try_acquire().await);
        for node in [0, 2] {
            assert_eq!(quorum[node].holders("job"), [guard.token().as_str()]);
            assert_eq!(quorum[node].holder("job")["fence"].int(), guard.fence() as i64);
        }
        slow.pass();
        guard.release().await.expect("it is held");
        wait_for(&bob, "job", TTL).await.release().await.expect("it is held");
    });
}

#[test]
fn a_guard_is_valid_from_when_its_nodes_were_asked() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = program(&quorum).await;
        let each_way = ms(200);
        for node in &quorum[1..] {
            node.network().delay(each_way);
        }
        // The nodes of any majority were asked this long ago.
        let guard = take(&alice, "job", LONG).await;
        let valid = guard.valid_for();
        assert!(valid > ms(0) && valid <= LONG - 2 * each_way, "{valid:?}");
    });
}

/// Alice's second node has her request at once, but answers after her time-out. Bob comes when two of the
/// three nodes are free again.
fn a_slow_answer(quorum: &Quorum, mut alice: Redlock) -> (Option<Held>, Held) {
    let slow = quorum[1].network();
    slow.keep_back_from(Way::Down, "OK");
    let alices = alice.lock("job", TTL);
    assert!(slow.has_kept_back(Way::Down), "the second node's answer is on its way");
    let mut bob = Redlock::direct(quorum, NODE_TIMEOUT);
    let mut bobs = None;
    eventually("bob has the lock", || {
        bobs = bob.lock("job", LONG);
        bobs.is_some()
    });
    (alices, bobs.expect("he has it"))
}

fn plain_servers() -> Quorum {
    Quorum::with(3, |server| server.without_module())
}
