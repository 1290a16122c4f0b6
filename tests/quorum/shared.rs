//! Readers, which hold together, do not starve a writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harness::Quorum;
use tokio::task::JoinSet;

use crate::coordinator::{assert_holds, healthy_program, ms, run, until, wait_for};

const TTL: Duration = ms(10_000);

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
            quorum.until_released();
        });
    }
}
