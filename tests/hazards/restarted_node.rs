//! Redlock, and one of three nodes comes back empty.
//!
//! The recipe: alice has the lock on the nodes 1 and 2 (her request to 3 got lost). Node 2 keeps nothing on
//! disk, crashes and starts again; bob gets the lock on 2 and 3. Both hold. With dlock node 2 keeps a state
//! file: it has not the lock, but the length of the quarantine. Node 2 grants nothing until every lease that
//! it may have forgotten has ended, and bob gets no majority until alice's guard is over. If the state file
//! is lost as well, node 2 waits for a minute, or for `dlock.newborn-quarantine`. Alice does not reach node 2
//! any more, or she would learn at once that it has forgotten her lease.

use std::fs;
use std::time::Duration;

use dlock_client::{Client, Guard, NodeState};
use harness::quarantine::{CRASHED, NO_FILE};
use harness::{Proxy, Quorum};
use tokio::time::sleep;

use crate::library::{LONG, NODE_TIMEOUT, assert_held, connect, ms, program, run, states, take};
use crate::redlock::Redlock;

/// A lease that ends in the test, long after a node has started again.
const TTL: Duration = ms(12_000);

#[test]
fn a_redlock_is_held_twice_when_a_node_restarts_empty() {
    let mut quorum = Quorum::with(3, |server| server.without_module());
    quorum[2].network().refuse();
    let mut alice = Redlock::through_networks(&quorum, NODE_TIMEOUT);
    let alices = alice.lock("job", LONG).expect("two of three are enough");
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    assert!(bob.lock("job", LONG).is_none(), "two of three have it");

    quorum[1].kill();
    quorum[1].start_again();
    let mut bob = Redlock::direct(&quorum, NODE_TIMEOUT);
    let bobs = bob.lock("job", LONG).expect("two of three are enough");
    assert!(alices.is_believed() && bobs.is_believed(), "both are in the critical section");
    assert_eq!(quorum[0].run("GET job").text(), alices.value);
    assert_eq!(quorum[1].run("GET job").text(), bobs.value);
    assert_eq!(quorum[2].run("GET job").text(), bobs.value);
}

#[test]
fn a_guard_is_not_held_twice_when_a_node_restarts_empty() {
    let mut quorum = Quorum::start(3);
    run(async {
        let people = People::meet(&quorum, TTL).await;
        let promised = quorum[1].node("fence-reserved").int();
        quorum[1].network().refuse();
        quorum[1].kill();
        quorum[1].start_again();
        assert!(quorum[1].holders("job").is_empty(), "it has forgotten");
        quorum[1].assert_in_quarantine(CRASHED);
        people.assert_bob_comes_after(&quorum).await;
        quorum[1].until_it_grants();
        let fence = quorum[1].next_fence();
        assert!(fence > promised, "{fence}, after {promised} in the file");
    });
}

// --- the state file is lost as well ------------------------------------------------------------

/// The limit: no node has stored alice's lease, and the operator declares that there was none.
#[test]
fn a_guard_is_held_twice_when_a_node_that_lost_its_disk_is_said_to_be_new() {
    let mut quorum = Quorum::start(3);
    run(async {
        let people = People::meet(&quorum, LONG).await;
        lose_everything(&mut quorum, "dlock.newborn-quarantine 0");
        quorum[1].assert_grants();
        let bobs = take(&people.bob, "job", TTL).await;
        assert!(people.alices.is_valid() && bobs.is_valid(), "both are in the critical section");
    });
}

#[test]
fn a_guard_is_not_held_twice_when_a_node_has_lost_its_disk() {
    let mut quorum = Quorum::start(3);
    run(async {
        let people = People::meet(&quorum, TTL).await;
        lose_everything(&mut quorum, &format!("dlock.newborn-quarantine {}", TTL.as_millis()));
        quorum[1].assert_in_quarantine(NO_FILE);
        people.assert_bob_comes_after(&quorum).await;
    });
}

/// Node 2 crashes, and starts on an empty disk with this setting.
fn lose_everything(quorum: &mut Quorum, setting: &str) {
    quorum[1].network().refuse();
    quorum[1].kill();
    fs::remove_file(quorum[1].state_file()).expect("it was there");
    quorum[1].add_config(setting);
    quorum[1].start_again();
    assert!(quorum[1].holders("job").is_empty(), "it has forgotten");
}

/// Alice has the lock on the nodes 1 and 2, and does not reach 3. Bob wants it, and reaches all but node 1,
/// which would name the holder at once.
struct People {
    alices: Guard,
    bob: Client,
    _network: Proxy,
}

impl People {
    async fn meet(quorum: &Quorum, ttl: Duration) -> People {
        let network = Proxy::start(quorum[0].port());
        let mut urls = quorum.direct_urls();
        urls[0] = format!("redis://127.0.0.1:{}", network.port());
        let (alice, bob) = (program(quorum).await, connect(&urls, NODE_TIMEOUT).await);
        quorum[2].network().refuse();
        let alices = take(&alice, "job", ttl).await;
        assert_eq!(quorum.held_by("job", alices.token().as_str()), 2);
        network.refuse();
        assert_held(bob.lock("job").ttl(TTL).try_acquire().await);
        People { alices, bob, _network: network }
    }

    /// Asserts that bob asks again and again and has the lock when alice has it no more. Node 3 grants it at
    /// any time: only node 2 can keep bob out.
    async fn assert_bob_comes_after(&self, quorum: &Quorum) {
        let attempt = async || self.bob.lock("job").ttl(TTL).try_acquire().await;
        let said = states(attempt().await);
        let waits = |state: &NodeState| matches!(state, NodeState::Quarantine(_));
        assert!(said.iter().any(waits), "{said:?}");
        let bobs = loop {
            match attempt().await {
                Ok(guard) => break guard,
                refused => drop(states(refused)),
            }
            sleep(ms(10)).await;
        };
        assert!(!self.alices.is_valid());
        assert!(quorum.held_by("job", self.alices.token().as_str()) < quorum.majority());
        assert!(bobs.fence() > self.alices.fence());
        bobs.release().await.expect("it is held");
    }
}
