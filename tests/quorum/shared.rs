//! Readers hold together, writers alone, and neither starves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dlock_client::{Client, Guard};
use harness::Quorum;
use tokio::task::JoinSet;

use crate::coordinator::{
    assert_held, assert_holds, healthy_program, ms, run, take, until, wait_for,
};

const TTL: Duration = ms(2_000);

#[test]
fn readers_hold_together_and_writers_wait() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let mut readers = Vec::new();
            for _ in 0..5 {
                let reader = healthy_program(&quorum).await;
                readers.push(read(&reader).await);
            }
            for guard in &readers {
                assert_holds(&quorum, guard);
            }
            let writer = healthy_program(&quorum).await;
            assert_held(writer.lock("page").try_acquire().await);
            let last = readers.iter().map(Guard::fence).max();
            for guard in readers {
                guard.release().await.expect("it is held");
            }
            let guard = take(&writer, "page", TTL).await;
            assert!(Some(guard.fence()) > last);
            assert_held(writer.lock("page").shared().try_acquire().await);
            guard.release().await.expect("it is held");
            quorum.assert_empty_within(ms(0));
        });
    }
}

#[test]
fn a_writer_gets_its_turn_while_readers_come_and_go() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        run(async {
            let stopped = Arc::new(AtomicBool::new(false));
            let mut readers = JoinSet::new();
            for number in 0..6_u64 {
                let (reader, stopped) = (healthy_program(&quorum).await, Arc::clone(&stopped));
                readers.spawn(async move {
                    while !stopped.load(Ordering::Relaxed) {
                        let guard = reader.lock("page").ttl(TTL).shared().acquire().await;
                        tokio::time::sleep(ms(5 + 3 * number)).await;
                        guard.expect("readers are let in").release().await.expect("it is held");
                    }
                });
            }
            until("readers overlap", || quorum[0].holders("page").len() > 1).await;
            let writer = healthy_program(&quorum).await;
            for _ in 0..5 {
                let guard = wait_for(&writer, "page", TTL).await;
                assert_holds(&quorum, &guard);
                guard.release().await.expect("it is held");
            }
            stopped.store(true, Ordering::Relaxed);
            readers.join_all().await;
            quorum.assert_empty_within(ms(0));
        });
    }
}

#[test]
fn a_waiting_reader_is_let_in_when_the_writer_is_done() {
    let quorum = Quorum::start(3);
    run(async {
        let writer = healthy_program(&quorum).await;
        let guard = take(&writer, "page", ms(30_000)).await;
        let mut waiting = JoinSet::new();
        for number in 1..=3 {
            let reader = healthy_program(&quorum).await;
            waiting.spawn(async move { reader.lock("page").ttl(TTL).shared().acquire().await });
            until("they wait", || quorum[0].node("waiters").int() == number).await;
        }
        let fence = guard.fence();
        guard.release().await.expect("it is held");
        let readers = waiting.join_all().await;
        for guard in readers {
            let guard = guard.expect("the writer is done");
            assert!(guard.fence() > fence);
            assert!(guard.is_valid());
            guard.release().await.expect("it is held");
        }
        quorum.assert_empty_within(ms(0));
    });
}

async fn read(client: &Client) -> Guard {
    let guard = client.lock("page").ttl(TTL).shared().try_acquire().await;
    guard.unwrap_or_else(|error| panic!("a reader was refused: {error}"))
}
