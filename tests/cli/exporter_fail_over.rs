//! `dlock exporter`, with nodes of which the servers change while it looks.

use harness::exporter::Exporter;
use harness::watched::Watched;
use harness::{Cluster, Kind, Server, apply, eventually};

use crate::on_two_servers;

/// The names of the servers that are shown, and whether each answers.
#[track_caller]
fn shown(exporter: &Exporter) -> Vec<(String, bool)> {
    let lines = exporter.metrics();
    let up = lines.iter().filter_map(|line| line.strip_prefix("dlock_up{node=\""));
    let mut shown: Vec<(String, bool)> = up
        .filter_map(|rest| rest.split_once("\"} "))
        .map(|(name, value)| (name.to_owned(), value == "1.0"))
        .collect();
    shown.sort();
    shown
}

/// A lock that somebody waits for.
fn contended(server: &Server, key: &str) -> harness::Client {
    server.run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
    server.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"))
}

#[apply(on_two_servers)]
fn a_promoted_replica_takes_the_place_of_its_primary_and_its_quarantine_is_told(kind: Kind) {
    let mut node = Watched::start(kind, 1);
    let exporter = Exporter::start(&[node.url()], &[]);
    let name = |server: &Server| format!("127.0.0.1:{} (watched)", server.port());
    let (old, new) = (name(&node.servers[0]), name(&node.servers[1]));
    let _bob = contended(&node.servers[0], "job");
    let waiting = |name: &str| format!("dlock_hot_waiting{{node=\"{name}\",db=\"0\",key=\"job\"}}");
    eventually("who waits is told", || exporter.metric(&waiting(&old)) == Some(1.0));
    assert_eq!(shown(&exporter), [(old.clone(), true)]);
    let granting = |name: &str, state: &str| {
        let begin = format!("dlock_granting{{node=\"{name}\",state=\"{state}\"}}");
        exporter.metric(&begin) == Some(1.0)
    };
    assert!(granting(&old, "yes"));

    node.until_followed(0);
    node.servers[0].kill();
    eventually("the primary is told to be away", || {
        shown(&exporter).iter().all(|(_, is_up)| !is_up)
    });
    assert_eq!(node.promoted(0, &[0, 1, 2]), 1);
    eventually("the new primary is shown", || shown(&exporter) == [(new.clone(), true)]);
    assert!(granting(&new, "quarantine"));
    let left = format!("dlock_quarantine_seconds{{node=\"{new}\"}}");
    assert!(exporter.metric(&left).is_some_and(|left| left > 0.0));
    let page = exporter.state();
    assert_eq!(
        (&page["nodes"][0]["node"], page["nodes"].as_array().map(Vec::len)),
        (&new.into(), Some(1))
    );
    assert_eq!(page["nodes"][0]["granting"], "quarantine");
    assert!(page["nodes"][0]["leases"] == 1, "the lease was replicated: {page}");
}

#[test]
fn each_primary_of_a_cluster_tells_of_its_hot_keys_also_after_a_fail_over() {
    let mut cluster = Cluster::start_with_replicas(Kind::Redis82);
    let exporter = Exporter::start(&[cluster.url(&[1, 2])], &[]);
    let name = |server: &Server| format!("127.0.0.1:{}", server.port());
    let up = |cluster: &Cluster, places: [usize; 3]| {
        let mut all = places.map(|place| (name(&cluster.nodes[place]), true)).to_vec();
        all.sort();
        all
    };
    let waiting = |cluster: &Cluster, place: usize, key: &str| {
        let node = name(&cluster.nodes[place]);
        exporter.metric(&format!("dlock_hot_waiting{{node=\"{node}\",db=\"0\",key=\"{key}\"}}"))
    };
    let keys: Vec<String> = (0..3).map(|place| cluster.key(place, "job")).collect();
    let _waiters: Vec<_> =
        (0..3).map(|place| contended(&cluster.nodes[place], &keys[place])).collect();
    for (place, key) in keys.iter().enumerate() {
        eventually("who waits is told", || waiting(&cluster, place, key) == Some(1.0));
    }
    assert_eq!(shown(&exporter), up(&cluster, [0, 1, 2]));
    let page = exporter.state();
    let hot = page["hot"].as_array().expect("a list");
    assert!(keys.iter().all(|key| hot.iter().any(|hot| hot["key"] == **key)), "{page}");

    cluster.nodes[0].kill();
    eventually("the replica takes over", || cluster.nodes[3].node("role").text() == "primary");
    eventually("it is shown in the place of the other", || {
        shown(&exporter) == up(&cluster, [1, 2, 3])
    });
    // The new primary counts for itself; the others go on, though a cluster that is down sends waiters away.
    assert_eq!(waiting(&cluster, 3, &keys[0]), None);
    assert!(waiting(&cluster, 1, &keys[1]).is_some());
    let _next = cluster.nodes[3].waiter(&format!("DLOCK.ACQUIRE {} carol 60000 WAIT 0", keys[0]));
    eventually("who waits there is told", || waiting(&cluster, 3, &keys[0]) == Some(1.0));
}
