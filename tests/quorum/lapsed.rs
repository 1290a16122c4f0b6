//! A server that was a node comes back without the module, or as a replica: waiters go on waiting.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlock_client::{Client, Error, NodeState, Notice};
use harness::{Kind, Quorum, Server};

use crate::coordinator::{NODE_TIMEOUT, ms, run, said, until, without_quorum};

const TTL: Duration = ms(4_000);

#[test]
fn a_waiter_waits_until_the_module_is_back() {
    for size in [1, 3] {
        let mut quorum = Quorum::start(size);
        run(async {
            let told = Arc::new(Mutex::new(Vec::new()));
            let client = heard(&quorum, &told).await;
            let majority = quorum.majority();
            (0..majority).for_each(|node| lose_module(&mut quorum[node]));
            let waiting = tokio::spawn(client.lock("job").ttl(TTL).acquire());
            let lapsed = |notice: &Notice| match notice {
                Notice::Outage { nodes, .. } => {
                    nodes.iter().filter(|node| matches!(node.state, NodeState::Lapsed(_))).count()
                        == majority
                }
                _ => false,
            };
            until("somebody is told", || told.lock().expect("no panic").iter().any(lapsed)).await;
            assert!(!waiting.is_finished());
            for node in 0..majority {
                quorum[node].stop();
                quorum[node].take_module_back();
                quorum[node].start_again();
            }
            let guard = waiting.await.expect("no panic").expect("the module is back");
            guard.release().await.expect("it is held");
        });
    }
}

#[test]
fn a_waiter_with_a_limit_is_told_which_node_lacks_the_module() {
    let mut quorum = Quorum::start(1);
    run(async {
        let client = heard(&quorum, &Told::default()).await;
        lose_module(&mut quorum[0]);
        let url = quorum[0].url();
        for answer in [
            client.lock("job").ttl(TTL).acquire_within(ms(700)).await,
            client.lock("job").ttl(TTL).try_acquire().await,
        ] {
            let reports = without_quorum(answer);
            let state = said(&reports, &url);
            assert!(matches!(state, NodeState::Lapsed(_)), "{state:?}");
            assert!(state.to_string().contains("the dlock module is not loaded"), "{state}");
        }
    });
}

#[test]
fn a_node_that_became_a_replica_is_waited_for() {
    let quorum = Quorum::start(1);
    let other = Server::start(Kind::Redis82);
    run(async {
        let told = Told::default();
        let client = heard(&quorum, &told).await;
        quorum[0].run(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
        let waiting = tokio::spawn(client.lock("job").ttl(TTL).acquire());
        until("somebody is told", || !told.lock().expect("no panic").is_empty()).await;
        assert!(!waiting.is_finished());
        quorum[0].run("CONFIG SET dlock.quarantine off");
        quorum[0].run("REPLICAOF NO ONE");
        waiting
            .await
            .expect("no panic")
            .expect("it is a primary again")
            .release()
            .await
            .expect("it is held");
    });
}

#[test]
fn a_first_connection_where_no_node_has_the_module_fails_at_once() {
    let mut quorum = Quorum::start(1);
    lose_module(&mut quorum[0]);
    run(async {
        let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
        let error = builder.clone().connect().await.expect_err("it is no node");
        assert!(!error.may_pass() && error.to_string().contains("loadmodule"), "{error}");
        let client = builder.connect_later().expect("the address is good");
        let answer = client.lock("job").ttl(TTL).acquire().await;
        assert!(matches!(answer, Err(Error::Refused { .. })));
    });
}

type Told = Arc<Mutex<Vec<Notice>>>;

async fn heard(quorum: &Quorum, told: &Told) -> Client {
    let heard = Arc::clone(told);
    let listener = move |notice: &Notice| heard.lock().expect("no panic").push(notice.clone());
    let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
    builder.notify(listener).connect().await.expect("all answer")
}

fn lose_module(server: &mut Server) {
    server.stop();
    server.leave_module_out();
    server.start_again();
}
