//! Each check against made-up facts.

mod reserve;

use super::checks::findings;
use super::facts::{Clock, Facts, Fields, NodeAnswers};
use super::finding::{Finding, Severity};

/// A node without problems.
fn good(number: u32) -> Facts {
    let info = format!(
        "redis_version:8.2.3\nrun_id:run{number}\nrole:master\nused_memory:1000\n\
         connected_slaves:0\ncluster_enabled:0"
    );
    let config = "appendonly:yes\nsave:\nmaxmemory:0\nmaxmemory-policy:noeviction\n\
         min-replicas-to-write:0\nmin-replicas-max-lag:10\ntimeout:0\ndlock.max-ttl:600000\n\
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
        lacks: Vec::new(),
        clock: Some(Clock { time: NOW, ahead: 300, uncertainty: 200 }),
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
fn an_agent_is_told_nothing_else() {
    let mut agent = node(&[("role", "agent"), ("nodes", "redis://a,redis://b"), ("durable", "no")]);
    agent[1].answers.as_mut().unwrap().config = Err("ERR unknown command 'CONFIG'".into());
    assert_only(&agent, Error, "agent", "its nodes are redis://a,redis://b");
}

#[test]
fn leases_that_outlast_the_quarantine_after_a_lost_disk() {
    let leases = |bound: &str, newborn: &str, quarantine: &str| {
        let mut nodes =
            config(&[("dlock.newborn-quarantine", newborn), ("dlock.quarantine", quarantine)]);
        nodes[1].answers.as_mut().unwrap().node.as_mut().unwrap().set("lease-bound-ms", bound);
        nodes
    };
    // The bounds of leases of 30 s, and of a minute.
    for covered in [("30720", "60000"), ("61440", "60000")] {
        assert_eq!(findings(&leases(covered.0, covered.1, "auto")), [], "{covered:?}");
    }
    let fix = "CONFIG SET dlock.newborn-quarantine 600000";
    assert_only(&leases("600000", "60000", "auto"), Warning, "newborn", fix);
    assert_only(&leases("600000", "60000", "auto"), Warning, "newborn", "it would wait for 60 s");
    assert_only(&leases("0", "0", "auto"), Warning, "newborn", "it would wait for 0");
    assert_only(&leases("600000", "9", "30000"), Warning, "newborn", "it would wait for 30 s");
    assert_eq!(findings(&leases("600000", "9", "600000")), []);
    assert_only(&leases("600000", "0", "600000"), Warning, "newborn", "it would wait for 0");
    assert_only(&leases("600000", "0", "off"), Warning, "quarantine_off", "");
}

#[test]
fn a_version_that_differs() {
    assert_only(&node(&[("version", "0.0.9")]), Warning, "module_version", "libdlock.so 0.1.0");
}

#[test]
fn an_even_number_of_nodes() {
    let found = findings(&(1..=4).map(good).collect::<Vec<_>>());
    assert_eq!((found[0].severity, found[0].check), (Hint, "number"));
    assert!(found[0].why.contains("the loss of 1, as 3 nodes do"), "{found:#?}");
}

#[test]
fn each_limit_that_was_reached() {
    for code in super::limits::codes() {
        let words = format!("2 requests were refused with {code}");
        let refused = with(|node| {
            node.info.as_mut().unwrap().set(&format!("errorstat_{code}"), "count=2");
        });
        assert!(only(&refused).found.starts_with(&words), "{words}");
    }
}

#[test]
fn what_is_saved() {
    for (save, done, severity, words) in [
        ("3600 1", "0", Hint, "only RDB files"),
        ("", "2", Warning, "saves nothing, and locks are done: 2"),
    ] {
        let mut nodes = config(&[("appendonly", "no"), ("save", save)]);
        nodes[1].answers.as_mut().unwrap().info.as_mut().unwrap().set("dlock_done_keys", done);
        assert_only(&nodes, severity, "persistence", words);
    }
}

#[test]
fn eviction_that_takes_locks() {
    let mut nodes = config(&[("maxmemory-policy", "allkeys-lfu")]);
    assert_eq!(findings(&nodes), []);
    nodes[1].answers.as_mut().unwrap().config.as_mut().unwrap().set("maxmemory", "1100");
    assert_only(&nodes, Warning, "eviction", "is allkeys-lfu");
    nodes[1]
        .answers
        .as_mut()
        .unwrap()
        .config
        .as_mut()
        .unwrap()
        .set("maxmemory-policy", "volatile-lfu");
    assert_eq!(findings(&nodes), []);
    nodes[1].answers.as_mut().unwrap().info.as_mut().unwrap().set("dlock_done_keys", "7");
    assert_only(&nodes, Warning, "eviction", "is volatile-lfu");
}

#[test]
fn writes_that_are_refused() {
    let refuses = node(&[("granting", "MISCONF")]);
    assert_only(&refuses, Error, "refuses", "MISCONF");
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
    assert_only(&replicas("1"), Warning, "min_replicas", "attach one more replica");
    assert_eq!(findings(&replicas("2")), []);
}

#[test]
fn what_could_not_be_asked_is_said() {
    let no_permission = || Err("NOPERM this user has no permissions".to_owned());
    let blind = with(|node| node.lacks = vec!["+info", "+time"]);
    assert_only(&blind, Hint, "skipped", "+info +time");
    let seen = with(|node| {
        node.node = no_permission();
        node.info.as_mut().unwrap().set("dlock_granting", "quarantine");
        node.info.as_mut().unwrap().set("dlock_quarantine_ms", "90000");
    });
    assert_only(&seen, Warning, "quarantine", "for 90 s");
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
}

#[test]
fn the_primaries_of_a_cluster_are_one_node() {
    let mut servers = three();
    for facts in &mut servers {
        (facts.node, facts.in_cluster) = (0, true);
        let answers = facts.answers.as_mut().unwrap();
        answers.info.as_mut().unwrap().set("cluster_enabled", "1");
    }
    assert_eq!(findings(&servers), []);
    servers[1].answers = Err("it is down".to_owned());
    let found: Vec<Finding> = findings(&servers);
    let checks: Vec<&str> = found.iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["unreachable"], "{found:#?}");
}
