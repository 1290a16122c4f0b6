//! Each check against made-up facts.

mod cluster;
mod reserve;

use std::time::Duration;

use super::checks::findings;
use super::facts::{Clock, Facts, Fields, NodeAnswers};
use super::finding::{Finding, Severity};

/// A node without problems.
fn good(number: u32) -> Facts {
    let info = format!(
        "redis_version:8.2.3\nrun_id:run{number}\nrole:master\nused_memory:1000\n\
         connected_clients:3\nconnected_slaves:0\ncluster_enabled:0\n\
         rdb_last_bgsave_status:ok\naof_last_write_status:ok"
    );
    let config = "appendonly:yes\nsave:\nmaxmemory:0\nmaxmemory-policy:noeviction\n\
         min-replicas-to-write:0\nmin-replicas-max-lag:10\ntimeout:0\ntcp-keepalive:300\n\
         maxclients:10000\nstop-writes-on-bgsave-error:yes\ndlock.max-ttl:600000\n\
         dlock.newborn-quarantine:60000\ndlock.quarantine:auto";
    let node = format!(
        "version:0.1.0\nnode-id:id{number}\nboot:1\ngranting:yes\nfence:{NOW}\ndurable:yes\n\
         state-file-error:\nquarantine-ms:0\nquarantine-reason:\nlease-bound-ms:30720\n\
         waiters:0\nrole:primary"
    );
    let answers = NodeAnswers {
        info: Ok(Fields::of_lines(&info)),
        config: Ok(Fields::of_lines(config)),
        node: Ok(Fields::of_lines(&node)),
        cluster: Err("not in cluster mode".into()),
        denied: Vec::new(),
        clock: Some(Clock { time: NOW, ahead: 300, uncertainty: 200 }),
        round_trip: Duration::from_micros(400),
    };
    let (name, node) = (format!("redis://node{number}"), number as usize);
    Facts { name, node, in_cluster: false, answers: Ok(answers) }
}

const NOW: i64 = 1_795_000_000_000_000;

fn three() -> Vec<Facts> {
    (1..=3).map(good).collect()
}

/// Three nodes, the second of them changed.
fn with(change: impl Fn(&mut NodeAnswers)) -> Vec<Facts> {
    let mut nodes = three();
    change(nodes[1].answers.as_mut().unwrap());
    nodes
}

fn info(name: &'static str, value: &'static str) -> Vec<Facts> {
    with(|node| node.info.as_mut().unwrap().set(name, value))
}

fn config(changes: &[(&str, &str)]) -> Vec<Facts> {
    with(|node| {
        changes.iter().for_each(|(name, value)| node.config.as_mut().unwrap().set(name, value));
    })
}

fn node(changes: &[(&str, &str)]) -> Vec<Facts> {
    with(|node| {
        changes.iter().for_each(|(name, value)| node.node.as_mut().unwrap().set(name, value));
    })
}

/// The only finding, which must be about the second node alone, and have a fix.
#[track_caller]
fn only(nodes: &[Facts]) -> Finding {
    let found = findings(nodes);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].nodes, ["redis://node2"]);
    assert!(!found[0].why.is_empty() && !found[0].fix.is_empty(), "{found:#?}");
    found[0].clone()
}

#[track_caller]
fn assert_only(nodes: &[Facts], severity: Severity, check: &str, words: &str) {
    let found = only(nodes);
    assert_eq!((found.severity, found.check), (severity, check), "{found:#?}");
    let all = format!("{} {}", found.found, found.fix);
    assert!(all.contains(words), "{words:?} is not in {all:?}");
}

use Severity::{Error, Hint, Warning};

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(findings(&three()), []);
    assert_eq!(findings(&[good(1)]), []);
}

#[test]
fn a_node_that_does_not_answer() {
    let mut nodes = three();
    nodes[1].answers = Err("connection refused".into());
    assert_only(&nodes, Error, "unreachable", "connection refused");
}

#[test]
fn a_server_without_the_module_is_told_nothing_else() {
    let unknown = "ERR unknown command 'DLOCK.NODE'";
    let mut nodes = config(&[("timeout", "60"), ("appendonly", "no")]);
    nodes[1].answers.as_mut().unwrap().node = Err(unknown.into());
    assert_only(&nodes, Error, "module", "loadmodule");
    nodes[1].answers.as_mut().unwrap().node = Err("LOADING Redis is loading".into());
    let found = findings(&nodes);
    assert!(found.iter().any(|finding| finding.check == "answers"), "{found:#?}");
}

