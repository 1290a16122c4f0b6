//! Messages that arrive late, or never: a request that arrives after its sender has given up, a grant
//! that never arrives.

use dlock_client::{Client, Guard, Lock, LossReason};
use harness::{Builder, Quorum, Way};

use crate::coordinator::{
    LONG, assert_holds, healthy_program, ms, program, run, take, take_everywhere, until, wait_for,
    without_quorum,
};

#[test]
fn a_waiter_whose_older_request_comes_late_and_takes_its_place_waits_on() {
    let quorum = Quorum::start(1);
    run(async {
        let alice = healthy_program(&quorum).await;
        let bob = Client::builder().nodes(quorum.urls()).node_timeout(ms(300)).connect_later();
        let bob = bob.expect("the address is good");
        let guard = take(&alice, "job", LONG).await;
        let (node, network) = (&quorum[0], quorum[0].network());
        network.keep_back_from(Way::Up, "WAIT");
        let waiting = tokio::spawn(async move { bob.lock("job").ttl(LONG).acquire().await });
        until("a request is on its way", || network.has_kept_back(Way::Up)).await;
        until("bob asks again over another connection", || node.node("waiters").int() == 1).await;
        let late = network.sent(Way::Up);
        network.pass();
        until("the old request has come", || network.arrived(Way::Up) >= late).await;
        until("bob waits again", || node.waiters("job").len() == 1).await;
        guard.release().await.expect("it is held");
        let next = waiting.await.expect("no panic").expect("he waits for as long as it takes");
        next.release().await.expect("it is held");
    });
}

#[test]
fn requests_that_arrive_while_another_client_holds_take_nothing_away() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        keep_back_what_is_sent(&quorum, &alice).await;
        without_quorum(alice.lock("job").ttl(LONG).try_acquire().await);
        let guard = take_everywhere(&quorum, &bob, "job", ms(60_000)).await;
        for node in quorum.iter() {
            node.network().cut();
            node.network().pass();
        }
        until("the late requests have arrived", || {
            quorum.iter().all(|node| node.network().under_way(Way::Up) == 0)
        })
        .await;
        let token = guard.token().to_string();
        assert!(quorum.iter().all(|node| node.holders("job") == [token.as_str()]));
        assert!(quorum.iter().all(|node| node.waiters("job").is_empty()));
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_grant_without_a_received_reply_is_found_again() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = program(&quorum).await;
        take(&alice, "before", LONG).await.release().await.expect("it is held");
        quorum.iter().for_each(|node| node.network().keep_back(Way::Down));
        let asking = tokio::spawn(alice.lock("job").ttl(LONG).acquire());
        until("all have granted", || quorum.held("job") == 3).await;
        quorum.iter().for_each(|node| node.network().cut());
        let guard = asking.await.expect("no panic").expect("it is free");
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn a_release_that_is_not_answered_returns_and_is_done_all_the_same() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        quorum.iter().for_each(|node| node.network().keep_back(Way::Down));
        drop(guard.release().await);
        take(&bob, "job", LONG).await.release().await.expect("it is held");
        quorum.iter().for_each(|node| node.network().pass());
        wait_for(&alice, "job", LONG).await.release().await.expect("it is held");
        quorum.until_released();
    });
}

/// The lease of a hung node begins when the node goes on.
#[test]
fn a_node_that_hangs_for_longer_than_the_lease_is_asked_to_release_afterwards() {
    let quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        quorum[0].pause();
        without_quorum(client.lock("job").ttl(ms(100)).try_acquire().await);
        assert!(
            !client.released(ms(500)).await,
            "the lease is over, and the node has not answered"
        );
        quorum[0].resume();
        let asked = || quorum[0].info("commandstats").contains_key("cmdstat_dlock.release");
        until("it is asked to release", asked).await;
        assert!(client.released(LONG).await);
        quorum.until_released();
    });
}

#[test]
fn late_answers_to_an_earlier_attempt_are_not_taken_for_those_to_the_next() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = program(&quorum).await;
        take_everywhere(&quorum, &alice, "before", LONG).await.release().await.expect("it is held");
        quorum.iter().for_each(|node| node.network().keep_back(Way::Down));
        without_quorum(alice.lock("job").ttl(LONG).try_acquire().await);
        quorum.iter().for_each(|node| node.network().pass());
        let guard = wait_for(&alice, "job", LONG).await;
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn a_request_to_wait_that_arrives_when_its_sender_holds_takes_nothing_away() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
            if size == 3 {
                // The two other nodes are just a majority.
                quorum[2].network().refuse();
            }
            let bobs = take(&bob, "job", LONG).await;
            quorum[0].network().keep_back_from(Way::Up, "WAIT");
            let waiting = tokio::spawn(async move { wait_for(&alice, "job", LONG).await });
            until("alice has asked to wait", || quorum[0].network().has_kept_back(Way::Up)).await;
            // The client's connection ends, and it asks again on another.
            quorum[0].network().cut();
            until("alice waits", || quorum.iter().any(|node| node.node("waiters").int() == 1))
                .await;
            bobs.release().await.expect("it is held");
            let guard = waiting.await.expect("no panic");
            assert_holds(&quorum, &guard);

            quorum[0].network().pass();
            until("what was late has arrived", || quorum[0].network().under_way(Way::Up) == 0)
                .await;
            let second = bob.lock("job").ttl(LONG).try_acquire().await;
            assert!(second.is_err(), "two are valid on {size} nodes");
            assert_holds(&quorum, &guard);
            guard.release().await.expect("it is held");
            quorum.until_empty();
        });
    }
}

