//! Many clients want the same lock: they queue at the gate in the order of arrival, and no two have it
//! together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use dlock_client::Client;
use harness::Quorum;
use tokio::task::JoinSet;

use crate::coordinator::{
    LONG, assert_held, healthy_program, ms, program, run, take_everywhere, until, wait_for,
};

#[test]
fn waiters_queue_on_one_node_and_the_next_in_line_waits_at_all() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        let mut people = JoinSet::new();
        for number in 1..=4 {
            let person = healthy_program(&quorum).await;
            people.spawn(async move {
                let guard = wait_for(&person, "job", LONG).await;
                guard.release().await.expect("it is held");
            });
            until("they wait at the gate", || quorum[0].node("waiters").int() == number).await;
        }
        let others = || quorum[1..].iter().map(|node| node.node("waiters").int());
        until("the next in line waits at the others", || others().all(|waiters| waiters == 1))
            .await;
        guard.release().await.expect("it is held");
        people.join_all().await;
        quorum.until_released();
    });
}

#[test]
fn a_waiter_whose_gate_dies_waits_at_the_next() {
    let mut quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", LONG).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum[0].kill();
        until("bob waits elsewhere", || quorum[1].node("waiters").int() == 1).await;
        assert!(guard.is_valid(), "two nodes are a majority");
        guard.release().await.expect("it is held");
        let next = bobs.await.expect("no panic");
        next.release().await.expect("it is held");
        for node in &quorum[1..] {
            until("nothing is left", || node.traces().leases + node.traces().waiters == 0).await;
        }
    });
}

#[test]
fn a_gate_that_comes_back_in_quarantine_keeps_no_client_waiting() {
    let mut quorum = Quorum::start(3);
    run(async {
        let register = Arc::new(Register::default());
        let mut people = JoinSet::new();
        for _ in 0..6 {
            let (person, register) = (healthy_program(&quorum).await, Arc::clone(&register));
            people.spawn(async move {
                for _ in 0..6 {
                    turn(&person, &register).await;
                }
            });
        }
        until("all contend", || register.turns.load(Ordering::SeqCst) > 6).await;
        quorum[0].kill();
        quorum[0].start_again();
        people.join_all().await;
        // After a crash it grants nothing for as long as the leases here.
        assert_eq!(
            quorum[0].node("granting").text(),
            "quarantine",
            "they did not wait for its end"
        );
    });
}

#[test]
fn an_attempt_that_does_not_wait_never_overtakes_a_waiter() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let hasty = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", LONG).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        assert_held(hasty.lock("job").try_acquire().await);
        guard.release().await.expect("it is held");
        let next = bobs.await.expect("no panic");
        assert_held(hasty.lock("job").try_acquire().await);
        next.release().await.expect("it is held");
    });
}

/// The data that the lock guards here: a place for one client.
#[derive(Default)]
struct Register {
    taken: AtomicBool,
    fence: AtomicU64,
    turns: AtomicUsize,
}

/// One turn of one contender.
async fn turn(client: &Client, register: &Register) {
    let guard = wait_for(client, "job", LONG).await;
    assert!(!register.taken.swap(true, Ordering::SeqCst), "two at once");
    let before = register.fence.swap(guard.fence(), Ordering::SeqCst);
    assert!(before < guard.fence(), "{before} came before {}", guard.fence());
    tokio::time::sleep(ms(2)).await;
    assert!(guard.is_valid());
    register.turns.fetch_add(1, Ordering::SeqCst);
    register.taken.store(false, Ordering::SeqCst);
    guard.release().await.expect("it is held");
}