#[test]
fn versions_that_are_too_old_or_differ() {
    assert_only(&info("redis_version", "6.2.14"), Error, "server_version", "7.0");
    assert_only(&info("valkey_version", "7.1.0"), Error, "server_version", "7.2");
    assert_eq!(findings(&info("redis_version", "10.0.1")), []);
    assert_eq!(findings(&info("valkey_version", "7.2.0")), []);
    assert_only(&node(&[("version", "0.0.9")]), Warning, "module_version", "libdlock.so 0.1.0");
}

#[test]
fn an_agent_is_told_nothing_else() {
    let mut agent = node(&[("role", "agent"), ("nodes", "redis://a,redis://b"), ("durable", "no")]);
    agent[1].answers.as_mut().unwrap().config = Err("ERR unknown command 'CONFIG'".into());
    assert_only(&agent, Error, "agent", "its nodes are redis://a,redis://b");
}

#[test]
fn a_replica() {
    let replica = with(|node| {
        let info = node.info.as_mut().unwrap();
        info.set("role", "slave");
        info.set("master_host", "10.0.0.1");
        info.set("master_port", "6379");
    });
    assert_only(&replica, Error, "replica", "10.0.0.1:6379");
}

#[test]
fn quarantine_says_how_long_and_why() {
    let all = [("granting", "quarantine"), ("quarantine-ms", "90000"), ("quarantine-reason", "x")];
    assert_only(&node(&all), Warning, "quarantine", "90 s: x");
}

#[test]
fn no_majority_that_grants() {
    let mut nodes = three();
    for facts in &mut nodes[1..] {
        facts.answers = Err("gone".into());
    }
    let found = findings(&nodes);
    let checks: Vec<&str> = found.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["unreachable", "majority"]);
    assert_eq!(found[0].nodes, ["redis://node2", "redis://node3"], "said once for both");
    assert!(found[1].found.starts_with("1 of 3 nodes grant"), "{found:#?}");
}

#[test]
fn what_a_node_remembers_and_where() {
    assert_only(&node(&[("durable", "no")]), Warning, "state_file", "dlock.state-file");
    let failing = [("durable", "failing"), ("state-file-error", "disk full")];
    assert_only(&node(&failing), Error, "state_file", "disk full");
    let refusing = [failing[0], failing[1], ("granting", "not-durable")];
    assert_only(&node(&refusing), Error, "state_file", "it grants nothing: disk full");
}

#[test]
fn leases_that_outlast_the_quarantine_after_a_lost_disk() {
    let leases = |bound: &str, newborn: &str, quarantine: &str| {
        let mut nodes =
            config(&[("dlock.newborn-quarantine", newborn), ("dlock.quarantine", quarantine)]);
        nodes[1].answers.as_mut().unwrap().node.as_mut().unwrap().set("lease-bound-ms", bound);
        nodes
    };
    // The bounds of leases of 30 s, and of a minute; and of none.
    for covered in [("30720", "60000"), ("61440", "60000"), ("0", "0")] {
        assert_eq!(findings(&leases(covered.0, covered.1, "auto")), [], "{covered:?}");
    }
    let fix = "CONFIG SET dlock.newborn-quarantine 600000";
    assert_only(&leases("600000", "60000", "auto"), Warning, "newborn", fix);
    assert_only(&leases("600000", "60000", "auto"), Warning, "newborn", "it would wait for 60 s");
    assert_only(&leases("30720", "0", "auto"), Warning, "newborn", "it would wait for 0");
    assert_only(&leases("600000", "0", "30000"), Warning, "newborn", "it would wait for 30 s");
    assert_eq!(findings(&leases("600000", "0", "600000")), []);
    assert_only(&leases("600000", "0", "off"), Warning, "quarantine_off", "");
}

#[test]
fn limits_that_were_reached() {
    let refused = info("errorstat_TOOMANY", "count=3");
    assert_only(&refused, Warning, "limits", "3 requests were refused with TOOMANY");
    let far = info("errorstat_TOOFAR", "count=1");
    assert_only(&far, Hint, "keys_ahead", "1 request was refused with TOOFAR");
    for code in super::limits::codes() {
        let words = format!("2 requests were refused with {code}");
        let refused = with(|node| {
            node.info.as_mut().unwrap().set(&format!("errorstat_{code}"), "count=2");
        });
        assert!(only(&refused).found.starts_with(&words), "{words}");
    }
}

