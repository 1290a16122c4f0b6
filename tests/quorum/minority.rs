//! A minority of the nodes fails: no client need notice.

use dlock_client::{Client, Guard};
use harness::quorum::Node;
use harness::{Kind, Quorum, Server, library};

use crate::coordinator::{LONG, assert_held, ms, program, run, take, take_everywhere, until};
use crate::fault::Fault;

#[test]
fn locks_are_taken_while_a_minority_is_dead() {
    work_goes_on_with(&[Fault::Dead], 5);
}

#[test]
fn locks_are_taken_while_a_minority_is_silent() {
    work_goes_on_with(&[Fault::Paused, Fault::BlackHoled, Fault::Slow], 3);
}

#[test]
fn locks_are_taken_while_a_minority_refuses() {
    work_goes_on_with(&[Fault::OutOfMemory, Fault::InQuarantine], 3);
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
                let guard = client.lock("job").ttl(LONG).acquire().await.expect("it is served");
                tokio::time::sleep(ms(5)).await;
                guard.release().await.expect("it is held");
            }
        };
        tokio::join!(turns(client), turns(other));
    });
}

#[test]
fn a_guard_is_extended_while_nodes_are_silent_in_turn() {
    let mut quorum = Quorum::start(3);
    run(async {
        let client = program(&quorum).await;
        let guard = take_everywhere(&quorum, &client, "job", ms(60_000)).await;
        let silences = [Fault::Paused, Fault::BlackHoled, Fault::Slow];
        for (place, fault) in silences.into_iter().enumerate() {
            let length = ms(150_000) * (place as u32 + 1);
            fault.inject(&mut quorum[place]);
            guard.extend(length).await.unwrap_or_else(|loss| panic!("{fault:?}: {loss}"));
            let others = quorum[..place].iter().chain(&quorum[place + 1..]);
            // More than before, however long the test takes.
            let least = (length - ms(100_000)).as_millis() as i64;
            let is_extended = |node: &Node| node.holder("job")["ttl-ms"].int() > least;
            assert!(others.into_iter().all(is_extended), "{fault:?}");
            fault.clear(&mut quorum[place]);
            until("the node's lease is extended, too", || is_extended(&quorum[place])).await;
        }
        guard.release().await.expect("it is held");
        quorum.until_empty();
    });
}

#[test]
fn a_program_can_begin_while_a_minority_is_dead_and_uses_it_when_it_is_back() {
    let mut quorum = Quorum::start(3);
    quorum[0].kill();
    run(async {
        let client = program(&quorum).await;
        take(&client, "job", LONG).await.release().await.expect("it is held");

        Fault::Dead.clear(&mut quorum[0]);
        let guard = take_everywhere(&quorum, &client, "job", LONG).await;
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

/// The first nodes in the order fail: the gate is among them.
fn work_goes_on_with(faults: &[Fault], size: usize) {
    let mut quorum = Quorum::start(size);
    let failing = size - quorum.majority();
    run(async {
        let client = program(&quorum).await;
        take(&client, "before", LONG).await.release().await.expect("it is held");
        for fault in faults {
            for node in &mut quorum[..failing] {
                fault.inject(node);
            }
            let guard = take(&client, "job", LONG).await;
            assert_eq!(holding(&quorum[failing..], &guard), quorum.majority(), "{fault:?}");
            assert_held(client.lock("job").ttl(LONG).try_acquire().await);
            guard.extend(LONG).await.unwrap_or_else(|loss| panic!("{fault:?}: {loss}"));
            guard.release().await.unwrap_or_else(|loss| panic!("{fault:?}: {loss}"));
            until("the healthy nodes are free", || {
                quorum[failing..].iter().all(|node| node.holders("job").is_empty())
            })
            .await;
            for node in &mut quorum[..failing] {
                fault.clear(node);
            }
            quorum.until_empty();
        }
    });
}

/// The number of these nodes where a guard's token holds its lock.
fn holding(nodes: &[Node], guard: &Guard) -> usize {
    nodes.iter().filter(|node| node.holders(guard.key()) == [guard.token().as_str()]).count()
}
