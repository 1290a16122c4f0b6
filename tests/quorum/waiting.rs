//! A place in the queue outlives the connection, and a waiter that leaves costs the others little.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlock_client::Client;
use harness::{Quorum, Way, library, soak};
use tokio::task::JoinHandle;

use crate::coordinator::{
    LONG, healthy_program, ms, program, run, take, take_everywhere, until, wait_for,
};

type Order = Arc<Mutex<Vec<&'static str>>>;

/// Waits, and records its name when it has its turn.
fn queue(client: Client, name: &'static str, order: &Order) -> JoinHandle<()> {
    let order = Arc::clone(order);
    tokio::spawn(async move {
        let guard = wait_for(&client, "job", ms(10_000)).await;
        order.lock().unwrap().push(name);
        guard.release().await.expect("it is held");
    })
}

#[test]
fn a_waiter_survives_its_connections_without_losing_its_place() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, program(&quorum).await);
            let carol = healthy_program(&quorum).await;
            let guard = take_everywhere(&quorum, &alice, "job", ms(60_000)).await;
            let order = Order::default();
            let bobs = queue(bob, "bob", &order);
            until("bob waits", || quorum[0].node("waiters").int() == 1).await;
            let carols = queue(carol, "carol", &order);
            until("carol waits", || quorum[0].node("waiters").int() == 2).await;
            for _ in 0..3 {
                let before: Vec<u64> = connections(&quorum);
                quorum.iter().for_each(|node| node.network().cut());
                let back = || connections(&quorum)[0] > before[0];
                until("bob is back", || back() && quorum[0].node("waiters").int() == 2).await;
            }
            guard.release().await.expect("it is held");
            bobs.await.expect("no panic");
            carols.await.expect("no panic");
            assert_eq!(*order.lock().unwrap(), ["bob", "carol"], "on {size} nodes");
            quorum.until_released();
        });
    }
}

fn connections(quorum: &Quorum) -> Vec<u64> {
    quorum.iter().map(|node| node.network().connections()).collect()
}

#[test]
fn a_waiter_that_falls_silent_costs_the_queue_less_than_its_lease() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, program(&quorum).await);
            let carol = healthy_program(&quorum).await;
            let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
            let bobs = tokio::spawn(async move { bob.lock("job").ttl(LONG).acquire().await });
            until("bob waits", || quorum[0].node("waiters").int() == 1).await;
            let carols = tokio::spawn(async move { wait_for(&carol, "job", LONG).await });
            until("carol waits", || quorum[0].node("waiters").int() == 2).await;
            quorum.iter().for_each(|node| node.network().swallow());
            guard.release().await.expect("it is held");
            let next = carols.await.expect("no panic");
            next.release().await.expect("it is held");
            bobs.abort();
            quorum.iter().for_each(|node| node.network().pass());
        });
    }
}

#[test]
fn waits_that_are_given_up_in_the_moment_of_the_grant_leave_no_lock_without_a_holder() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
            for round in 0..if soak::tries_every_case() { 700 } else { 160 } {
                let guard = wait_for(&alice, "job", ms(10_000)).await;
                let bobs = bob.clone();
                let waiting = tokio::spawn(async move {
                    drop(bobs.lock("job").ttl(ms(10_000)).acquire().await);
                });
                until("bob waits", || quorum[0].node("waiters").int() == 1).await;
                let release = guard.release();
                for _ in 0..round % 8 {
                    tokio::task::yield_now().await;
                }
                waiting.abort();
                release.await.expect("it is held");
            }
            quorum.until_released();
            // A grant without a holder is released, long before the end of its lease.
            let expired = quorum.iter().map(|node| node.info_number("dlock", "dlock_expiries"));
            assert_eq!(expired.sum::<i64>(), 0, "on {size} nodes");
        });
    }
}

/// Each connection is an open file of the program.
#[test]
fn connections_of_requests_that_waited_are_closed_soon() {
    const WAITING: i64 = 10;
    let quorum = Quorum::start(1);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let busy = take(&bob, "job", ms(60_000)).await;
        let waits = |_| {
            let alice = alice.clone();
            tokio::spawn(async move { wait_for(&alice, "job", ms(60_000)).await.release().await })
        };
        let waiting: Vec<_> = (0..WAITING).map(waits).collect();
        quorum[0].until_blocked(WAITING);
        busy.release().await.expect("it is held");
        for one in waiting {
            one.await.expect("no panic").expect("it is held");
        }
        let connections = || quorum[0].info_number("clients", "connected_clients");
        // Two programs, and this question.
        until("they are closed", || connections() <= 3).await;
        take(&alice, "job", ms(60_000)).await.release().await.expect("it is held");
    });
}

/// A firewall silently drops connections that were idle for long.
#[test]
fn of_many_idle_connections_that_are_dead_a_waiter_tries_one() {
    const IDLE: i64 = 10;
    const TTL: Duration = ms(1_000);
    let quorum = Quorum::start(1);
    run(async {
        let alice = library::connect(&quorum.urls(), ms(300)).await;
        let bob = healthy_program(&quorum).await;
        let waits = || {
            let alice = alice.clone();
            tokio::spawn(async move { wait_for(&alice, "job", TTL).await.release().await })
        };
        let busy = take(&bob, "job", ms(60_000)).await;
        let waiting: Vec<_> = (0..IDLE).map(|_| waits()).collect();
        quorum[0].until_blocked(IDLE);
        busy.release().await.expect("it is held");
        for one in waiting {
            one.await.expect("no panic").expect("it is held");
        }
        let busy = take(&bob, "job", ms(60_000)).await;
        quorum[0].network().keep_back(Way::Up);
        let waiting = waits();
        let blocked = || quorum[0].info_number("clients", "blocked_clients") == 1;
        until("alice waits", blocked).await;
        let tried = quorum[0].network().silenced(Way::Up);
        assert!(tried < IDLE as usize / 2, "{tried} of the dead ones");
        busy.release().await.expect("it is held");
        waiting.await.expect("no panic").expect("it is held");
    });
}