#[test]
fn settings_of_the_module() {
    let off = config(&[("dlock.quarantine", "off")]);
    assert_only(&off, Warning, "quarantine_off", "CONFIG SET dlock.quarantine auto");
    assert_only(&node(&[("places-refused", "3")]), Warning, "places", "which client asks");
}

#[test]
fn what_is_saved() {
    let nothing = config(&[("appendonly", "no")]);
    assert_only(&nothing, Hint, "persistence", "saves nothing");
    let file = config(&[("appendonly", "no"), ("save", "3600 1")]);
    assert_only(&file, Hint, "persistence", "only RDB files");
}

#[test]
fn done_locks_that_nothing_saves() {
    let done = |changes: &[(&str, &str)]| {
        let mut nodes = config(changes);
        let info = nodes[1].answers.as_mut().unwrap().info.as_mut().unwrap();
        info.set("dlock_done_keys", "2");
        findings(&nodes)
    };
    assert_eq!(done(&[]), []);
    for (save, words) in [("", "any restart"), ("3600 1", "a crash")] {
        let found = done(&[("appendonly", "no"), ("save", save)]);
        let found = found.iter().find(|finding| finding.check == "done_not_saved").unwrap();
        assert_eq!(
            (found.severity, &found.nodes[..]),
            (Warning, &["redis://node2".to_owned()][..])
        );
        assert!(found.found.starts_with("2 locks are done, and it") && found.why.contains(words));
    }
}

#[test]
fn writes_that_are_refused() {
    assert_only(&info("aof_last_write_status", "err"), Error, "saving", "append-only log");
    let mut nodes = info("rdb_last_bgsave_status", "err");
    assert_eq!(findings(&nodes), [], "it saves nothing, so that one is of no consequence");
    nodes[1].answers.as_mut().unwrap().config.as_mut().unwrap().set("save", "3600 1");
    assert_only(&nodes, Error, "saving", "BGSAVE");
}

#[test]
fn locks_that_take_nearly_all_the_memory_that_they_may() {
    for (used, most, found) in [("790", "1000", false), ("800", "1000", true), ("9", "0", false)] {
        let nodes = with(|node| {
            let info = node.info.as_mut().unwrap();
            info.set("dlock_memory", used);
            info.set("dlock_memory_most", most);
        });
        if found {
            assert_only(&nodes, Warning, "lock_memory", "dlock.max-memory-percent");
        } else {
            assert_eq!(findings(&nodes), []);
        }
    }
}

#[test]
fn marks_that_were_removed() {
    let removed = |n: &str| with(|node| node.info.as_mut().unwrap().set("dlock_marks_removed", n));
    assert_eq!(findings(&removed("0")), []);
    assert_only(&removed("2"), Warning, "marks_removed", "+dlock.fenced");
}

#[test]
fn memory_that_is_full_or_given_to_others() {
    let full = config(&[("maxmemory", "1100")]);
    assert_only(&full, Warning, "memory", "90 %");
    let evicts = config(&[("maxmemory", "1100"), ("maxmemory-policy", "allkeys-lfu")]);
    assert_only(&evicts, Warning, "eviction", "volatile-lfu");
    assert_eq!(findings(&config(&[("maxmemory-policy", "allkeys-lfu")])), []);
    let mut done = evicts;
    done[1].answers.as_mut().unwrap().info.as_mut().unwrap().set("dlock_done_keys", "7");
    assert_only(&done, Warning, "eviction", "noeviction");
    assert_eq!(findings(&config(&[("maxmemory", "1200")])), []);
}

#[test]
fn replicas_that_are_needed_or_promoted() {
    let replicas = |good: &'static str| {
        with(|node| {
            let info = node.info.as_mut().unwrap();
            info.set("connected_slaves", good);
            info.set("min_slaves_good_slaves", good);
            let config = node.config.as_mut().unwrap();
            config.set("min-replicas-to-write", "1");
            config.set("dlock.quarantine", "60000");
        })
    };
    assert_only(&replicas("0"), Error, "min_replicas", "min-replicas-to-write 0");
    assert_only(&replicas("1"), Warning, "min_replicas", "attach one more replica");
    assert_eq!(findings(&replicas("2")), []);
    assert_only(&info("connected_slaves", "1"), Hint, "replicas", "it has 1 replica");
}

#[test]
fn connections() {
    assert_only(&config(&[("timeout", "60")]), Warning, "timeout", "CONFIG SET timeout 0");
    assert_only(&config(&[("tcp-keepalive", "0")]), Hint, "tcp_keepalive", "60");
    assert_only(&info("connected_clients", "9000"), Warning, "connections", "maxclients 20000");
}

