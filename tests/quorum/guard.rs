//! A holder, while all is well.

use dlock_client::{Error, LossReason};
use harness::proxy::Way;
use harness::quorum::Node;
use harness::{Quorum, eventually};

use crate::coordinator::{LONG, healthy_program, ms, program, run, take, take_everywhere, until};

#[test]
fn a_guard_may_be_made_longer_and_never_shorter() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(60_000)).await;
        guard.extend(LONG).await.expect("it is held");
        assert!(guard.valid_for() > LONG / 2);
        let left = |node: &Node| node.holder("job")["ttl-ms"].int();
        until("all nodes know", || quorum.iter().all(|node| left(node) > 300_000)).await;
        guard.extend(ms(2_000)).await.expect("it is held");
        assert!(guard.valid_for() > LONG / 2);
        assert_eq!(guard.ttl(), LONG);
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn a_waiter_for_a_loss_hears_that_the_guard_was_detached_and_gives_up_nothing_by_not_waiting() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
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
fn work_under_a_lock_is_stopped_when_the_lock_is_lost() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let done = client.lock("job").ttl(LONG).run(async |guard| guard.fence()).await;
        assert!(done.expect("nobody disturbs it") > 0);
        quorum.until_released();

        let endless = client.lock("job").ttl(LONG).run(async |_| {
            // The last node may grant it after the others.
            quorum.iter().for_each(|node| {
                eventually("it is broken", || node.run("DLOCK.BREAK job").int() == 1);
            });
            // The client asks all nodes as soon as it has new connections.
            quorum.iter().for_each(|node| node.network().cut());
            std::future::pending::<()>().await
        });
        let stopped = endless.await;
        assert!(matches!(stopped, Err(Error::Lost(_))), "{stopped:?}");
    });
}

#[test]
fn a_lock_is_free_for_others_when_its_release_has_returned() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        for _ in 0..30 {
            take(&alice, "job", LONG).await.release().await.expect("it is held");
            take(&bob, "job", LONG).await.release().await.expect("it is held");
        }
    });
}

#[test]
fn a_client_in_vain_is_told_the_holder_and_no_token() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let lock = alice.lock("job").ttl(LONG).meta("host=web-2 why=nightly");
        let guard = lock.try_acquire().await.expect("it is free");
        until("every node has granted it", || quorum.held("job") == 3).await;
        let error = bob.lock("job").ttl(LONG).try_acquire().await.expect_err("alice holds it");
        let Error::Held { key, holder: Some(holder), nodes } = &error else { panic!("{error}") };
        assert_eq!((key.to_str(), nodes.len()), (Some("job"), 3));
        assert_eq!(holder.meta, b"host=web-2 why=nightly");
        assert!(holder.client.is_some() || holder.address.is_some(), "{holder:?}");
        assert!(error.to_string().contains("why=nightly"));
        let seen = alice.inspect("job").await.unwrap();
        for (node, inspection) in &seen {
            let inspection = inspection.as_ref().unwrap_or_else(|error| panic!("{node}: {error}"));
            assert!(inspection.is_some(), "{node}: it is held");
        }
        let shown = format!("{error} {error:?} {guard:?} {seen:?}");
        assert!(!shown.contains(guard.token().as_str()), "{shown}");
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn a_program_that_closes_has_released_what_it_dropped() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        for number in 0..20 {
            drop(take(&client, &format!("job{number}"), LONG).await);
        }
        client.close().await;
        quorum.until_released();
    });
}

/// Runs this at a client's only node. The connection breaks once the lock is free, before the answer.
async fn without_an_answer<T>(quorum: &Quorum, work: impl Future<Output = T>) -> T {
    let network = quorum[0].network();
    network.keep_back(Way::Down);
    let breaks = async {
        until("the lock is free", || quorum.held("job") == 0).await;
        let bob = take(&healthy_program(quorum).await, "job", LONG).await;
        network.cut();
        bob
    };
    let (answer, bob) = tokio::join!(work, breaks);
    assert_eq!(quorum.held("job"), 1, "the next holder keeps its lock");
    drop(bob);
    answer
}

#[test]
fn a_release_by_token_whose_answer_is_lost_was_of_a_held_lock() {
    let quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        let guard = take(&client, "job", LONG).await;
        let token = *guard.token();
        guard.detach().await.expect("it is held");
        let released = without_an_answer(&quorum, client.release("job", &token)).await;
        assert!(released.unwrap());
    });
}
