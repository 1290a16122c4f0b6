//! A lost lock: its holder learns of the loss in time, and never too late.

use std::time::{Duration, Instant};

use dlock_client::LossReason;
use harness::Quorum;

use crate::coordinator::{
    LONG, healthy_program, ms, program, run, take_everywhere, until, wait_for,
};
use crate::fault::Fault;

/// A lease that ends in the test. It is long enough for a machine that pauses for a moment.
const TTL: Duration = ms(8_000);

#[test]
fn a_guard_is_lost_at_the_end_of_its_validity_and_the_reason_names_the_nodes() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = wait_for(&client, "job", TTL).await;
        Fault::Paused.inject(&mut quorum[1]);
        Fault::BlackHoled.inject(&mut quorum[2]);
        let ends = Instant::now() + guard.valid_for();
        let extended = guard.extend(TTL);
        let loss = guard.lost().await;
        extended.await.expect_err("one node of three answers");
        assert!(!guard.is_valid() && Instant::now() + ms(5) >= ends, "too early");
        match &loss.why {
            LossReason::NotRenewed { .. } => {
                for node in &quorum[1..] {
                    assert!(
                        loss.to_string().contains(&format!("{}: no answer", node.url())),
                        "{loss}"
                    );
                }
            }
            // The machine paused at the end.
            LossReason::Paused => {}
            _ => panic!("{loss}"),
        }
        Fault::Paused.clear(&mut quorum[1]);
    });
}

#[test]
fn a_guard_is_lost_before_anybody_else_can_have_the_lock() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = wait_for(&alice, "job", TTL).await;
        let bobs = tokio::spawn(async move { wait_for(&bob, "job", LONG).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum.iter().for_each(|node| node.network().swallow());
        let next = bobs.await.expect("no panic");
        assert_eq!(guard.valid_for(), ms(0), "it was valid still when another client had the lock");
        let expiries = quorum.iter().map(|node| node.info_number("dlock", "dlock_expiries"));
        assert!(expiries.sum::<i64>() >= 2, "a majority has waited for the end of the lease");
        assert!(next.fence() > guard.lost().await.fence);
        quorum.iter().for_each(|node| node.network().pass());
        next.release().await.expect("it is held");
        until("nothing is left", || quorum.held("job") == 0).await;
    });
}

#[test]
fn a_lock_that_was_ended_at_a_majority_is_lost_when_the_nodes_are_asked_and_every_caller_is_told() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        let given_up = tokio::time::timeout(ms(20), guard.lost()).await;
        assert!(given_up.is_err(), "nothing has happened yet");
        assert!(quorum.iter().all(|node| node.run("DLOCK.BREAK job").int() == 1));
        // The client asks a node again as soon as it has a new connection.
        quorum.iter().for_each(|node| node.network().cut());
        let (loss, two) = tokio::join!(guard.lost(), guard.lost());
        assert!(matches!(loss.why, LossReason::Ended { .. }), "{loss}");
        assert_eq!((loss.key.to_str(), loss.fence), (Some("job"), guard.fence()));
        assert_eq!((two.fence, guard.lost().await.fence), (loss.fence, loss.fence));
        drop(guard);
        until("nothing comes back", || quorum.held("job") == 0).await;
    });
}

#[test]
fn a_guard_knows_by_the_clock_alone_that_it_is_over() {
    let quorum = Quorum::start(3);
    // One thread for everything: while it is blocked, no renewal and no notice of a loss is sent.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it can be made").block_on(async {
        let client = healthy_program(&quorum).await;
        let guard = wait_for(&client, "job", ms(3_000)).await;
        std::thread::sleep(guard.valid_for() + ms(50));
        assert!(!guard.is_valid());
        let loss = guard.check().expect_err("it is over");
        assert_eq!((loss.fence, loss.why.name()), (guard.fence(), "not_renewed"));
        let loss = guard.lost().await;
        assert!(matches!(loss.why, LossReason::Paused), "{loss}");
        guard.extend(LONG).await.expect_err("a lock that was lost stays lost");
        let next = wait_for(&client, "job", LONG).await;
        assert!(next.fence() > guard.fence());
        next.release().await.expect("it is held");
    });
}

#[test]
fn a_lost_lock_is_not_handed_on_and_leaves_no_lease() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let lock = client.lock("job").ttl(LONG).max_hold(ms(50));
        let guard = lock.acquire().await.expect("it is free");
        let loss = guard.lost().await;
        assert!(matches!(loss.why, LossReason::MaxHold), "{loss}");
        let loss = guard.detach().await.expect_err("it is lost");
        assert!(matches!(loss.why, LossReason::MaxHold), "{loss}");
        until("all leases are released", || quorum.held("job") == 0).await;
    });
}
