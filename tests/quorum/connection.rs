//! Holders and waiters that go on while their connections break.

use std::sync::Arc;

use dlock_client::{Client, NodeError};
use harness::fake::{Answer, Fake};
use harness::{Proxy, Quorum, soak};

use crate::coordinator::{
    LONG, healthy_program, ms, program, run, take_everywhere, until, without_quorum,
};

/// The next regular renewal, after a third of this lease, would be minutes away.
#[test]
fn a_guard_is_renewed_at_once_where_its_connection_is_back() {
    let quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        for how in [Proxy::refuse, Proxy::cut] {
            quorum[1].run("DEL job");
            assert_eq!(quorum.held("job"), 2, "nobody renews it before its time");
            how(quorum[1].network());
            quorum[1].network().cut();
            quorum[1].network().pass();
            until("the node has it again", || quorum.held("job") == 3).await;
        }
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_request_that_is_sent_while_its_connection_breaks_is_told_so() {
    let quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        let node = client.nodes().next().expect("there is one");
        for _ in 0..if soak::tries_every_case() { 300 } else { 20 } {
            let ask = || {
                let node = Arc::clone(node);
                async move { node.send(&redis::cmd("PING")).await }
            };
            ask().await.ok();
            // Some go before the end is noticed, some after it, and some just then.
            let asks: Vec<_> = (0..20).map(|_| tokio::spawn(ask())).collect();
            quorum[0].network().cut();
            for asked in asks {
                let answer = asked.await.expect("no panic");
                assert!(!matches!(answer, Err(NodeError::TimedOut(_))), "{answer:?}");
            }
        }
    });
}

#[test]
fn a_waiter_that_is_silent_leaves_the_queue_when_its_time_is_over() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        let bobs =
            tokio::spawn(async move { bob.lock("job").ttl(LONG).acquire_within(ms(8_000)).await });
        until("bob waits", || quorum[0].node("waiters").int() == 1).await;
        quorum.iter().for_each(|node| node.network().swallow());
        // The holder was in Bob's way, but no majority answers at the end.
        without_quorum(bobs.await.expect("no panic"));
        until("nobody waits", || quorum.iter().all(|node| node.traces().waiters == 0)).await;
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_connection_that_the_server_closes_is_called_that_and_says_what_to_look_at() {
    let closes = Fake::start(|_| Answer::End);
    run(async {
        let builder = Client::builder().nodes([format!("redis://127.0.0.1:{}", closes.port())]);
        let text = builder.connect().await.expect_err("nobody answers").to_string();
        assert!(text.contains("the connection was closed before the server answered"), "{text}");
        assert!(text.contains("maxclients") && text.contains("rediss://"), "{text}");
        assert!(!text.to_lowercase().contains("broken pipe"), "{text}");
    });
}