#[test]
fn a_request_to_wait_that_arrives_after_it_was_given_up_takes_no_place() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
            let guard = take(&bob, "job", ms(60_000)).await;
            let network = quorum[0].network();
            network.keep_back_from(Way::Up, "WAIT");
            let waiting =
                tokio::spawn(async move { alice.lock("job").ttl(ms(60_000)).acquire().await });
            until("alice has asked", || network.has_kept_back(Way::Up)).await;
            waiting.abort();
            until("alice has released", || {
                quorum[0].info("commandstats").contains_key("cmdstat_dlock.release")
            })
            .await;
            network.pass();
            guard.release().await.expect("it is held");
            quorum.until_released();
        });
    }
}

/// The request was sent once more over another connection, and was granted there.
#[test]
fn a_grant_to_a_request_that_comes_late_a_second_time_is_not_taken_for_the_first() {
    let quorum = Quorum::start(1);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let lock = alice.lock("job").ttl(ms(60_000));
        let guard = sent_twice(&quorum, &alice, lock).await;
        assert_eq!(quorum[0].run("DLOCK.BREAK job").int(), 1);
        // Longer than Alice's lease: if the node has to write a promise first, it has done so when hers
        // arrives.
        let other = take(&bob, "job", LONG).await;
        assert!(other.fence() > guard.fence());
        other.release().await.expect("it is held");
        arrives(&quorum).await;
        until("the late one is granted", || quorum[0].holders("job").len() == 1).await;
        guard.extend(ms(60_000)).await.expect_err("it was ended");
        let loss = guard.lost().await;
        assert!(matches!(loss.why, LossReason::Ended { .. }), "{loss}");
    });
}

#[test]
fn a_request_that_was_sent_again_and_arrives_after_its_release_takes_nothing() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = program(&quorum).await;
        let guard = sent_twice(&quorum, &alice, alice.lock("job").ttl(ms(60_000))).await;
        // All have answered by now.
        guard.extend(ms(60_000)).await.expect("it is held");
        until("all have granted it", || quorum.held("job") == 3).await;
        guard.release().await.expect("it is held");
        arrives(&quorum).await;
        quorum.until_released();
    });
}

/// The node has the lease, but cannot tell whether it lost a later one.
#[test]
fn a_lock_whose_request_was_sent_twice_goes_on_when_its_node_crashes() {
    let logged = |node: Builder| node.config("appendonly yes").config("appendfsync always");
    let mut quorum = Quorum::with(1, logged);
    run(async {
        let alice = program(&quorum).await;
        let guard = sent_twice(&quorum, &alice, alice.lock("job").ttl(LONG)).await;
        quorum[0].kill();
        quorum[0].add_config("dlock.quarantine 60000");
        quorum[0].start_again();
        for _ in 0..2 {
            guard.extend(LONG).await.expect("the node has it");
        }
        assert_eq!(quorum[0].node("granting").text(), "quarantine");
        guard.release().await.expect("it is held");
    });
}

/// A lock with its first request still on its way, over a connection whose end the client has seen.
async fn sent_twice(quorum: &Quorum, client: &Client, lock: Lock) -> Guard {
    keep_back_what_is_sent(quorum, client).await;
    let asking = tokio::spawn(lock.try_acquire());
    until("it has asked", || quorum.iter().all(|node| node.network().has_kept_back(Way::Up))).await;
    quorum.iter().for_each(|node| node.network().cut());
    asking.await.expect("no panic").expect("it is free")
}

/// Delivers the messages that were kept back, and the end of their connections.
async fn arrives(quorum: &Quorum) {
    quorum.iter().for_each(|node| node.network().pass());
    until("what was late has arrived", || {
        quorum.iter().all(|node| node.network().under_way(Way::Up) == 0)
    })
    .await;
}

/// Keeps back all that this connected program sends from now on.
async fn keep_back_what_is_sent(quorum: &Quorum, program: &Client) {
    take(program, "before", LONG).await.release().await.expect("it is held");
    for node in quorum.iter() {
        node.network().keep_back(Way::Up);
    }
}
