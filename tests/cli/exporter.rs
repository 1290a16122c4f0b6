//! `dlock exporter`: metrics.

use harness::exporter::Exporter;
use harness::watched::Watched;
use harness::{Client, Kind, Server, apply, eventually, on_one_server};

use crate::{addresses, dlock, on_two_servers, servers};

/// The exporter of these servers.
#[track_caller]
fn start(servers: &[Server], arguments: &[&str]) -> Exporter {
    Exporter::start(&addresses(servers), arguments)
}

/// A lock with a waiter.
fn contended(server: &Server) -> Client {
    server.run("DLOCK.ACQUIRE job:42 alice 600000 META host=web1");
    server.waiter("DLOCK.ACQUIRE job:42 bob 600000 WAIT 0")
}

#[apply(on_two_servers)]
fn what_a_node_counts_is_a_metric(kind: Kind) {
    let servers = servers(kind, 1);
    let exporter = start(&servers, &[]);
    let mut bob = contended(&servers[0]);
    eventually("bob is seen", || exporter.metric("dlock_waiters{") == Some(1.0));
    servers[0].run("DLOCK.RELEASE job:42 alice");
    bob.recv();
    servers[0].run("DLOCK.RELEASE job:42 bob DONE 600000");
    servers[0]
        .run("DLOCK.ACQUIRE far alice 600000 FENCE 9007199254740991")
        .assert_error("TOOFAR", "");
    eventually("the record is seen", || exporter.metric("dlock_done_locks{") == Some(1.0));
    let answer = exporter.get("/metrics");
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    let node = &addresses(&servers)[0];
    for line in [
        format!("dlock_up{{node=\"{node}\"}} 1.0"),
        format!("dlock_granting{{node=\"{node}\",state=\"yes\"}} 1"),
        format!("dlock_granting{{node=\"{node}\",state=\"quarantine\"}} 0"),
        format!("dlock_durable{{node=\"{node}\"}} 1.0"),
        format!("dlock_grants_total{{node=\"{node}\"}} 2"),
        format!("dlock_wait_seconds_bucket{{le=\"+Inf\",node=\"{node}\"}} 1"),
        format!("dlock_wait_seconds_count{{node=\"{node}\"}} 1"),
        format!("dlock_hold_seconds_bucket{{le=\"86400.0\",node=\"{node}\"}} 2"),
        format!("dlock_handovers_total{{node=\"{node}\"}} 1"),
        format!("dlock_dones_total{{node=\"{node}\"}} 1"),
        format!("dlock_refused_total{{node=\"{node}\",code=\"TOOFAR\"}} 1"),
        format!("dlock_refused_total{{node=\"{node}\",code=\"TOOMANY\"}} 0"),
        "# TYPE dlock_wait_seconds histogram".to_owned(),
        "# TYPE dlock_grants_total counter".to_owned(),
        "# TYPE dlock_node_info gauge".to_owned(),
    ] {
        assert!(answer.body.lines().any(|other| other == line), "{line}\n{}", answer.body);
    }
}

#[apply(on_one_server)]
fn a_node_that_is_away_is_a_metric_and_no_failure(kind: Kind) {
    let mut servers = servers(kind, 3);
    let away = addresses(&servers)[1].clone();
    servers[1].stop();
    let exporter = start(&servers, &[]);
    let lines = exporter.metrics();
    let up = lines.iter().filter(|line| line.starts_with("dlock_up{"));
    assert_eq!(up.clone().count(), 3);
    assert_eq!(up.filter(|line| line.ends_with(" 1.0")).count(), 2);
    assert!(lines.contains(&format!("dlock_up{{node=\"{away}\"}} 0.0")));
    servers[1].start_again();
    let up = || exporter.metric(&format!("dlock_up{{node=\"{away}\"}}"));
    eventually("it is back", || up() == Some(1.0));
}

/// Only the most contended keys have series with their names.
#[apply(on_one_server)]
fn only_hot_keys_have_series_of_their_own_and_they_can_be_switched_off(kind: Kind) {
    let servers = servers(kind, 1);
    let mut client = servers[0].client();
    client.pipeline((0..50).map(|n| format!("DLOCK.ACQUIRE quiet:{n} alice 600000")));
    client.pipeline((0..50).map(|n| format!("DLOCK.ACQUIRE quiet:{n} bob 600000")));
    let _bob = contended(&servers[0]);
    let few = start(&servers, &["--hot", "3"]);
    let node = &addresses(&servers)[0];
    let waiting = format!("dlock_hot_waiting{{node=\"{node}\",db=\"0\",key=\"job:42\"}}");
    eventually("it is seen", || few.metric(&waiting) == Some(1.0));
    let series = |exporter: &Exporter| {
        exporter.metrics().iter().filter(|line| line.starts_with("dlock_hot_waiting{")).count()
    };
    assert_eq!(series(&few), 3);
    let none = start(&servers, &["--hot", "0"]);
    assert_eq!(series(&none), 0);
}

