//! Locks that are left done over several nodes.

use std::time::Duration;

use dlock_client::{Error, Guard};
use harness::Quorum;
use harness::wait::PATIENCE;
use tokio::time::{sleep, timeout};

use crate::coordinator::{LONG, healthy_program, ms, program, run, take, take_everywhere, until};

/// A window that outlasts the tests.
const WINDOW: Duration = Duration::from_secs(3_600);

#[test]
fn a_lock_is_done_while_a_majority_has_the_record_and_one_record_keeps_no_client_away() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take(&client, "job", LONG).await;
        quorum[2].kill();
        // Too long an outcome is cut.
        guard.done(WINDOW, "é".repeat(600)).await.expect("a majority says so");
        is_told(&client.lock("job").try_acquire().await.expect_err("it is done"));
        // The other record is lost: the third node may have it.
        quorum[1].run("DEL job");
        let error = client.lock("job").try_acquire().await.expect_err("a silent node may have it");
        assert!(matches!(error, Error::NoQuorum { .. }), "{error:?}");
        quorum[2].start_again();
        quorum[2].run("CONFIG SET dlock.quarantine off");
        let guard = client.lock("job").acquire().await.expect("one record is no majority");
        until("the record is passed over", || quorum.held_by("job", guard.token().as_str()) == 3)
            .await;
    });
}

fn is_told(error: &Error) {
    assert!(matches!(error, Error::Done { .. }), "{error:?}");
}

#[test]
fn work_of_a_window_is_done_once_and_failed_work_is_tried_again() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let failed = client.lock("job").run_once(WINDOW, async |_| Err::<(), _>("no disk")).await;
        assert_eq!(failed.expect("it was held"), Err("no disk"));
        // The work's error outlives a loss of the lock.
        let failed = client.lock("job").run_once(WINDOW, async |_| {
            (0..3).for_each(|node| drop(quorum[node].run("DLOCK.BREAK job")));
            Err::<(), _>("no disk")
        });
        assert_eq!(failed.await.expect("it was held"), Err("no disk"));
        let done = client.lock("job").run_once(WINDOW, async |guard: &Guard| {
            // The work may set its outcome itself.
            guard.done(WINDOW, "7 rows").await.map(|()| 7)
        });
        let done = done.await;
        assert_eq!(done.expect("it was held").expect("it was told"), 7);
        let again = client.lock("job").run_once(WINDOW, async |_| Ok::<_, ()>(8)).await;
        let Err(Error::Done { by: Some(by), .. }) = again else { panic!("{again:?}") };
        assert_eq!(by.outcome, b"7 rows");
        let shared = client.lock("job").shared().run_once(WINDOW, async |_| Ok::<_, ()>(8)).await;
        assert!(matches!(shared, Err(Error::Usage(_))), "{shared:?}");
    });
}

#[test]
fn work_that_takes_longer_than_its_window_succeeds_and_the_lock_is_free() {
    let quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        let late = ms(60);
        let work = async |_: &Guard| {
            sleep(late).await;
            Ok::<_, ()>(7)
        };
        let done = client.lock("job").run_once(ms(20), work).await;
        assert_eq!(done.expect("no majority is needed"), Ok(7));
        let work = async |guard: &Guard| {
            sleep(late).await;
            guard.done(ms(20), "").await.expect("its window is over");
            sleep(late).await;
            8
        };
        assert_eq!(client.lock("job").run(work).await.expect("no loss"), 8);
        client.lock("job").try_acquire().await.expect("it is free").release().await.expect("held");
    });
}

#[test]
fn no_client_works_under_a_lock_that_is_being_left_done_and_a_release_waits_for_one_time_out() {
    let quorum = Quorum::start(3);
    run(async {
        let (client, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        quorum[1].pause();
        quorum[2].pause();
        // Another client may take the one record, by AGAIN.
        timeout(ms(300), guard.done(WINDOW, "")).await.expect_err("no majority answers");
        assert_eq!(guard.check().expect_err("it is being left done").why.name(), "done");
        let longer = guard.extend(LONG).await.expect_err("it is being left done");
        assert!(matches!(longer, Error::Lost(_)), "{longer:?}");
        let release = guard.release().await;
        let release = release.expect("it is not lost");
        assert!(!release.is_free && release.left.len() == 2, "{release:?}");
        quorum[1].resume();
        quorum[2].resume();
        assert!(client.released(PATIENCE).await, "it goes on in the background");
        is_told(&bob.lock("job").try_acquire().await.expect_err("it is done"));
    });
}
