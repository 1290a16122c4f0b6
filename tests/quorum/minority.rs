//! A minority of the nodes fails: no client need notice.

use std::time::Duration;

use dlock_client::{Client, Guard};
use harness::quorum::Node;
use harness::{Kind, Quorum, Server, library};

use crate::coordinator::{
    LONG, assert_held, connect, ms, patient_program, program, run, take, until,
};
use crate::fault::Fault;

const TTL: Duration = ms(4_000);

#[test]
fn locks_are_taken_while_a_minority_is_dead() {
    work_goes_on_with(Fault::Dead, 3);
    work_goes_on_with(Fault::Dead, 5);
}

#[test]
fn locks_are_taken_while_a_minority_is_paused() {
    work_goes_on_with(Fault::Paused, 3);
}

#[test]
fn locks_are_taken_while_a_minority_is_black_holed() {
    work_goes_on_with(Fault::BlackHoled, 3);
}

#[test]
fn locks_are_taken_while_a_minority_is_slow() {
    work_goes_on_with(Fault::Slow, 3);
}

#[test]
fn locks_are_taken_while_a_minority_is_out_of_memory() {
    work_goes_on_with(Fault::OutOfMemory, 3);
}

#[test]
fn locks_are_taken_while_a_minority_is_in_quarantine() {
    work_goes_on_with(Fault::InQuarantine, 3);
}

#[test]
fn a_release_does_not_wait_for_a_node_that_refuses_it_while_another_is_dead() {
    let mut quorum = Quorum::start(4);
    let refuses = Server::build(Kind::Redis82).without_module().start();
    quorum[3].kill();
    run(async {
        let mut urls = quorum.direct_urls();
        urls.push(format!("redis://127.0.0.1:{}", refuses.port()));
        // A release that waited for the failed nodes would take a quarter of this.
        let client = library::connect(&urls, LONG).await;
        let other = library::connect(&urls, LONG).await;
        let turns = |client: Client| async move {
            for _ in 0..5 {
                let guard = client.lock("job").ttl(TTL).acquire().await.expect("it is served");
                tokio::time::sleep(ms(5)).await;
                guard.release().await.expect("it is held");
            }
        };
        tokio::join!(turns(client), turns(other));
    });
}

#[test]
fn a_guard_outlives_its_lease_while_nodes_are_silent_in_turn() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take(&client, "job", ms(6_000)).await;
        for (place, fault) in [Fault::Paused, Fault::BlackHoled, Fault::Slow].iter().enumerate() {
            fault.inject(&mut quorum[place]);
            tokio::time::sleep(ms(2_000)).await;
            assert!(guard.is_valid(), "{fault:?}");
            assert_eq!(others_that_hold(&quorum, place, &guard), 2, "{fault:?}");
            fault.clear(&mut quorum[place]);
            // A lease that still runs at that node is renewed there.
            until("the node's lease is renewed", || {
                let node = &quorum[place];
                !node.holders("job").is_empty() && node.holder("job")["ttl-ms"].int() > 4_000
            })
            .await;
        }
        assert!(guard.is_valid());
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_program_can_begin_while_a_minority_is_dead_and_uses_it_when_it_is_back() {
    let mut quorum = Quorum::start(3);
    quorum[0].kill();
    run(async {
        let client = connect(&quorum.urls()).await;
        take(&client, "job", TTL).await.release().await.expect("it is held");

        Fault::Dead.clear(&mut quorum[0]);
        let guard = take(&client, "job", TTL).await;
        let holder = guard.token().to_string();
        until("the node that came back holds it too", || {
            quorum[0].holders("job") == [holder.as_str()]
        })
        .await;
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn a_guard_outlives_nodes_that_are_restarted_one_after_another_with_their_data() {
    let mut quorum = Quorum::with(3, |builder| builder.config("save 3600 1"));
    run(async {
        let client = patient_program(&quorum.urls()).await;
        let guard = take(&client, "job", ms(15_000)).await;
        let holder = guard.token().to_string();
        let all = |quorum: &Quorum| quorum.iter().all(|n| n.holders("job") == [holder.as_str()]);
        until("all nodes have granted", || all(&quorum)).await;
        for place in 0..3 {
            quorum[place].restart();
            assert_eq!(quorum[place].holders("job"), [holder.as_str()], "it came back");
            // A renewal reaches it again.
            let extended = |quorum: &Quorum| quorum[place].info_number("dlock", "dlock_extensions");
            until("it is renewed there", || extended(&quorum) > 0).await;
            assert!(guard.is_valid(), "node {place}");
        }
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

/// The first nodes in the order fail: the gate is among them.
fn work_goes_on_with(fault: Fault, size: usize) {
    let mut quorum = Quorum::start(size);
    let failing = size - quorum.majority();
    run(async {
        let client = program(&quorum).await;
        take(&client, "before", TTL).await.release().await.expect("it is held");
        for node in &mut quorum[..failing] {
            fault.inject(node);
        }
        for key in ["first", "second"] {
            let guard = take(&client, key, TTL).await;
            assert!(guard.is_valid());
            assert_eq!(holding(&quorum[failing..], &guard), quorum.majority(), "{fault:?}");
            assert_held(client.lock(key).ttl(TTL).try_acquire().await);

            guard.extend(TTL).await.unwrap_or_else(|loss| panic!("{fault:?}: {loss}"));
            assert_eq!(holding(&quorum[failing..], &guard), quorum.majority(), "{fault:?}");

            guard.release().await.unwrap_or_else(|loss| panic!("{fault:?}: {loss}"));
            until("the healthy nodes are free", || {
                quorum[failing..].iter().all(|node| node.holders(key).is_empty())
            })
            .await;
        }
        for node in &mut quorum[..failing] {
            fault.clear(node);
        }
        quorum.until_empty();
    });
}

/// The number of these nodes where a guard's token holds its lock.
fn holding(nodes: &[Node], guard: &Guard) -> usize {
    let token = guard.token().to_string();
    nodes.iter().filter(|node| node.holders(guard.key()) == [token.as_str()]).count()
}

fn others_that_hold(quorum: &Quorum, place: usize, guard: &Guard) -> usize {
    holding(&quorum[..place], guard) + holding(&quorum[place + 1..], guard)
}
