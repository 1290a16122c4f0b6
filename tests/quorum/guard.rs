//! A holder, while all is well.

use std::time::Duration;

use dlock_client::{Client, Error, LockOptions, LossReason, Mode, Patience, RunError};
use harness::Quorum;
use harness::quorum::Node;

use crate::coordinator::{
    assert_held, assert_holds, for_sizes, healthy_program, ms, patient_program, run, take, timed,
    until, until_longer,
};

const TTL: Duration = ms(4_500);

#[test]
fn a_guard_is_renewed_far_beyond_its_lease() {
    for_sizes([1, 3, 5], |size| {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
            let guard = take(&alice, "job", TTL).await;
            assert_eq!(guard.ttl(), TTL);
            let fence = guard.fence();
            for _ in 0..4 {
                until_longer("it is renewed", || guard.valid_for()).await;
                assert_held(bob.lock("job").try_acquire().await);
                assert_holds(&quorum, &guard);
                assert!(guard.valid_for() > ms(0) && guard.valid_for() <= TTL);
            }
            assert_eq!(guard.fence(), fence);
            guard.release().await.expect("it is held");
            quorum.until_released();
        });
    });
}

#[test]
fn a_guard_may_be_made_longer_and_never_shorter() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take(&client, "job", ms(1_000)).await;
        let holder = guard.token().to_string();
        let all = || quorum.iter().all(|node| node.holders("job") == [holder.as_str()]);
        until("all nodes have granted", all).await;
        let left = |node: &Node| node.holder("job")["ttl-ms"].int();
        guard.extend(ms(60_000)).await.expect("it is held");
        assert!(guard.valid_for() > ms(50_000));
        until("all nodes know", || quorum.iter().all(|node| left(node) > 50_000)).await;
        guard.extend(ms(2_000)).await.expect("it is held");
        assert!(guard.valid_for() > ms(50_000));
        assert_eq!(guard.ttl(), ms(60_000));
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn a_guard_says_why_it_is_over_before_its_keeper_has_noticed() {
    let quorum = Quorum::start(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it has one thread").block_on(async {
        let client = healthy_program(&quorum).await;
        for (ttl, most, why) in [(60_000, 100, "max_hold"), (100, 60_000, "not_renewed")] {
            let lock = client.lock("job").ttl(ms(ttl)).max_hold(ms(most));
            let guard = lock.try_acquire().await.expect("it is free");
            // The guard's keeper is a task of this thread.
            std::thread::sleep(ms(150));
            let loss = guard.check().expect_err("it is over");
            assert_eq!((loss.fence, loss.why.name()), (guard.fence(), why));
            guard.release().await.expect_err("it is over");
        }
        take(&client, "job", TTL).await.check().expect("it is held");
    });
}

#[test]
fn a_waiter_for_a_loss_hears_that_the_guard_was_detached_and_gives_up_nothing_by_not_waiting() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take(&client, "job", ms(60_000)).await;
        let (lost, token) = (guard.lost(), *guard.token());
        drop(guard.detach());
        let loss = lost.await;
        assert!(matches!(loss.why, LossReason::Detached), "{loss}");
        client.close().await;
        assert_eq!(quorum.held("job"), 3);
        drop(client.release("job", &token));
        client.close().await;
        quorum.until_released();
    });
}

#[test]
fn a_guard_that_is_not_renewed_has_one_lease_and_more_if_it_asks() {
    for_sizes([1, 3], |size| {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
            let lock = alice.lock("job").ttl(TTL).unrenewed();
            let guard = lock.clone().acquire().await.expect("it is free");
            assert!(!guard.is_renewed() && guard.valid_for() <= TTL);
            guard.extend(TTL * 2).await.expect("it is held");
            assert!(guard.valid_for() > TTL);
            let waiting = tokio::spawn(bob.lock("job").ttl(ms(5_000)).unrenewed().acquire());
            let loss = guard.lost().await;
            assert!(matches!(loss.why, LossReason::Expired), "{loss}");
            // A lease granted to a waiter is extended to its whole length, once.
            let next = waiting.await.expect("no panic").expect("it is its turn");
            assert!(next.fence() > guard.fence());
            // The next lease may be a moment away when one has just ended.
            let is_held = || !quorum[0].holders("job").is_empty();
            let left = || quorum[0].holder("job")["ttl-ms"].int();
            until("it is a whole lease", || is_held() && left() > 2_500).await;
            let late = guard.release().await.expect_err("it is over");
            assert!(matches!(late.why, LossReason::Expired), "{late}");
            assert!(matches!(next.lost().await.why, LossReason::Expired));
            drop(next);
            let guard = lock.acquire().await.expect("it is free");
            guard.release().await.expect("it is held");
            drop(alice.lock("job").unrenewed().acquire().await.expect("it is free"));
            alice.close().await;
            quorum.until_empty();
        });
    });
}

