//! A place in the queue outlives the connection, and a waiter that leaves costs the others little.

use dlock_client::Client;
use harness::quorum::Node;
use harness::{Quorum, Way, soak};

use crate::coordinator::{
    LONG, healthy_program, ms, program, run, take, take_everywhere, until, wait_for,
};

#[test]
fn a_waiter_survives_its_connections_without_losing_its_place() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, program(&quorum).await);
        let carol = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", LONG).await });
        let clients = || quorum.iter().map(first_waiter).collect::<Option<Vec<i64>>>();
        until("bob waits at all nodes", || clients().is_some()).await;
        let carols = tokio::spawn(async move { wait_for(&carol, "job", LONG).await });
        until("carol waits", || quorum[0].node("waiters").int() == 2).await;
        // Once: what breaks again within a node time-out may cost bob his turn.
        let before = clients().expect("bob waits");
        quorum.iter().for_each(|node| node.network().cut());
        let is_new = |now: Vec<i64>| now.iter().zip(&before).all(|(now, before)| now != before);
        until("bob is back at all nodes", || clients().is_some_and(is_new)).await;
        guard.release().await.expect("it is held");
        let bobs = bobs.await.expect("no panic");
        assert!(!carols.is_finished(), "bob was first");
        bobs.release().await.expect("it is held");
        carols.await.expect("no panic").release().await.expect("it is held");
        quorum.until_released();
    });
}

/// The connection of the first in line at a node, unless it is away.
fn first_waiter(node: &Node) -> Option<i64> {
    let waiters = node.run("DLOCK.INSPECT job").at("waiters");
    let first = waiters.items().first()?;
    (first.at("away").int() == 0).then(|| first.at("client").int())
}

#[test]
fn a_waiter_that_falls_silent_costs_the_queue_less_than_its_lease() {
    let quorum = Quorum::start(3);
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
        carols.await.expect("no panic").release().await.expect("it is held");
        bobs.abort();
    });
}

#[test]
fn waits_that_are_given_up_in_the_moment_of_the_grant_leave_no_lock_without_a_holder() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
            for round in 0..if soak::tries_every_case() { 700 } else { 24 } {
                let guard = wait_for(&alice, "job", LONG).await;
                let bobs = bob.clone();
                let waiting = tokio::spawn(async move {
                    drop(bobs.lock("job").ttl(LONG).acquire().await);
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
        let busy = take(&bob, "job", LONG).await;
        let waits = |_| {
            let alice = alice.clone();
            tokio::spawn(async move { wait_for(&alice, "job", LONG).await.release().await })
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
        take(&alice, "job", LONG).await.release().await.expect("it is held");
    });
}

/// A firewall silently drops connections that were idle for long.
#[test]
fn of_many_idle_connections_that_are_dead_a_waiter_tries_one() {
    const IDLE: i64 = 10;
    let quorum = Quorum::start(1);
    run(async {
        let alice = Client::builder().nodes(quorum.urls()).node_timeout(ms(300)).connect_later();
        let alice = alice.expect("the address is good");
        let bob = healthy_program(&quorum).await;
        // The lease sets the time after which a request that waits is sent again.
        let waits = || {
            let alice = alice.clone();
            tokio::spawn(async move { drop(wait_for(&alice, "job", ms(2_000)).await) })
        };
        let busy = take(&bob, "job", LONG).await;
        let waiting: Vec<_> = (0..IDLE).map(|_| waits()).collect();
        quorum[0].until_blocked(IDLE);
        busy.release().await.expect("it is held");
        for one in waiting {
            one.await.expect("no panic");
        }
        let busy = wait_for(&bob, "job", LONG).await;
        quorum[0].network().keep_back(Way::Up);
        let waiting = waits();
        let blocked = || quorum[0].info_number("clients", "blocked_clients") == 1;
        until("alice waits", blocked).await;
        let tried = quorum[0].network().silenced(Way::Up);
        assert!(tried < IDLE as usize / 2, "{tried} of the dead ones");
        busy.release().await.expect("it is held");
        waiting.await.expect("no panic");
    });
}
