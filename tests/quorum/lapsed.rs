//! A server that was a node comes back without the module, or as a replica: waiters go on waiting.

use std::sync::{Arc, Mutex};

use dlock_client::{Client, Error, NodeState, Notice};
use harness::{Kind, Quorum, Server};

use crate::coordinator::{LONG, NODE_TIMEOUT, run, said, until, without_quorum};

#[test]
fn an_attempt_is_told_which_node_lacks_the_module_and_a_waiter_waits_until_it_is_back() {
    let mut quorum = Quorum::start(1);
    run(async {
        let told = Told::default();
        let client = heard(&quorum, &told).await;
        lose_module(&mut quorum[0]);
        let reports = without_quorum(client.lock("job").ttl(LONG).try_acquire().await);
        let state = said(&reports, &quorum[0].url());
        assert!(matches!(state, NodeState::Lapsed(_)), "{state:?}");
        assert!(state.to_string().contains("the dlock module is not loaded"), "{state}");
        let waiting = tokio::spawn(client.lock("job").ttl(LONG).acquire());
        until("somebody is told", || !told.lock().expect("no panic").is_empty()).await;
        assert!(!waiting.is_finished());
        quorum[0].stop();
        quorum[0].take_module_back();
        quorum[0].start_again();
        let guard = waiting.await.expect("no panic").expect("the module is back");
        guard.release().await.expect("it is held");
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
        let waiting = tokio::spawn(client.lock("job").ttl(LONG).acquire());
        until("somebody is told", || !told.lock().expect("no panic").is_empty()).await;
        assert!(!waiting.is_finished());
        quorum[0].run("CONFIG SET dlock.quarantine off");
        quorum[0].run("REPLICAOF NO ONE");
        let guard = waiting.await.expect("no panic").expect("it is a primary again");
        guard.release().await.expect("it is held");
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
        let answer = client.lock("job").ttl(LONG).acquire().await;
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
