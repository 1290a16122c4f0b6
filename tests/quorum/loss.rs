//! A lost lock: its holder learns of the loss in time, and never too late.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_client::{Loss, LossReason};
use harness::Quorum;

use crate::coordinator::{
    healthy_program, ms, program, run, take, take_everywhere, until, wait_for,
};
use crate::fault::Fault;

const TTL: Duration = ms(2_400);
/// Long enough that a moment's pause of the machine is not taken for a paused program.
const LONG: Duration = ms(4_000);

#[test]
fn a_guard_is_lost_at_the_end_of_its_validity_when_nodes_are_paused() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let client = healthy_program(&quorum).await;
            let guard = take(&client, "job", TTL).await;
            for node in quorum.iter() {
                node.pause();
            }
            // A renewal that was under way may still have made it longer.
            tokio::time::sleep(ms(50)).await;
            let ends = Instant::now() + guard.valid_for();
            assert_not_renewed(&guard.lost().await);
            assert!(!guard.is_valid() && Instant::now() + ms(5) >= ends, "too early");
            // No other client could have had it meanwhile: the nodes still have the lease.
            for node in quorum.iter() {
                node.resume();
            }
        });
    }
}

#[test]
fn a_guard_is_lost_before_anybody_else_can_have_the_lock() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        for _ in 0..2 {
            let guard = Arc::new(take_everywhere(&quorum, &alice, "job", TTL).await);
            let (alices, bobs) = (Arc::clone(&guard), bob.clone());
            let bobs = tokio::spawn(async move {
                let next = wait_for(&bobs, "job", LONG).await;
                (alices.valid_for(), next)
            });
            until("bob waits", || {
                assert!(guard.is_valid(), "alice lost the lock before bob waited for it");
                quorum[0].node("waiters").int() == 1
            })
            .await;
            for node in quorum.iter() {
                node.network().swallow();
            }
            let loss = guard.lost().await;
            assert_eq!(guard.valid_for(), ms(0));
            let (left, next) = bobs.await.expect("no panic");
            assert_eq!(left, ms(0), "it was still valid when another client had the lock");
            assert!(next.fence() > loss.fence);
            for node in quorum.iter() {
                node.network().pass();
            }
            next.release().await.expect("it is held");
            until("nothing is left", || quorum.held("job") == 0).await;
        }
    });
}

#[test]
fn the_reasons_of_a_loss_name_the_nodes() {
    for fault in [Fault::Dead, Fault::BlackHoled] {
        let mut quorum = Quorum::start(3);
        run(async {
            let client = program(&quorum).await;
            let guard = take(&client, "job", LONG).await;
            for node in &mut quorum[1..] {
                fault.inject(node);
            }
            let loss = guard.lost().await;
            let LossReason::NotRenewed { nodes } = &loss.why else { panic!("{loss}") };
            for node in &quorum[1..] {
                let report = nodes.iter().find(|report| report.node == node.url());
                let state = &report.expect("every node is named").state;
                assert!(fault.is_reported_as(state), "{fault:?}: {state:?}");
                assert!(loss.to_string().contains(&node.url()), "{loss}");
            }
        });
    }
}

#[test]
fn a_lock_that_is_broken_at_a_majority_is_lost_at_the_next_renewal() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take(&client, "job", TTL).await;
        let fence = guard.fence();
        for node in quorum.iter() {
            assert_eq!(node.run("DLOCK.BREAK job").int(), 1);
        }
        let loss = guard.lost().await;
        assert!(matches!(loss.why, LossReason::Ended { .. }), "{loss}");
        assert_eq!((loss.key.to_str(), loss.fence), (Some("job"), fence));
        until("nothing comes back", || quorum.held("job") == 0).await;
    });
}

#[test]
fn a_lock_that_is_lost_releases_what_is_left_of_it() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take(&client, "job", TTL).await;
        for node in &mut quorum[..2] {
            Fault::Dead.inject(node);
        }
        guard.lost().await;
        until("the healthy node is free", || quorum[2].traces().leases == 0).await;
    });
}

#[test]
fn a_guard_knows_by_the_clock_alone_that_it_is_over() {
    let quorum = Quorum::start(3);
    // One thread for everything: while it is blocked, no renewal and no notice of a loss is sent.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it can be made").block_on(async {
        let client = healthy_program(&quorum).await;
        let guard = take(&client, "job", ms(3_000)).await;
        std::thread::sleep(guard.valid_for() + ms(50));
        assert!(!guard.is_valid());
        assert_eq!(guard.valid_for(), ms(0));
        let loss = guard.lost().await;
        assert!(matches!(loss.why, LossReason::Paused), "{loss}");
        guard.extend(TTL).await.expect_err("a lock that was lost stays lost");
        let next = wait_for(&client, "job", TTL).await;
        assert!(next.fence() > guard.fence());
        next.release().await.expect("it is held");
    });
}

#[test]
fn every_caller_that_asks_is_told_of_a_loss() {
    let quorum = Quorum::start(1);
    run(async {
        let client = healthy_program(&quorum).await;
        let guard = take(&client, "job", TTL).await;
        let given_up = tokio::time::timeout(ms(20), guard.lost()).await;
        assert!(given_up.is_err(), "nothing has happened yet");
        quorum[0].run("DLOCK.BREAK job");
        let (one, two) = tokio::join!(guard.lost(), guard.lost());
        assert_eq!((one.fence, two.fence), (guard.fence(), guard.fence()));
        guard.lost().await;
    });
}

/// A machine that pauses at the end is a reason, too: the program was paused.
#[track_caller]
fn assert_not_renewed(loss: &Loss) {
    assert!(matches!(loss.why, LossReason::NotRenewed { .. } | LossReason::Paused), "{loss}");
}
