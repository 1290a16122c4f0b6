//! Nodes that fail over: a primary behind Sentinels, and a Redis Cluster.

use std::fs;

use harness::program::{self, Said};
use harness::watched::Watched;
use harness::{Cluster, Kind, apply, eventually, on_one_server};

use crate::dlock_at;
use crate::running::Running;

/// Runs the program with one node.
#[track_caller]
fn dlock(url: &str, arguments: &[&str]) -> Said {
    dlock_at(&[url.to_owned()], arguments)
}

/// A value of the lines that `dlock acquire` prints.
#[track_caller]
fn field(said: &Said, name: &str) -> String {
    let found = said.out.split_whitespace().find_map(|word| word.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {said:?}")).trim_matches('\'').to_owned()
}

/// Takes, inspects and breaks a lock, and releases another one, as an operator would.
#[track_caller]
fn assert_works(url: &str, key: &str) {
    let lease = dlock(url, &["acquire", "--ttl", "10m", key]).with_code(0);
    let (token, fence) = (field(&lease, "DLOCK_TOKEN="), field(&lease, "DLOCK_FENCE="));
    let shown = dlock(url, &["--json", "inspect", key]).with_code(0).out;
    assert!(shown.contains(&fence), "{shown}");
    let listed = dlock(url, &["--json", "ls"]).with_code(0).json();
    let lock = listed.iter().find(|lock| lock["key"] == key).expect("it is listed");
    assert_eq!((&lock["nodes"], &lock["holding"]), (&1.into(), &1.into()));
    dlock(url, &["run", "-n", key, "--", "true"]).with_code(1);
    dlock(url, &["extend", "--ttl", "10m", "--fence", &fence, key, &token]).with_code(0);
    dlock(url, &["release", key, &token]).with_code(0);
    dlock(url, &["acquire", "--ttl", "10m", key]).with_code(0);
    dlock(url, &["break", "--yes", key]).with_code(0);
    dlock(url, &["run", "-n", key, "--", "true"]).with_code(0);
}

#[apply(on_one_server)]
fn every_subcommand_finds_the_primary_behind_its_sentinels(kind: Kind) {
    let node = Watched::start(kind, 1);
    assert_works(&node.url(), "job");
    let fenced = dlock(&node.url(), &["fenced", "--fence", "7", "mark", "--", "SET", "a", "b"]);
    assert_eq!(fenced.with_code(0).out, "OK\n");
}

#[apply(on_one_server)]
fn every_subcommand_finds_the_server_of_a_cluster_that_has_the_key(kind: Kind) {
    let cluster = Cluster::start(kind);
    let url = cluster.url(&[2]);
    (0..3).for_each(|place| assert_works(&url, &cluster.key(place, "job")));
    let keys: Vec<String> = (0..3).map(|place| cluster.key(place, "job")).collect();
    for key in &keys {
        dlock(&url, &["acquire", "--ttl", "10m", key]).with_code(0);
    }
    let said = dlock(&url, &["ls"]).with_code(0);
    // A table of them below its heading.
    assert_eq!(said.out.lines().count(), 4, "{said:?}");
    assert!(keys.iter().all(|key| said.out.contains(key)), "{said:?}");
}

/// Key by key: the lock and the data are at the new server, and the slot is still the old one's.
#[apply(on_one_server)]
fn every_subcommand_finds_a_key_whose_slot_moves(kind: Kind) {
    let cluster = Cluster::start(kind);
    let (url, job) = (cluster.url(&[2]), format!("{{{}}}", cluster.key(0, "job")));
    let slot = cluster.slot(&job);
    dlock(&url, &["acquire", "--ttl", "10m", &job]).with_code(0);
    let fenced = || {
        let (mark, data) = (format!("{job}mark"), format!("{job}a"));
        dlock(&url, &["fenced", "--fence", "7", &mark, "--", "SET", &data, "b"]).with_code(0)
    };
    fenced();
    cluster.open(slot, 0, 1);
    cluster.move_keys(slot, 0, 1);
    assert_works(&url, &format!("{job}:other"));
    dlock(&url, &["inspect", &job]).with_code(0);
    let listed = dlock(&url, &["--json", "ls"]).with_code(0).json();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["key"], job);
    assert_eq!(fenced().out, "OK\n");
    dlock(&url, &["break", "--yes", &job]).with_code(0);
    cluster.close(slot, 0, 1);
    assert_eq!(fenced().out, "OK\n");
}

#[test]
fn run_goes_on_over_a_fail_over_and_names_the_primary() {
    let mut node = Watched::start(Kind::Redis82, 1);
    let folder = tempfile::tempdir().expect("there is room");
    let (begun, end) = (folder.path().join("begun"), folder.path().join("end"));
    let script = "touch \"$0\"; while [ ! -e \"$1\" ]; do sleep 0.1; done";
    let mut command = program::command(&[node.url()]);
    command.args(["run", "--ttl", "10m", "job", "--", "sh", "-c", script]);
    command.arg(&begun).arg(&end);
    let running = Running::of(command);
    eventually("the command runs", || begun.exists());
    node.until_followed(0);
    node.servers[0].kill();
    let now = node.promoted(0, &[0, 1, 2]);
    let at = format!("127.0.0.1:{} is the primary of {} now", node.servers[now].port(), node.url());
    running.until_it_complains(&at);
    fs::write(&end, "").expect("the folder can be written");
    running.ended().with_code(0);
}

/// The findings of this check, and their nodes.
#[track_caller]
fn found(url: &str, check: &str) -> Vec<String> {
    let said = dlock(url, &["--json", "doctor"]).json();
    let of_check = said.iter().filter(|finding| finding["check"] == check);
    of_check.map(|finding| format!("{} {}", finding["nodes"], finding["found"])).collect()
}

#[apply(on_one_server)]
fn doctor_looks_at_replicas_and_sentinels(kind: Kind) {
    let mut node = Watched::start(kind, 2);
    let url = node.url();
    assert_eq!(found(&url, "stand_by"), [""; 0]);
    assert_eq!(found(&url, "old_primary").len(), 1, "the old primary is not fenced off");
    node.servers[1].run("CONFIG SET dlock.max-ttl 5000");
    let differs = found(&url, "replica_setting");
    let port = node.servers[1].port().to_string();
    let said = dlock(&url, &["doctor"]);
    assert!(said.out.contains("error"), "an unequal max-ttl is an error: {}", said.out);
    assert!(differs.len() == 1 && differs[0].contains(&port), "{differs:?}");
    node.servers[2].kill();
    node.sentinels[0].kill();
    let silent = found(&url, "stand_by");
    let ports = [node.servers[2].port(), node.sentinels[0].port()].map(|port| port.to_string());
    assert!(ports.iter().all(|port| silent.iter().any(|one| one.contains(port))), "{silent:?}");
    let sentinel = &node.sentinels[1];
    sentinel.run("SENTINEL SET watched down-after-milliseconds 40000");
    let slow = found(&url, "sentinels");
    assert!(slow.iter().any(|one| one.contains("down-after-milliseconds is 40000")), "{slow:?}");
}
