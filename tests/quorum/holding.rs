//! A lock that a majority of the nodes holds without a gap stays held, whatever the others do.

use std::time::Duration;

use dlock_client::{NodeState, Patience};
use harness::Quorum;

use crate::coordinator::{
    assert_holds, healthy_program, ms, program, run, take, take_everywhere, until, until_longer,
    wait_for,
};

const MINUTES: Duration = Duration::from_secs(4 * 60);

#[test]
fn a_lock_that_is_made_much_longer_is_so_though_a_renewal_was_never_answered() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take(&client, "job", ms(3_000)).await;
        for node in &quorum[..2] {
            node.network().swallow();
        }
        until("a renewal is not answered", || guard.valid_for() < ms(1_200)).await;
        for node in &quorum[..2] {
            node.network().pass();
        }
        guard.extend(MINUTES).await.expect("all nodes grant it");
        assert!(guard.valid_for() > MINUTES / 2, "{:?}", guard.valid_for());
        until("all nodes know", || {
            quorum.iter().all(|node| node.holder("job")["ttl-ms"].int() > 200_000)
        })
        .await;
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
    });
}

/// Alice's RELEASE takes long to one node, so that Bob is served there later than elsewhere.
#[test]
fn a_node_that_restarts_costs_nothing_though_another_was_late_with_its_grant() {
    let mut quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", ms(20_000)).await;
        let bobs = bob.clone();
        let bobs = tokio::spawn(async move { wait_for(&bobs, "job", ms(3_000)).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum[1].network().delay(ms(60));
        let released = tokio::spawn(guard.release());
        let guard = bobs.await.expect("no panic");
        let token = guard.token().to_string();
        until("the late node has granted it, too", || quorum.held_by("job", &token) == 3).await;
        released.await.expect("no panic").expect("it was held");
        quorum[2].kill();
        quorum[2].start_again();
        assert!(quorum[2].holders("job").is_empty(), "it has forgotten");
        // By the second time it has said so.
        for _ in 0..2 {
            until_longer("it is renewed", || guard.valid_for()).await;
        }
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_node_that_refuses_a_longer_lease_does_not_undo_what_the_others_grant() {
    let quorum = Quorum::start(3);
    quorum[1].run("CONFIG SET dlock.max-ttl 60000");
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(20_000)).await;
        guard.extend(MINUTES).await.expect("two grant it");
        assert_eq!(guard.ttl(), MINUTES);
        assert!(guard.valid_for() > MINUTES / 2);
        assert_holds(&quorum, &guard);

        quorum[2].run("CONFIG SET dlock.max-ttl 300000");
        let refused = guard.extend(MINUTES * 2).await.expect_err("two refuse it");
        assert!(refused.to_string().contains("dlock.max-ttl"), "{refused}");
        assert_eq!(guard.ttl(), MINUTES);
        assert!(guard.is_valid());
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_longer_lease_that_one_node_refuses_while_another_is_down_is_an_error_and_the_lock_stays_held()
{
    let mut quorum = Quorum::start(3);
    quorum[1].run("CONFIG SET dlock.max-ttl 60000");
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(3_000)).await;
        quorum[2].kill();
        let refused = guard.extend(MINUTES).await.expect_err("only one grants it").to_string();
        assert!(refused.contains("1 min 0 s, the longest"), "{refused}");
        assert_eq!(guard.ttl(), ms(3_000));
        for _ in 0..2 {
            until_longer("it is renewed", || guard.valid_for()).await;
        }
        guard.release().await.expect("it is held");
    });
}

