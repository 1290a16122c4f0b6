//! Promotions by FAILOVER, a Sentinel, or a cluster. In each of them no two clients hold a lock at once, as
//! long as the old primary is fenced off.

use std::time::{Duration, Instant};

use harness::quarantine::{PROMOTED, assert_bound};
use harness::{Cluster, Kind, Sentinel, Server, apply, eventually, on_every_server};

use super::promotion::{cut, grant_and_release, until_told};

/// Waits for a role on new connections, for a promotion may close open ones.
fn until_role(server: &Server, role: &str) {
    eventually("the role changes", || has_role(server, role));
}

fn has_role(server: &Server, role: &str) -> bool {
    let mut client = server.client();
    let asked = client.try_send_raw(b"DLOCK.NODE\r\n").and_then(|()| client.try_recv());
    asked.is_ok_and(|node| node.at("role").text() == role)
}

/// Asserts on a new connection that a node has just been promoted and grants nothing.
#[track_caller]
fn assert_promoted(server: &Server) {
    let node = server.client().run("DLOCK.NODE");
    assert_eq!(node.at("quarantine-reason").text(), PROMOTED, "{node:?}");
    assert_eq!(node.at("granting").text(), "quarantine", "{node:?}");
}

#[apply(on_every_server)]
fn a_failover_on_command_waits_at_the_new_primary_and_grants_nothing_at_the_old(kind: Kind) {
    let (one, other) = Server::pair(kind);
    let mut lost = 0;
    for (old, new) in [(&one, &other), (&other, &one)] {
        let sent = Instant::now();
        let fence = old.run("DLOCK.ACQUIRE lost alice 900").int();
        assert!(fence > lost, "{fence} after {lost}");
        lost = fence;
        old.run("DLOCK.RELEASE lost alice");
        old.run("DLOCK.ACQUIRE lost alice 60000");
        old.run("DLOCK.RELEASE lost alice");
        let known = old.run("DLOCK.ACQUIRE known alice 900").int();
        until_told(old, new);
        assert_eq!(old.run("FAILOVER").text(), "OK");
        until_role(new, "primary");
        assert_bound(new.assert_in_quarantine(PROMOTED), 60_000, sent);
        until_role(old, "replica");
        assert_eq!(old.node("granting").text(), "replica");
        assert_eq!(old.run("DLOCK.ACQUIRE lost bob 1000").code(), "READONLY");
        let mut bob = new.waiter("DLOCK.ACQUIRE known bob 60000 WAIT 0");
        eventually("a known lease ends", || new.run("EXISTS known").int() == 0);
        assert!(sent.elapsed() >= Duration::from_millis(900));
        assert!(!bob.has_answer());
        new.leave_quarantine();
        new.run("CONFIG SET dlock.quarantine auto");
        let last = bob.recv().int();
        assert!(last > known, "{last} after {known}");
        new.run("DLOCK.RELEASE known bob");
    }
    assert_eq!(one.node("leases").int(), 0);
}

/// The primary is suspended after a grant that reached no replica.
#[apply(on_every_server)]
fn a_sentinel_promotes_and_the_lost_lease_is_waited_for(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    grant_and_release(&primary, 60_000);
    until_told(&primary, &replica);
    let sentinel = Sentinel::start(&primary, 1);
    assert_eq!(sentinel.primary(), primary.port());
    replica.pause();
    let sent = Instant::now();
    let fence = primary.run("DLOCK.ACQUIRE lost alice 60000").int();
    primary.pause();
    replica.resume();
    until_role(&replica, "primary");
    assert_waits_for_what_was_lost(&replica, "lost", sent, fence);
    eventually("Sentinel says so", || sentinel.primary() == replica.port());
}

/// Asserts that a promoted node waits for a lease of a minute that began no earlier than `sent`.
#[track_caller]
fn assert_waits_for_what_was_lost(node: &Server, key: &str, sent: Instant, fence: i64) {
    assert_promoted(node);
    node.drop_own_client();
    assert_bound(node.node("quarantine-ms").int(), 60_000, sent);
    node.run("CONFIG SET dlock.quarantine off");
    // The grant may have been on its way to the replica.
    node.run(&format!("DLOCK.RELEASE {key} alice"));
    assert!(node.run(&format!("DLOCK.ACQUIRE {key} bob 60000")).int() > fence);
}

#[apply(on_every_server)]
fn a_cluster_promotes_a_replica_that_waits_for_what_was_lost(kind: Kind) {
    let cluster = Cluster::start(kind);
    let _new_primary = a_failover_in_order(&cluster);
    a_takeover(&cluster);
}

/// The primary is suspended, and a replica takes its place without its consent.
fn a_takeover(cluster: &Cluster) {
    let key = &cluster.key(0, "lost");
    let primary = &cluster.nodes[0];
    let replica = cluster.replica_of(0);
    primary.run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
    let earlier = primary.run(&format!("DLOCK.RELEASE {key} alice"));
    assert_eq!(earlier.int(), 1);
    until_told(primary, &replica);
    cut(primary, &replica);
    let sent = Instant::now();
    let fence = primary.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    primary.pause();
    replica.resume();
    assert_eq!(replica.run("CLUSTER FAILOVER TAKEOVER").text(), "OK");
    until_role(&replica, "primary");
    assert_waits_for_what_was_lost(&replica, key, sent, fence);
}

/// Both sides agree on the moment when the replica takes over.
fn a_failover_in_order(cluster: &Cluster) -> Server {
    let primary = &cluster.nodes[1];
    let replica = cluster.replica_of(1);
    let key = cluster.key(1, "known");
    let fence = primary.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
    until_told(primary, &replica);
    let since = Instant::now();
    let (mut asked, mut begun) = (since, false);
    // In a young cluster nodes still exchange their connections. A replica without one to its primary at this
    // moment refuses, or its request does not arrive there. Then it gives the failover up after five seconds.
    eventually("the replica takes over", || {
        if !begun || asked.elapsed() > Duration::from_secs(6) {
            (asked, begun) = (Instant::now(), replica.run("CLUSTER FAILOVER").text() == "OK");
        }
        has_role(&replica, "primary")
    });
    assert_promoted(&replica);
    assert_bound(replica.node("quarantine-ms").int(), 60_000, since);
    assert_eq!(replica.holder(&key)["fence"].int(), fence);
    let refused = replica.run(&format!("DLOCK.ACQUIRE {key} bob 1000"));
    assert_eq!(refused.code(), "QUARANTINE");
    until_role(primary, "replica");
    assert_eq!(primary.node("granting").text(), "replica");
    assert_eq!(replica.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1);
    replica
}
