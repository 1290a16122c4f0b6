//! Semaphores: on one node they work, on several they are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlock_client::Error;
use harness::Quorum;
use tokio::task::JoinSet;

use crate::coordinator::{healthy_program, ms, run};

#[test]
fn a_semaphore_on_one_node_has_so_many_holders() {
    let quorum = Quorum::start(1);
    run(async {
        let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut people = JoinSet::new();
        for _ in 0..9 {
            let person = healthy_program(&quorum).await;
            let (most, now) = (Arc::clone(&most), Arc::clone(&now));
            people.spawn(async move {
                let guard = person.lock("pool").ttl(ms(5_000)).limit(3).acquire().await;
                let guard = guard.expect("a permit is free in time");
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(ms(50)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("it is held");
            });
        }
        people.join_all().await;
        assert_eq!(most.load(Ordering::SeqCst), 3);
        quorum.assert_empty_within(ms(0));
    });
}

#[test]
fn a_semaphore_on_several_nodes_is_refused() {
    let quorum = Quorum::start(3);
    run(async {
        let client = healthy_program(&quorum).await;
        match client.lock("pool").limit(2).try_acquire().await {
            Err(Error::Usage(text)) => assert!(text.contains("single node"), "{text}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("granted"),
        }
        quorum.assert_empty_within(ms(0));
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let quorum = Quorum::start(1);
    run(async {
        let client = healthy_program(&quorum).await;
        let long = "x".repeat(1_025);
        let refused = [
            client.lock("job").ttl(ms(0)).try_acquire().await,
            client.lock("job").meta(&long).try_acquire().await,
            client.lock("job").limit(0).try_acquire().await,
        ];
        for (number, answer) in refused.into_iter().enumerate() {
            assert!(matches!(answer, Err(Error::Usage(_))), "{number}: {:?}", answer.err());
        }
        assert_eq!(quorum[0].info_number("dlock", "dlock_grants"), 0);
    });
}