#[test]
fn who_asks_for_a_longer_lease_hears_at_once_each_time() {
    let quorum = Quorum::start(1);
    quorum[0].run("CONFIG SET dlock.max-ttl 60000");
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take(&client, "job", ms(20_000)).await;
        for _ in 0..3 {
            guard.extend(MINUTES).await.expect_err("the node refuses it");
            // Two at once: when the second is asked for, the first is under way.
            let both = tokio::join!(guard.extend(ms(1)), guard.extend(ms(1)));
            both.0.and(both.1).expect("it is held");
        }
        quorum[0].run("CONFIG SET dlock.max-ttl 600000");
        guard.extend(MINUTES).await.expect("the node grants it by now");
        let wrong = guard.extend(Duration::MAX).await.expect_err("no node grants it");
        assert!(wrong.to_string().contains("not without end"), "{wrong}");
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_lease_that_no_majority_grants_is_an_error_that_names_limit_setting_and_renewal() {
    let quorum = Quorum::start(3);
    quorum[0].run("CONFIG SET dlock.max-ttl 5000");
    quorum[1].run("CONFIG SET dlock.max-ttl 20000");
    run(async {
        let client = healthy_program(&quorum).await;
        for wait in [Patience::Try, Patience::Forever] {
            let taken = client.lock("job").ttl(ms(30_000)).wait(wait).acquire().await;
            let refused = taken.expect_err("two refuse it");
            assert_eq!(refused.code(), "refused");
            let words = refused.to_string();
            for word in ["20.0 s, the longest", "dlock.max-ttl", "renew it"] {
                assert!(words.contains(word), "{word:?} is not in {words}");
            }
        }
        let guard = client.lock("job").ttl(ms(20_000)).acquire().await.expect("two grant it");
        let refused = client.extend("job", guard.token(), Some(guard.fence()), ms(20_001)).await;
        let words = refused.expect_err("two refuse it").to_string();
        assert!(words.contains("20.0 s, the longest"), "{words}");
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_renewal_that_a_majority_refuses_is_repeated_at_once_with_the_longest_lease_that_one_grants() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(3_000)).await;
        quorum[0].run("CONFIG SET dlock.max-ttl 1000");
        quorum[1].run("CONFIG SET dlock.max-ttl 2000");
        until("the lease is shorter", || guard.ttl() == ms(2_000)).await;
        for _ in 0..2 {
            until_longer("it is renewed", || guard.valid_for()).await;
        }
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_lock_that_is_handed_on_after_others_wanted_it_is_at_all_nodes() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        for _ in 0..5 {
            let guard = take_everywhere(&quorum, &alice, "job", ms(20_000)).await;
            let bobs = bob.clone();
            let bobs = tokio::spawn(async move { wait_for(&bobs, "job", ms(20_000)).await });
            until("bob waits", || quorum[0].node("waiters").int() == 1).await;
            quorum[1].network().delay(ms(40));
            let released = tokio::spawn(guard.release());
            let lease = bobs.await.expect("no panic").detach().await;
            assert_eq!(quorum.held_by("job", &lease.token.to_string()), 3);
            quorum[1].network().pass();
            released.await.expect("no panic").expect("it was held");
            assert!(bob.release("job", &lease.token).await.expect("a majority answers"));
            // At the last node it may go on in the background.
            quorum.until_empty();
        }
    });
}

#[test]
fn nodes_that_exchange_their_addresses_are_the_same_nodes_as_before() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(3_000)).await;
        let fence = guard.fence();
        quorum[0].network().lead_to(quorum[1].port());
        quorum[1].network().lead_to(quorum[0].port());
        for node in &quorum[..2] {
            node.network().cut();
        }
        until_longer("it is renewed", || guard.valid_for()).await;
        assert_eq!(quorum.held_by("job", &guard.token().to_string()), 3);
        guard.release().await.expect("it is held");
        // Of the three, one is away: both of those that have moved are needed.
        quorum[2].network().refuse();
        let guard = take(&client, "job", ms(3_000)).await;
        assert!(guard.fence() > fence);
        guard.release().await.expect("it is held");
    });
}

#[test]
fn two_addresses_that_come_to_lead_to_one_node_have_one_vote() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        take(&client, "job", ms(3_000)).await.release().await.expect("it is held");
        quorum[2].network().refuse();
        quorum[0].network().lead_to(quorum[1].port());
        quorum[0].network().cut();
        let refused = client.lock("job").ttl(ms(3_000)).try_acquire().await;
        let nodes = crate::coordinator::without_quorum(refused);
        let same = |state: &NodeState| state.to_string().contains("same node");
        assert_eq!(nodes.iter().filter(|report| same(&report.state)).count(), 1, "{nodes:?}");
    });
}