#[test]
fn what_could_not_be_asked_is_said() {
    let denied = |name| with(move |node: &mut NodeAnswers| node.denied = vec![name]);
    assert_only(&denied("DLOCK.ACQUIRE"), Error, "acl", "+DLOCK.ACQUIRE");
    assert_only(&denied("DLOCK.INSPECT"), Hint, "acl", "+DLOCK.INSPECT");
    let no_permission = || Err("NOPERM this user has no permissions".to_owned());
    assert_only(&with(|node| node.info = no_permission()), Hint, "skipped", "INFO");
    assert_only(&with(|node| node.config = no_permission()), Hint, "skipped", "+config|get");
    let blind = with(|node| {
        node.node = no_permission();
        node.denied = vec!["DLOCK.NODE"];
    });
    assert_only(&blind, Hint, "acl", "DLOCK.NODE");
    // INFO reports the same.
    let seen = with(|node| {
        node.node = no_permission();
        node.info.as_mut().unwrap().set("dlock_quarantine_ms", "90000");
    });
    assert_only(&seen, Warning, "quarantine", "for 90 s");
}

#[test]
fn nodes_that_are_not_independent() {
    let again = Facts { node: 3, ..good(1) };
    let twice = findings(&[good(1), good(2), again]);
    assert_eq!(twice.len(), 1, "{twice:#?}");
    assert_eq!(twice[0].check, "duplicate");
    assert_eq!(twice[0].nodes, ["redis://node1", "redis://node1"]);

    let copied = findings(&node(&[("node-id", "id1")]));
    assert_eq!(copied.len(), 1, "{copied:#?}");
    assert_eq!(copied[0].check, "node_id");
    assert_eq!(copied[0].nodes, ["redis://node1", "redis://node2"]);
}

#[test]
fn how_many_nodes_there_are() {
    let of = |count| findings(&(1..=count).map(good).collect::<Vec<_>>());
    assert_eq!((of(2)[0].severity, of(2)[0].check), (Warning, "number"));
    assert_eq!((of(4)[0].severity, of(4)[0].check), (Hint, "number"));
    assert!(of(4)[0].why.contains("the loss of 1, as 3 nodes do"), "{:#?}", of(4));
    assert_eq!(of(5), []);
}

#[test]
fn clocks_that_are_wrong() {
    let ahead = |ahead: i64| {
        with(move |node| {
            node.clock = Some(Clock { time: NOW + ahead, ahead, uncertainty: 200_000 })
        })
    };
    assert_eq!(findings(&ahead(1_100_000)), [], "it may be half of the round trip");
    assert_only(&ahead(1_300_000), Warning, "clock", "ahead of this machine's");
    assert_only(&ahead(-90_200_000), Warning, "clock", "90 s behind");
    assert_only(&ahead(601_000_000), Error, "clock", "ahead");

    let mut all = three();
    for facts in &mut all {
        let clock = Clock { time: NOW, ahead: 5_000_000, uncertainty: 0 };
        facts.answers.as_mut().unwrap().clock = Some(clock);
    }
    let found = findings(&all);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].found, "this machine's clock is 5.0 s behind all nodes'");
}

#[test]
fn fences_that_are_too_far_ahead_for_others() {
    let mut nodes = node(&[("fence", "1795000600000001")]);
    let found = findings(&nodes);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].check, "fences");
    assert_eq!(found[0].nodes.len(), 3);
    nodes[1].answers.as_mut().unwrap().node.as_mut().unwrap().set("fence", "1795000600000000");
    assert_eq!(findings(&nodes), []);
}

#[test]
fn nodes_that_are_slow() {
    let trip = |ms| with(move |node| node.round_trip = Duration::from_millis(ms));
    assert_eq!(findings(&trip(499)), []);
    assert_only(&trip(500), Warning, "slow", "500 ms");
}

#[test]
fn the_longest_lease_that_is_allowed() {
    let shorter = config(&[("dlock.max-ttl", "10000")]);
    assert_only(&shorter, Error, "max_ttl", "10 s, and a usual lease 30 s");
    let other = config(&[("dlock.max-ttl", "60000")]);
    assert_only(&other, Warning, "max_ttl", "CONFIG SET dlock.max-ttl 600000");
    assert_eq!(findings(&config(&[("dlock.max-ttl", "600000")])), []);
}
