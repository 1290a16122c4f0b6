//! Holders and waiters that go on while their connections break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dlock_client::{Client, NodeError};
use harness::fake::{Answer, Fake};
use harness::{Kind, Proxy, Quorum, Server, soak};
use tokio::task::JoinSet;

use crate::coordinator::{
    assert_holds, for_sizes, healthy_program, ms, patient_program, program, run, take,
    take_everywhere, until, wait_for, without_quorum,
};

const TTL: Duration = ms(10_000);

#[test]
fn a_guard_outlives_its_connections() {
    for_sizes([1, 3], |size| {
        let quorum = Quorum::start(size);
        run(async {
            let client = patient_program(&quorum.urls()).await;
            let guard = take(&client, "job", ms(5_000)).await;
            for _ in 0..5 {
                for node in quorum.iter() {
                    node.network().cut();
                }
                tokio::time::sleep(ms(1_300)).await;
                assert_holds(&quorum, &guard);
            }
            guard.release().await.expect("it is held");
            quorum.until_released();
        });
    });
}

/// The next regular renewal, after a third of this lease, would be minutes away.
#[test]
fn a_guard_is_renewed_at_once_where_its_connection_is_back() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(600_000)).await;
        for how in [Proxy::refuse, Proxy::cut] {
            quorum[1].run("DEL job");
            assert_eq!(quorum.held("job"), 2, "nobody renews it before its time");
            how(quorum[1].network());
            quorum[1].network().cut();
            quorum[1].network().pass();
            until("the node has it again", || quorum.held("job") == 3).await;
        }
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_request_that_is_sent_while_its_connection_breaks_is_told_so() {
    let quorum = Quorum::start(1);
    run(async {
        let client = patient_program(&quorum.urls()).await;
        let node = client.nodes().next().expect("there is one");
        for _ in 0..if soak::tries_every_case() { 300 } else { 100 } {
            let ask = || {
                let node = Arc::clone(node);
                async move { node.send(&redis::cmd("PING")).await }
            };
            ask().await.ok();
            // Some go before the end is noticed, some after it, and some just then.
            let asks: Vec<_> = (0..20).map(|_| tokio::spawn(ask())).collect();
            quorum[0].network().cut();
            for asked in asks {
                let answer = asked.await.expect("no panic");
                assert!(!matches!(answer, Err(NodeError::TimedOut(_))), "{answer:?}");
            }
        }
    });
}

#[test]
fn a_waiter_whose_connection_broke_has_its_turn_among_others() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &alice, "job", ms(20_000)).await;
        let (ended, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut crowd = JoinSet::new();
        for _ in 0..6 {
            let person = healthy_program(&quorum).await;
            let (ended, turns) = (Arc::clone(&ended), Arc::clone(&turns));
            crowd.spawn(async move {
                while !ended.load(Ordering::Relaxed) {
                    let guard = wait_for(&person, "job", TTL).await;
                    turns.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(ms(5)).await;
                    guard.release().await.expect("it is held");
                }
            });
        }
        until("the crowd waits", || waiting(&quorum) == 6).await;
        let bob = patient_program(&quorum.urls()).await;
        let before_him = Arc::clone(&turns);
        let bobs = tokio::spawn(async move {
            let guard = wait_for(&bob, "job", TTL).await;
            (guard, before_him.load(Ordering::Relaxed))
        });
        until("bob waits", || waiting(&quorum) == 7).await;
        let before = quorum[0].network().connections();
        quorum[0].network().cut();
        until("bob is back", || quorum[0].network().connections() > before).await;
        until("bob waits again", || waiting(&quorum) == 7).await;
        guard.release().await.expect("it is held");
        let (next, before_him) = bobs.await.expect("no panic");
        assert!(
            before_him <= 12,
            "{before_him} turns of six programs, which were in line before him"
        );
        next.release().await.expect("it is held");
        ended.store(true, Ordering::Relaxed);
        crowd.join_all().await;
        quorum.until_released();
    });
}

#[test]
fn a_waiter_that_is_silent_leaves_the_queue_when_its_time_is_over() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", ms(20_000)).await;
        let bobs =
            tokio::spawn(async move { bob.lock("job").ttl(TTL).acquire_within(ms(600)).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        for node in quorum.iter() {
            node.network().swallow();
        }
        // The holder was in Bob's way, but no majority answers at the end.
        without_quorum(bobs.await.expect("no panic"));
        until("nobody waits", || quorum.iter().all(|node| node.traces().waiters == 0)).await;
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

/// The number of waiters at the gate. The next in line waits at the other nodes, too.
fn waiting(quorum: &Quorum) -> i64 {
    quorum[0].node("waiters").int()
}

#[test]
fn a_connection_that_the_server_closes_is_called_that_and_says_what_to_look_at() {
    let closes = Fake::start(|_| Answer::End);
    run(async {
        let builder = Client::builder().nodes([format!("redis://127.0.0.1:{}", closes.port())]);
        let text = builder.connect().await.expect_err("nobody answers").to_string();
        assert!(text.contains("the connection was closed before the server answered"), "{text}");
        assert!(text.contains("maxclients") && text.contains("rediss://"), "{text}");
        assert!(!text.to_lowercase().contains("broken pipe"), "{text}");
    });
}

#[test]
fn a_server_with_too_many_clients_is_called_that() {
    let server = Server::start(Kind::Redis82);
    server.run("CONFIG SET maxclients 1");
    run(async {
        for _ in 0..20 {
            let builder = Client::builder().nodes([format!("redis://127.0.0.1:{}", server.port())]);
            let text = builder.connect().await.expect_err("there is no room").to_string();
            assert!(text.contains("clients"), "{text}");
            assert!(!text.to_lowercase().contains("broken pipe"), "{text}");
        }
    });
}
