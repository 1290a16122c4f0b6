//! Messages that arrive late, or never: a request that arrives after whoever sent it has given up,
//! a grant that nobody hears of.

use std::time::Duration;

use harness::{Quorum, Way};

use crate::coordinator::{
    NODE_TIMEOUT, assert_holds, assert_within, healthy_program, ms, program, run, take, timed,
    until, wait_for, without_quorum,
};

const TTL: Duration = ms(700);

#[test]
fn a_request_that_arrives_after_its_release_costs_others_a_lease_at_most() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        take(&alice, "before", TTL).await.release().await.expect("it is held");
        for node in &quorum[..2] {
            node.network().keep_back(Way::Up);
        }
        without_quorum(alice.lock("job").ttl(TTL).try_acquire().await);
        // Now only new connections reach the nodes, and what was kept back on the old ones has no
        // release behind it unless it was sent there.
        for node in &quorum[..2] {
            node.network().cut();
        }
        take(&alice, "between", TTL).await.release().await.expect("it is held");
        for node in &quorum[..2] {
            node.network().pass();
        }
        let (guard, took) = timed(wait_for(&bob, "job", TTL)).await;
        assert_within(took, TTL);
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        quorum.assert_empty_within(TTL);
    });
}

#[test]
fn requests_that_arrive_while_somebody_else_holds_take_nothing_away() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        take(&alice, "before", TTL).await.release().await.expect("it is held");
        for node in quorum.iter() {
            node.network().keep_back(Way::Up);
        }
        without_quorum(alice.lock("job").ttl(TTL).try_acquire().await);
        let guard = take(&bob, "job", ms(60_000)).await;
        for node in quorum.iter() {
            node.network().cut();
            node.network().pass();
        }
        until("the late requests have arrived", || {
            quorum.iter().all(|node| node.network().kept(Way::Up) == 0)
        })
        .await;
        let token = guard.token().to_string();
        assert!(quorum.iter().all(|node| node.holders("job") == [token.as_str()]));
        assert!(quorum.iter().all(|node| node.waiters("job").is_empty()));
        guard.release().await.expect("it is held");
        quorum.assert_empty_within(TTL);
    });
}

#[test]
fn requests_that_arrive_after_their_release_leave_a_lease_that_nobody_believes_in() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        take(&alice, "before", TTL).await.release().await.expect("it is held");
        for node in quorum.iter() {
            node.network().keep_back(Way::Up);
        }
        let late = alice.clone();
        let asking = tokio::spawn(async move {
            let guard = late.lock("job").ttl(TTL).acquire_within(ms(400)).await?;
            let fence = guard.fence();
            guard.release().await?;
            Ok::<u64, dlock_client::Error>(fence)
        });
        until("all were asked", || quorum.iter().all(|node| node.network().kept(Way::Up) > 0))
            .await;
        for node in quorum.iter() {
            node.network().cut();
        }
        // Over new connections it may have been taken and given back meanwhile.
        let first = asking.await.expect("no panic").unwrap_or(0);
        for node in quorum.iter() {
            node.network().pass();
        }
        let (guard, took) = timed(wait_for(&bob, "job", TTL)).await;
        assert_within(took, TTL);
        assert!(guard.fence() > first);
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        quorum.assert_empty_within(TTL);
    });
}

#[test]
fn a_grant_that_nobody_hears_of_is_found_again_or_given_up() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
            take(&alice, "before", TTL).await.release().await.expect("it is held");
            for node in quorum.iter() {
                node.network().keep_back(Way::Down);
            }
            let asking = alice.clone();
            let asking = tokio::spawn(async move {
                asking.lock("job").ttl(ms(2_000)).acquire_within(ms(1_000)).await
            });
            until("all have granted", || quorum.held("job") == size).await;
            for node in quorum.iter() {
                node.network().cut();
            }
            match asking.await.expect("no panic") {
                Ok(guard) => {
                    assert_holds(&quorum, &guard);
                    guard.release().await.expect("it is held");
                }
                Err(error) => {
                    without_quorum::<()>(Err(error));
                }
            }
            let (guard, took) = timed(wait_for(&bob, "job", TTL)).await;
            assert_within(took, ms(2_000));
            guard.release().await.expect("it is held");
            quorum.assert_empty_within(ms(2_000));
        });
    }
}

#[test]
fn a_release_that_is_not_answered_returns_in_time_and_is_done_all_the_same() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = take(&alice, "job", ms(2_000)).await;
        for node in quorum.iter() {
            node.network().keep_back(Way::Down);
        }
        let (_, took) = timed(guard.release()).await;
        assert_within(took, NODE_TIMEOUT);
        take(&bob, "job", TTL).await.release().await.expect("it is held");
        for node in quorum.iter() {
            node.network().pass();
        }
        take(&alice, "job", TTL).await.release().await.expect("it is held");
        quorum.assert_empty_within(ms(0));
    });
}

#[test]
fn late_answers_to_an_earlier_attempt_are_not_taken_for_those_to_the_next() {
    let quorum = Quorum::start(3);
    run(async {
        let alice = program(&quorum).await;
        for round in 0..5 {
            let key = format!("job{round}");
            for node in quorum.iter() {
                node.network().keep_back(Way::Down);
            }
            without_quorum(alice.lock(&key).ttl(TTL).try_acquire().await);
            for node in quorum.iter() {
                node.network().pass();
            }
            let guard = wait_for(&alice, &key, TTL).await;
            assert_holds(&quorum, &guard);
            guard.release().await.expect("it is held");
        }
        quorum.assert_empty_within(TTL);
    });
}
