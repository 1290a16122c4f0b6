//! A majority of the nodes fails: no client gets a lock, each gets the reason, and nothing is left behind.

use std::sync::{Arc, Mutex};

use dlock_client::{Client, Error, NodeState, Notice};
use harness::Quorum;
use harness::wait::PATIENCE;

use crate::coordinator::{
    LONG, NODE_TIMEOUT, assert_holds, ms, program, run, said, take, take_everywhere, until,
    without_quorum,
};
use crate::fault::Fault;

#[test]
fn a_dead_majority_is_reported() {
    is_reported(Fault::Dead);
}

#[test]
fn a_paused_majority_is_reported() {
    is_reported(Fault::Paused);
}

#[test]
fn a_black_holed_majority_is_reported() {
    is_reported(Fault::BlackHoled);
}

#[test]
fn a_slow_majority_is_reported() {
    is_reported(Fault::Slow);
}

#[test]
fn a_majority_without_memory_is_reported() {
    is_reported(Fault::OutOfMemory);
}

#[test]
fn a_majority_in_quarantine_is_reported() {
    is_reported(Fault::InQuarantine);
}

#[test]
fn a_single_node_that_fails_is_reported() {
    let mut quorum = Quorum::start(1);
    run(async {
        let client = program(&quorum).await;
        for fault in [Fault::BlackHoled, Fault::InQuarantine, Fault::Dead] {
            fault.inject(&mut quorum[0]);
            let reports = without_quorum(client.lock("job").ttl(LONG).try_acquire().await);
            assert!(fault.is_reported_as(said(&reports, &quorum[0].url())), "{reports:?}");
            fault.clear(&mut quorum[0]);
        }
    });
}

#[test]
fn a_waiter_without_a_limit_waits_through_an_outage_and_a_notice_says_so() {
    let mut quorum = Quorum::start(3);
    run(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let listener = move |notice: &Notice| heard.lock().expect("no panic").push(notice.clone());
        let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
        let client = builder.notify(listener).connect().await.expect("all answer");
        for node in &mut quorum[1..] {
            Fault::Dead.inject(node);
        }
        let waiting = client.lock("job").ttl(LONG).acquire();
        let waiting = tokio::spawn(waiting);
        let outage = |notice: &Notice| matches!(notice, Notice::Outage { needed: 2, nodes, .. } if nodes.len() == 3);
        until("somebody is told", || told.lock().expect("no panic").iter().any(outage)).await;
        assert!(!waiting.is_finished());
        for node in &mut quorum[1..] {
            Fault::Dead.clear(node);
        }
        let guard = waiting.await.expect("no panic").expect("a majority is back");
        assert_holds(&quorum, &guard);
        assert_eq!(told.lock().expect("no panic").iter().filter(|one| outage(one)).count(), 1);
        guard.release().await.expect("it is held");
    });
}

#[test]
fn the_end_of_an_outage_is_told_though_the_lock_is_done() {
    let quorum = Quorum::start(3);
    run(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let listener = move |notice: &Notice| heard.lock().expect("no panic").push(notice.name());
        let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
        let client = builder.notify(listener).connect().await.expect("all answer");
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        guard.done(ms(3_600_000), "").await.expect("it is held");
        assert!(client.released(PATIENCE).await, "all three have the record");
        quorum[1..].iter().for_each(|node| node.network().refuse());
        let waiting = tokio::spawn(client.lock("job").ttl(LONG).acquire());
        until("an outage is told", || told.lock().expect("no panic").contains(&"outage")).await;
        quorum[1..].iter().for_each(|node| node.network().pass());
        let error = waiting.await.expect("no panic").expect_err("it is done");
        assert!(matches!(error, Error::Done { .. }), "{error}");
        assert_eq!(*told.lock().expect("no panic"), ["outage", "back"]);
    });
}

#[test]
fn a_client_that_is_made_during_an_outage_waits_for_its_end() {
    let mut quorum = Quorum::start(3);
    run(async {
        for node in &mut quorum[1..] {
            Fault::Dead.inject(node);
        }
        let builder = Client::builder().nodes(quorum.urls()).node_timeout(NODE_TIMEOUT);
        let error = builder.clone().connect().await.expect_err("one of three answers");
        assert!(error.may_pass(), "{error}");
        let client = builder.connect_later().expect("the addresses are good");
        without_quorum(client.lock("job").ttl(LONG).try_acquire().await);
        let waiting = tokio::spawn(client.lock("job").ttl(LONG).acquire());
        for node in &mut quorum[1..] {
            Fault::Dead.clear(node);
        }
        let guard = waiting.await.expect("no panic").expect("a majority is back");
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
    });
}

#[test]
fn a_quarantine_is_waited_for() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        for node in &mut quorum[..2] {
            Fault::InQuarantine.inject(node);
        }
        without_quorum(client.lock("job").ttl(LONG).try_acquire().await);
        let refusals = || quorum[0].info("errorstats").get("errorstat_QUARANTINE").cloned();
        let before = refusals();
        let waiting = tokio::spawn(client.lock("job").ttl(LONG).acquire());
        until("it was refused", || refusals() != before).await;
        for node in &mut quorum[..2] {
            Fault::InQuarantine.clear(node);
        }
        let guard = waiting.await.expect("no panic").expect("nobody else wants it");
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_majority_that_is_gone_and_a_lock_that_is_held_are_different_errors() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let _guard = take_everywhere(&quorum, &client, "job", LONG).await;
        Fault::Dead.inject(&mut quorum[2]);
        let answer = client.lock("job").ttl(LONG).try_acquire().await;
        assert!(matches!(answer, Err(Error::Held { .. })));
        Fault::Dead.inject(&mut quorum[1]);
        let answer = client.lock("job").ttl(LONG).try_acquire().await;
        let error = answer.expect_err("one node of three is no majority");
        assert!(matches!(error, Error::NoQuorum { .. }), "{error}");
        for node in quorum.iter() {
            assert!(error.to_string().contains(&node.url()), "{error}");
        }
    });
}

fn is_reported(fault: Fault) {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        take(&client, "before", LONG).await.release().await.expect("it is held");
        for node in &mut quorum[..2] {
            fault.inject(node);
        }
        let answer = client.lock("job").ttl(LONG).try_acquire().await;
        let reports = without_quorum(answer);
        assert_eq!(reports.len(), 3, "{reports:?}");
        for node in &quorum[..2] {
            let state = said(&reports, &node.url());
            assert!(fault.is_reported_as(state), "{fault:?} is reported as {state:?}");
        }
        let well = said(&reports, &quorum[2].url());
        // Two refusals are enough: the client may not wait for the third answer.
        let is_well = matches!(well, NodeState::Granted(_) | NodeState::NotAsked);
        assert!(is_well, "the healthy node: {well:?}");

        without_quorum(client.lock("job").ttl(LONG).acquire_within(ms(300)).await);
        until("nothing is left on the healthy node", || {
            let traces = quorum[2].traces();
            traces.leases == 0 && traces.waiters == 0
        })
        .await;
        for node in &mut quorum[..2] {
            fault.clear(node);
        }
        quorum.until_empty();
    });
}
