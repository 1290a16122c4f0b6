//! `dlock exporter`, while the servers of its nodes change.

use harness::exporter::Exporter;
use harness::watched::Watched;
use harness::{Kind, Server, apply, eventually, on_one_server};

/// The servers' names in the metrics; true for each that is up.
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

/// A lock with a waiter.
fn contended(server: &Server, key: &str) -> harness::Client {
    server.run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
    server.waiter(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"))
}

#[apply(on_one_server)]
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
}