#[test]
fn work_under_a_lock_is_stopped_when_the_lock_is_lost() {
    let quorum = Quorum::start(3);
    run(async {
        let (client, operator) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let done = client.lock("job").ttl(TTL).run(async |guard| guard.fence()).await;
        assert!(done.expect("nobody disturbs it") > 0);
        quorum.until_released();

        let endless = client.lock("job").ttl(TTL).run(async |_| {
            operator.break_lock("job", None).await.unwrap();
            std::future::pending::<()>().await
        });
        let stopped = endless.await;
        assert!(matches!(stopped, Err(RunError::Lost(_))), "{stopped:?}");
    });
}

#[test]
fn a_lock_is_free_for_others_when_its_release_has_returned() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        for _ in 0..100 {
            take(&alice, "job", TTL).await.release().await.expect("it is held");
            take(&bob, "job", TTL).await.release().await.expect("it is held");
        }
    });
}

#[test]
fn a_waiter_in_vain_is_told_the_holder() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
            let lock = alice.lock("job").ttl(ms(20_000)).meta("host=web-2 why=nightly");
            let guard = lock.try_acquire().await.expect("it is free");
            let wait = ms(400);
            let (answer, took) = timed(bob.lock("job").acquire_within(wait)).await;
            assert!(took >= wait - ms(2), "{took:?}");
            let error = answer.expect_err("alice holds it");
            let Error::Held { key, holder: Some(holder), nodes } = &error else {
                panic!("{error}");
            };
            assert_eq!((key.to_str(), nodes.len()), (Some("job"), size));
            assert_eq!(holder.meta, b"host=web-2 why=nightly");
            assert!(holder.client.is_some() || holder.address.is_some(), "{holder:?}");
            let token = guard.token().to_string();
            for text in [format!("{error}"), format!("{error:?}"), format!("{guard:?}")] {
                assert!(!text.contains(&token), "{text}");
            }
            assert!(error.to_string().contains("why=nightly"));
            until("bob waits no more", || quorum.iter().all(|node| node.traces().waiters == 0))
                .await;
            guard.release().await.expect("it is held");
            quorum.until_released();
        });
    }
}

#[test]
fn a_token_is_never_shown_by_what_others_ask() {
    let quorum = Quorum::start(3);
    run(async {
        let client = patient_program(&quorum.urls()).await;
        let guard = take(&client, "job", ms(20_000)).await;
        let seen = client.inspect("job").await.unwrap();
        assert_eq!(seen.len(), 3);
        for (node, inspection) in &seen {
            let inspection = inspection.as_ref().unwrap_or_else(|error| panic!("{node}: {error}"));
            assert!(inspection.is_some(), "{node}: it is held");
        }
        assert!(!format!("{seen:?}").contains(&guard.token().to_string()));
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_program_that_closes_has_released_what_it_dropped() {
    let quorum = Quorum::start(3);
    run(async {
        let client: Client = healthy_program(&quorum).await;
        for number in 0..50 {
            drop(take(&client, &format!("job{number}"), ms(60_000)).await);
        }
        client.close().await;
        quorum.until_released();
    });
}

#[test]
fn a_recipe_has_its_options_and_its_wait_in_one_struct() {
    let quorum = Quorum::start(1);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let meta = "reader".to_owned();
        let readers =
            LockOptions { ttl: ms(60_000), mode: Mode::Shared, meta, ..LockOptions::default() };
        let reader = alice.lock("job").options(readers.clone());
        let guards = [
            reader.clone().acquire().await.expect("it is free"),
            bob.lock("job").options(readers).acquire().await.expect("readers share it"),
        ];
        assert!(guards.iter().all(|guard| guard.ttl() == ms(60_000)));
        for wait in [Patience::Try, ms(0).into(), Patience::Within(ms(100)), ms(100).into()] {
            let (answer, took) = timed(bob.lock("job").wait(wait).acquire()).await;
            assert!(took >= if wait.waits() { ms(98) } else { ms(0) }, "{wait:?}: {took:?}");
            let Err(Error::Held { holder: Some(holder), .. }) = answer else {
                panic!("{wait:?}: {answer:?}");
            };
            assert_eq!(holder.meta, b"reader");
        }
        let writer = tokio::spawn(bob.lock("job").wait(Duration::MAX).acquire());
        until("the writer waits", || quorum[0].traces().waiters == 1).await;
        for guard in guards {
            guard.release().await.expect("it is held");
        }
        let writer = writer.await.expect("no panic").expect("it is free");
        writer.release().await.expect("it is held");
        quorum.until_released();
    });
}
