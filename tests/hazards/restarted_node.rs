//! Redlock, and one of three nodes comes back empty.
//!
//! The recipe: alice has the lock on the nodes 1 and 2 (her request to 3 got lost); node 2 keeps
//! nothing on disk, crashes and starts again; bob gets the lock on 2 and 3. Both hold. With dlock
//! node 2 grants nothing until every lease that it may have forgotten has ended, so bob waits until
//! alice's guard is over.

use std::time::{Duration, Instant};

use harness::quarantine::CRASHED;
use harness::{Kind, Quorum, Server};

use crate::library::{healthy_program, ms, program, run, take, wait_for};
use crate::redlock::Redlock;

const TTL: Duration = ms(3_000);
const NODE_TIMEOUT: Duration = ms(1_000);

#[test]
fn a_redlock_is_held_twice_when_a_node_restarts_empty() {
    let mut quorum = three(|server| server.without_module());
    quorum[2].network().refuse();
    let mut alice = Redlock::through_networks(&quorum, NODE_TIMEOUT);
    let alices = alice.lock("job", ms(60_000)).expect("two of three are enough");
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    assert!(bob.lock("job", ms(60_000)).is_none(), "two of three have it");

    quorum[1].kill();
    quorum[1].start_again();
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    let bobs = bob.lock("job", ms(60_000)).expect("two of three are enough");
    assert!(alices.is_believed() && bobs.is_believed(), "both are in the critical section");
    assert_eq!(quorum[0].run("GET job").text(), alices.value);
    assert_eq!(quorum[1].run("GET job").text(), bobs.value);
    assert_eq!(quorum[2].run("GET job").text(), bobs.value);
}

#[test]
fn a_guard_is_not_held_twice_when_a_node_restarts_empty() {
    let mut quorum = three(|server| server);
    run(async {
        let (alice, bob) = (program(&quorum).await, healthy_program(&quorum).await);
        quorum[2].network().refuse();
        let alices = take(&alice, "job", TTL).await;
        assert!(bob.lock("job").try_acquire().await.is_err());
        assert_eq!(quorum.held_by("job", alices.token().as_str()), 2);

        quorum[1].kill();
        quorum[1].start_again();
        assert!(quorum[1].holders("job").is_empty(), "it has forgotten");
        quorum[1].assert_in_quarantine(CRASHED);
        assert!(bob.lock("job").ttl(TTL).try_acquire().await.is_err());
        assert!(alices.is_valid());

        let bobs = tokio::spawn(async move {
            let guard = wait_for(&bob, "job", TTL).await;
            (guard, Instant::now())
        });
        let loss = alices.lost().await;
        let lost = Instant::now();
        let (bobs, had) = bobs.await.expect("no panic");
        assert!(lost < had, "both had it for {:?}", lost - had);
        assert!(bobs.fence() > loss.fence);
        bobs.release().await.expect("it is held");
    });
}

/// Of one kind, for the test is about the nodes' memory.
fn three(describe: impl Fn(harness::Builder) -> harness::Builder) -> Quorum {
    let kinds = [Kind::Redis82, Kind::Valkey91, Kind::Redis82];
    Quorum::of(kinds.map(|kind| describe(Server::build(kind))).into())
}
