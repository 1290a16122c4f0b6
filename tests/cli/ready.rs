//! `dlock ready`: between two restarts, and as a probe.

use harness::{Cluster, Kind, Quorum, Server, eventually};

use crate::running::{Running, dlock};
use crate::{address, dlock_at};

#[test]
fn nodes_that_grant_are_ready_and_those_that_do_not_are_named() {
    let mut quorum = Quorum::start(3);
    assert_eq!(dlock(&quorum, &["ready"]).with_code(0).err, "");
    quorum[1].kill();
    let url = quorum[1].url();
    let away = url.strip_prefix("redis://").unwrap().to_owned();
    let said = dlock(&quorum, &["ready"]).with_code(69);
    assert!(said.err.contains(&away) && said.err.lines().count() == 1, "{}", said.err);
    dlock(&quorum, &["ready", "--wait", "300ms"]).with_code(69);
    dlock(&quorum, &["ready", "--majority"]).with_code(0);
    let said = dlock(&quorum, &["ready", "--json"]).with_code(69);
    let ready: Vec<serde_json::Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ready: Vec<bool> = ready.iter().map(|node| node["ready"].as_bool().unwrap()).collect();
    assert_eq!(ready, [true, false, true]);
}

#[test]
fn a_server_that_takes_no_writes_is_not_ready() {
    let quorum = Quorum::start(1);
    for (refuses, usual, code) in [
        ("maxmemory 1", "maxmemory 0", "OOM"),
        ("min-replicas-to-write 1", "min-replicas-to-write 0", "NOREPLICAS"),
    ] {
        quorum[0].run(&format!("CONFIG SET {refuses}"));
        let said = dlock(&quorum, &["ready"]).with_code(69);
        assert!(said.err.contains(code), "{}", said.err);
        quorum[0].run(&format!("CONFIG SET {usual}"));
        dlock(&quorum, &["ready"]).with_code(0);
    }
}

/// One server has one vote, whatever its names.
#[test]
fn a_node_that_is_named_twice_is_not_two() {
    let quorum = Quorum::start(1);
    let twice = [quorum.urls(), quorum.direct_urls(), vec!["127.0.0.1:1".to_owned()]].concat();
    let said = dlock_at(&twice, &["ready", "--majority"]).with_code(64);
    assert!(said.err.contains("are the same node"), "{}", said.err);
    let once = quorum.urls().remove(0);
    dlock_at(&[once.clone(), once], &["ready", "--majority"]).with_code(64);
}

/// One node after the other loses everything. A waiter gets a node that has forgotten the holder, and
/// releases it: the guard stays held. No quarantine is ended early: the next crash could then come before the other
/// nodes have confirmed the lock after the holder got a node back, and the lock would be lost.
#[test]
fn a_waiter_does_not_keep_the_nodes_that_have_forgotten_the_holder() {
    let mut quorum = Quorum::start(3);
    let job = ["--ttl", "12s", "job", "--", "sleep", "1000"];
    let holder = Running::start(&quorum, &job);
    eventually("all have granted it", || quorum.held("job") == 3);
    let holders = quorum[0].holders("job");
    let waiting = [(); 2].map(|()| Running::start(&quorum, &job));
    let wait = || quorum.iter().map(|node| node.node("waiters").int()).max();
    eventually("the others wait", || wait() >= Some(2));
    for node in 0..3 {
        quorum[node].kill();
        quorum[node].start_again();
        let said = dlock(&quorum, &["ready"]);
        assert!(said.code == Some(0) || said.err.contains("quarantine"), "{}", said.err);
        dlock(&quorum, &["ready", "--wait", "60"]).with_code(0);
        assert_eq!(quorum[node].run("DLOCK.NODE").at("granting").text(), "yes");
        eventually("it is renewed there, too", || {
            assert_eq!(holder.err(), "", "the lock is lost");
            quorum[node].holders("job") == holders
        });
    }
    drop((holder, waiting));
}

#[test]
fn a_cluster_is_one_node_and_needs_all_its_primaries() {
    let mut cluster = Cluster::start(Kind::Redis82);
    let nodes = [cluster.url(&[0, 1]), "redis://127.0.0.1:1".to_owned()];
    dlock_at(&nodes[..1], &["ready"]).with_code(0);
    dlock_at(&nodes, &["ready", "--majority"]).with_code(69);
    cluster.nodes[2].kill();
    dlock_at(&nodes[..1], &["ready", "--majority"]).with_code(69);
    let empty = Server::build(Kind::Redis82).cluster().start();
    let said =
        dlock_at(&[format!("redis+cluster://{}", address(&empty))], &["ready"]).with_code(69);
    assert!(said.err.contains("no server of the cluster has slots"), "{}", said.err);
}

#[test]
fn a_server_without_the_module_is_not_ready_and_that_does_not_pass() {
    let mut server = Server::start(Kind::Redis82);
    server.leave_module_out();
    server.restart();
    let said = dlock_at(&[address(&server)], &["ready"]).with_code(78);
    assert!(said.err.contains("module is not loaded"), "{}", said.err);
}