#[apply(on_one_server)]
fn the_oldest_holder_counts_whatever_its_token(kind: Kind) {
    let servers = servers(kind, 1);
    let held = || servers[0].run("DLOCK.INSPECT job").at("holders").items()[0].at("held-ms").int();
    servers[0].run("DLOCK.ACQUIRE job b 600000 LIMIT 2");
    eventually("it is two seconds older than the next", || held() > 2_000);
    servers[0].run("DLOCK.ACQUIRE job a 600000 LIMIT 2");
    let _waits = servers[0].waiter("DLOCK.ACQUIRE job c 600000 LIMIT 2 WAIT 0");
    let exporter = start(&servers, &[]);
    eventually("it is seen", || exporter.metric("dlock_hot_held_seconds{").is_some());
    let oldest = exporter.metric("dlock_hot_held_seconds{").expect("it is seen");
    assert!(oldest > 2.0, "{oldest}");
}

/// The node keeps the beginnings of long names.
#[apply(on_one_server)]
fn no_series_is_there_twice(kind: Kind) {
    let servers = servers(kind, 1);
    let mut client = servers[0].client();
    for end in ["a", "b"] {
        let key = "k".repeat(1000) + end;
        client.pipeline(["alice", "bob"].map(|t| format!("DLOCK.ACQUIRE {key} {t} 600000")));
    }
    assert_eq!(servers[0].run("DLOCK.HOT 9").items().len(), 2);
    let lines = start(&servers, &[]).metrics();
    let hot = lines.iter().filter(|line| line.starts_with("dlock_hot_denials{"));
    assert_eq!(hot.count(), 1, "{lines:?}");
}

#[apply(on_one_server)]
fn many_viewers_cost_a_node_no_more_than_one(kind: Kind) {
    let servers = servers(kind, 1);
    let exporter = start(&servers, &[]);
    exporter.metrics();
    let calls = || {
        let line = servers[0].info("commandstats").get("cmdstat_dlock.hot").cloned();
        let line = line.unwrap_or_default();
        let calls = line.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
        calls.and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0)
    };
    let (before, begun) = (calls(), std::time::Instant::now());
    (0..100).for_each(|_| drop(exporter.metrics()));
    let most = begun.elapsed().as_secs() + 2;
    assert!(calls() - before <= most, "{} looks", calls() - before);
}

#[apply(on_one_server)]
fn what_clients_put_into_keys_stays_text(kind: Kind) {
    let servers = servers(kind, 1);
    let exporter = start(&servers, &[]);
    let key = b"\"} 1\n\\\x1b[2J\xff";
    let mut client = servers[0].client();
    // Refusals decay, by half each minute.
    for token in ["alice", "bob", "bob", "bob", "bob"] {
        client.run_args(&[b"DLOCK.ACQUIRE", &key[..], token.as_bytes(), b"600000"]);
    }
    let shown = "\"} 1\\x0a\\\\\\x1b[2J\\xff";
    let escaped = shown.replace('\\', "\\\\").replace('"', "\\\"");
    let label = format!("key=\"{escaped}\"}} ");
    eventually("it is seen", || exporter.metrics().iter().any(|line| line.contains(&label)));
}

#[apply(on_one_server)]
fn other_paths_and_other_methods_are_refused(kind: Kind) {
    let servers = servers(kind, 1);
    let exporter = start(&servers, &[]);
    let post = format!("POST /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", exporter.at);
    assert_eq!(exporter.send(&post).status, 405);
    assert_eq!(exporter.get("/").status, 404);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    assert!([0, 414, 431].contains(&exporter.send(&long).status));
}

/// The help page lists the rights that are enough.
#[apply(on_one_server)]
fn a_user_with_few_rights_is_enough_and_with_less_sees_less(kind: Kind) {
    let servers = servers(kind, 1);
    let help = dlock(&servers, &["exporter", "--help"]).with_code(0).out;
    let acl = help.split("ACL SETUSER watch on >PASSWORD ").nth(1).unwrap().lines().next().unwrap();
    let _bob = contended(&servers[0]);
    servers[0].run(&format!("ACL SETUSER watch on >secret {acl}"));
    servers[0].run("ACL SETUSER less on >secret -@all +info");
    let exporter = |user: &str| {
        let node = format!("redis://{user}:secret@{}", addresses(&servers)[0]);
        Exporter::start(&[node], &[])
    };
    let watch = exporter("watch");
    eventually("the holder is seen", || watch.metric("dlock_hot_held_seconds{").is_some());
    assert!(!watch.get("/metrics").body.contains("secret"));
    let less = exporter("less");
    assert_eq!(less.metric("dlock_up{"), Some(1.0));
    assert_eq!(less.metric("dlock_hot_waiting{"), None);
    assert_eq!(less.end(), Some(0));
}

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

#[apply(on_one_server)]
fn a_promoted_replica_takes_the_place_of_its_primary_and_its_quarantine_is_told(kind: Kind) {
    let mut node = Watched::start(kind, 1);
    let exporter = Exporter::start(&[node.url()], &[]);
    let name = |server: &Server| format!("127.0.0.1:{} (watched)", server.port());
    let (old, new) = (name(&node.servers[0]), name(&node.servers[1]));
    let _bob = contended(&node.servers[0]);
    let waiting =
        |name: &str| format!("dlock_hot_waiting{{node=\"{name}\",db=\"0\",key=\"job:42\"}}");
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
