//! The primary crashes before its replica has received a lock, and the clients follow the promotion by
//! themselves. With a plain client the second one has the lock while the first one's runs, and confirmation
//! by replicas (`WAIT`) does not cure that. With dlock's own client the second one waits until the first
//! one's lease is over, and gets a larger fence; the first one learns of its loss.

use std::time::{Duration, Instant};

use dlock_client::{Client, Guard};
use harness::watched::Watched;
use harness::{Builder, Cluster, Kind, Proxy, Server, Way, apply, eventually, on_one_server};

use crate::library::{NODE_TIMEOUT, connect, ms, run, wait_for};
use crate::recipe::set_nx;

/// Longer than a fail-over takes.
const TTL: Duration = ms(8_000);

/// Uses a lock before, so that the replicas have the lease bound.
async fn use_before(client: &Client, key: &str, servers: &[&Server]) {
    wait_for(client, key, TTL).await.release().await.expect("it is held");
    let bound = |server: &Server| server.node("lease-bound-ms").int();
    eventually("the replica knows how long leases are", || {
        servers.iter().all(|server| bound(server) >= TTL.as_millis() as i64)
    });
}

/// Asserts that no other client holds before the lost lease is over.
async fn assert_one_holds(client: &Client, alice: Guard, asked: Instant) {
    let key = alice.key().to_string();
    let bob = wait_for(client, &key, TTL).await;
    let held = asked.elapsed();
    assert!(held >= TTL, "bob holds {held:?} after alice has asked");
    assert!(!alice.is_valid(), "alice believes that she holds");
    let loss = alice.lost().await;
    assert!(["ended", "not_renewed", "paused"].contains(&loss.why.name()), "{loss}");
    assert!(bob.fence() > alice.fence(), "{} after {}", bob.fence(), alice.fence());
    bob.release().await.expect("it is held");
}

#[test]
fn clients_that_follow_a_sentinel_wait_for_a_lease_that_was_lost() {
    let (mut node, network) = Watched::start_over_a_network(Kind::Redis82);
    run(async {
        let client = connect(&[node.url()], NODE_TIMEOUT).await;
        use_before(&client, "leader", &[&node.servers[1]]).await;
        network.keep_back(Way::Down);
        let asked = Instant::now();
        let alice = wait_for(&client, "leader", TTL).await;
        eventually("it is on its way to the replica", || network.has_kept_back(Way::Down));
        node.servers[0].kill();
        network.refuse();
        assert_one_holds(&client, alice, asked).await;
        assert_eq!(node.promoted(0, &[0, 1, 2]), 1);
    });
}

#[test]
fn clients_that_follow_a_cluster_wait_for_a_lease_that_was_lost() {
    let mut cluster = Cluster::start(Kind::Valkey91);
    let replica = cluster.replica_of(0);
    run(async {
        let client = connect(&[cluster.url(&[0, 1, 2])], NODE_TIMEOUT).await;
        let key = cluster.key(0, "leader");
        use_before(&client, &key, &[&replica]).await;
        // The replica loses its link, and cannot log in again.
        replica.run("CONFIG SET masterauth wrong");
        replica.run("CONFIG SET masteruser nobody");
        cluster.nodes[0].run("CLIENT KILL TYPE replica");
        eventually("the replica is cut off", || {
            replica.info("replication")["master_link_status"] == "down"
        });
        let asked = Instant::now();
        let alice = wait_for(&client, &key, TTL).await;
        cluster.nodes[0].kill();
        assert_one_holds(&client, alice, asked).await;
        assert_eq!(replica.info("replication")["role"], "master");
    });
}

/// A primary, a replica beside it, and one behind a network.
struct Three {
    primary: Server,
    near: Server,
    far: Server,
    network: Proxy,
}

impl Three {
    fn start(build: impl Fn() -> Builder) -> Three {
        let primary = build().start();
        let network = Proxy::start(primary.port());
        let replica = |port: u16| build().config(&format!("replicaof 127.0.0.1 {port}")).start();
        let (near, far) = (replica(primary.port()), replica(network.port()));
        primary.until_streaming_to(&near);
        primary.until_streaming_to(&far);
        Three { primary, near, far, network }
    }

    /// One replica confirms alice's lock, and the other replica is promoted.
    fn promote_the_other(&mut self, alice: &mut harness::Client) {
        assert_eq!(alice.run("WAIT 1 0").int(), 1, "one replica has confirmed it");
        self.primary.kill();
        self.network.refuse();
        assert_eq!(self.far.run("REPLICAOF NO ONE").text(), "OK");
    }
}

/// Redisson and others ask `WAIT 1` after they have taken a lock, and hold it when one replica has confirmed
/// it. Another one may be promoted.
#[test]
fn a_lock_that_a_replica_has_confirmed_is_granted_again_when_another_one_is_promoted() {
    let mut three = Three::start(|| Server::build(Kind::Redis82).without_module());
    three.network.keep_back(Way::Down);
    let mut alice = three.primary.client();
    assert!(set_nx(&mut alice, "leader", "alice", 60_000));
    three.promote_the_other(&mut alice);
    let granted = set_nx(&mut three.far.client(), "leader", "bob", 60_000);
    assert!(granted, "bob has it, and so has alice");
}

#[apply(on_one_server)]
fn with_dlock_it_is_not_whichever_replica_is_promoted(kind: Kind) {
    let mut three = Three::start(|| Server::build(kind));
    let mut alice = three.primary.client();
    alice.run("DLOCK.ACQUIRE earlier alice 1500");
    let bound = |server: &Server| server.node("lease-bound-ms").int();
    eventually("the replicas know how long leases are", || {
        bound(&three.near) >= 1_500 && bound(&three.far) >= 1_500
    });
    three.network.keep_back(Way::Down);
    let asked = Instant::now();
    let fence = alice.run("DLOCK.ACQUIRE leader alice 1500").int();
    three.promote_the_other(&mut alice);
    let mut bob = three.far.client();
    assert!(bob.run("DLOCK.INSPECT leader").is_null(), "it has not heard of alice");
    assert!(bob.run("DLOCK.ACQUIRE leader bob 1500 WAIT 0").int() > fence);
    assert!(asked.elapsed() >= ms(1_500), "bob holds {:?} after alice has asked", asked.elapsed());
}
