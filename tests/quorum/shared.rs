//! Readers, which hold together, do not starve a writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::Quorum;
use tokio::task::JoinSet;

use crate::coordinator::{LONG, assert_holds, healthy_program, ms, run, until, wait_for};

#[test]
fn a_writer_gets_its_turn_while_readers_come_and_go() {
    let quorum = Quorum::start(3);
    run(async {
        let stopped = Arc::new(AtomicBool::new(false));
        let mut readers = JoinSet::new();
        for number in 0..4_u64 {
            let (reader, stopped) = (healthy_program(&quorum).await, Arc::clone(&stopped));
            readers.spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    let guard = reader.lock("page").ttl(LONG).shared().acquire().await;
                    tokio::time::sleep(ms(5 + 5 * number)).await;
                    guard.expect("readers are let in").release().await.expect("it is held");
                }
            });
        }
        until("readers overlap", || quorum[0].holders("page").len() > 1).await;
        let writer = healthy_program(&quorum).await;
        for _ in 0..3 {
            let guard = wait_for(&writer, "page", LONG).await;
            assert_holds(&quorum, &guard);
            guard.release().await.expect("it is held");
        }
        stopped.store(true, Ordering::Relaxed);
        readers.join_all().await;
        quorum.until_released();
    });
}
