//! A lock that a majority of the nodes holds without a gap stays held, whatever the other nodes do.

use dlock_client::Patience;
use harness::Quorum;

use crate::coordinator::{
    LONG, assert_holds, healthy_program, ms, program, run, take_everywhere, until, wait_for,
};

/// Alice's RELEASE takes long to one node, so that Bob is served there later than elsewhere.
#[test]
fn a_node_that_restarts_costs_nothing_though_another_was_late_with_its_grant() {
    let mut quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", ms(60_000)).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum[1].network().delay(ms(60));
        let released = tokio::spawn(guard.release());
        let guard = bobs.await.expect("no panic");
        until("the late node has granted it, too", || {
            quorum.held_by("job", guard.token().as_str()) == 3
        })
        .await;
        released.await.expect("no panic").expect("it was held");
        quorum[2].kill();
        quorum[2].start_again();
        assert!(quorum[2].holders("job").is_empty(), "it has forgotten");
        for length in [ms(70_000), ms(80_000)] {
            guard.extend(length).await.expect("two nodes have had it all the time");
            let asked = || quorum[2].info("commandstats").contains_key("cmdstat_dlock.extend");
            until("the node that forgot was asked", asked).await;
        }
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
    });
}

/// A node in quarantine grants no other client what it has forgotten.
#[test]
fn a_release_at_a_node_that_has_forgotten_the_lease_in_a_crash_reports_no_loss() {
    let mut quorum = Quorum::start(1);
    run(async {
        let alice = program(&quorum).await;
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        quorum[0].kill();
        quorum[0].start_again();
        guard.release().await.expect("no other client had it");
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
            for word in ["5000 ms, the longest", "dlock.max-ttl", "renew it"] {
                assert!(words.contains(word), "{word:?} is not in {words}");
            }
        }
        let guard = client.lock("job").ttl(ms(20_000)).acquire().await.expect("two grant it");
        // A waiter asks for a short lease at first, and after recent contention begins as one.
        client.lock("job").try_acquire().await.expect_err("it is held");
        let lock = client.lock("job").ttl(ms(30_000)).unrenewed();
        let (waited, ()) = tokio::join!(lock.acquire(), async {
            tokio::time::sleep(ms(300)).await;
            guard.release().await.expect("it is held");
        });
        let words = waited.expect_err("two refuse it").to_string();
        assert!(words.contains("5000 ms, the longest"), "{words}");
        let guard = client.lock("job").ttl(ms(20_000)).acquire().await.expect("it is free");
        let refused = client.extend("job", guard.token(), guard.fence(), ms(20_001)).await;
        let words = refused.expect_err("two refuse it").to_string();
        assert!(words.contains("5000 ms, the longest"), "{words}");
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn one_lease_is_as_long_as_it_was_asked_for_though_the_client_has_waited() {
    const TTL: u64 = 1_000;
    let quorum = Quorum::start(1);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = client.lock("job").acquire().await.expect("it is free");
        let (waited, ()) =
            tokio::join!(client.lock("job").ttl(ms(TTL)).unrenewed().acquire(), async {
                tokio::time::sleep(ms(TTL * 2 / 5)).await;
                guard.release().await.expect("it is held");
            });
        let _guard = waited.expect("it is free now");
        let left = quorum[0].holder("job")["ttl-ms"].int().unsigned_abs();
        assert!(left > TTL * 3 / 4, "{left}");
    });
}

#[test]
fn extensions_at_the_same_time_are_answered_each_for_its_own_length() {
    let quorum = Quorum::start(1);
    quorum[0].run("CONFIG SET dlock.max-ttl 100000");
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = client.lock("job").ttl(ms(20_000)).acquire().await.expect("it is free");
        let extend = |ttl| guard.extend(ms(ttl));
        let (longer, too_long, shorter) = (extend(90_000), extend(200_000), extend(30_000));
        longer.await.expect("the node grants it");
        let refused = too_long.await.expect_err("the node refuses it").to_string();
        assert!(refused.contains("100000 ms, the longest"), "{refused}");
        shorter.await.expect("the node grants it");
        assert_eq!(guard.ttl(), ms(90_000));
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_lock_that_is_handed_on_after_others_wanted_it_is_at_all_nodes() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs = bob.clone();
        let bobs = tokio::spawn(async move { wait_for(&bobs, "job", LONG).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum[1].network().delay(ms(40));
        let released = tokio::spawn(guard.release());
        let lease = bobs.await.expect("no panic").detach().await.expect("it is held");
        assert_eq!(quorum.held_by("job", lease.token.as_str()), 3);
        released.await.expect("no panic").expect("it was held");
        assert!(bob.release("job", &lease.token).await.expect("a majority answers"));
        // The last node's release may still be going on.
        quorum.until_empty();
    });
}

#[test]
fn nodes_that_exchange_their_addresses_are_the_same_nodes_as_before() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        let fence = guard.fence();
        quorum[0].network().lead_to(quorum[1].port());
        quorum[1].network().lead_to(quorum[0].port());
        for node in &quorum[..2] {
            node.network().cut();
        }
        // One of the three is down: both nodes that have moved are needed.
        quorum[2].network().refuse();
        guard.extend(LONG).await.expect("both have it");
        guard.release().await.expect("it is held");
        let guard = wait_for(&client, "job", LONG).await;
        assert!(guard.fence() > fence);
        guard.release().await.expect("it is held");
    });
}
