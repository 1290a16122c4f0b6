//! `dlock doctor --against OLD`: whether a changed set of nodes can have two holders.

use std::fs;

use harness::{Kind, Server, apply, on_one_server};
use serde_json::Value;
use tempfile::TempDir;

use crate::{addresses, dlock, dlock_at, servers};

/// The findings about a change of the set.
#[track_caller]
fn found(nodes: &[String], against: &str) -> Vec<Value> {
    let about = ["two_majorities", "held_twice", "other_node"];
    let said = dlock_at(nodes, &["doctor", "--json", "--against", against]).json();
    let is_about = |one: &Value| about.iter().any(|check| one["check"] == *check);
    said.into_iter().filter(is_about).collect()
}

fn some(servers: &[Server], which: &[usize]) -> Vec<String> {
    let all = addresses(servers);
    which.iter().map(|at| all[*at].clone()).collect()
}

#[apply(on_one_server)]
fn a_node_that_is_replaced_at_once_makes_two_holders_and_one_step_after_the_other_none(kind: Kind) {
    let servers = servers(kind, 4);
    let old = some(&servers, &[0, 1, 2]);
    let new = some(&servers, &[1, 3, 0]);
    // A majority of the old list holds it, and a majority of the new one has no lease.
    for server in [&servers[0], &servers[2]] {
        assert!(server.run("DLOCK.ACQUIRE job alice 600000").is_int());
    }
    let findings = found(&new, &old.join(","));
    let checks: Vec<&Value> = findings.iter().map(|one| &one["check"]).collect();
    assert_eq!(checks, ["two_majorities", "held_twice"], "{findings:#?}");
    let step = some(&servers, &[0, 1, 2, 3]);
    let fix = findings[0]["fix"].as_str().expect("words");
    assert!(fix.contains(&format!("give all clients {} first", step.join(","))), "{fix}");
    assert!(findings[1]["found"].as_str().is_some_and(|words| words.ends_with(": job")));
    // The finding is right: a client of the new list gets the lock, while alice holds it.
    dlock_at(&new, &["run", "-n", "job", "--", "true"]).with_code(0);

    assert_eq!(found(&step, &old.join(",")), [Value::Null; 0]);
    dlock_at(&step, &["run", "-n", "job", "--", "true"]).with_code(1);
    assert_eq!(found(&new, &step.join(",")), [Value::Null; 0]);
    servers[0].run("DLOCK.RELEASE job alice");
    servers[2].run("DLOCK.RELEASE job alice");
    let findings = found(&new, &old.join(","));
    assert_eq!(findings.len(), 1, "nothing is held: {findings:#?}");
}

/// An earlier report has the address of each node.
#[apply(on_one_server)]
fn an_address_that_leads_to_another_node_than_before_is_found_by_an_earlier_report(kind: Kind) {
    let mut servers = servers(kind, 3);
    let nodes = addresses(&servers);
    let folder = TempDir::new().expect("a temporary folder can be made");
    let report = folder.path().join("before.json");
    fs::write(&report, dlock(&servers, &["doctor", "--json"]).out).expect("it can be written");
    let against = format!("@{}", report.display());
    assert_eq!(found(&nodes, &against), [Value::Null; 0]);

    // The server comes back empty, under a name of its own.
    servers[1].stop();
    fs::remove_file(servers[1].state_file()).expect("it is there");
    servers[1].start_again();
    let findings = found(&nodes, &against);
    let checks: Vec<&Value> = findings.iter().map(|one| &one["check"]).collect();
    assert_eq!(checks, ["other_node", "two_majorities"], "{findings:#?}");
    assert_eq!(findings[0]["nodes"][0], nodes[1]);
    assert_eq!(findings[0]["severity"], "error");
}

#[test]
fn what_makes_no_sense_to_compare_with_is_a_usage_error() {
    let nobody = ["127.0.0.1:1".to_owned()];
    for against in ["", ",", "http://host", "@no-such-file", "@Cargo.toml"] {
        let said = dlock_at(&nobody, &["doctor", "--against", against]).with_code(64);
        assert!(!said.err.is_empty() && said.out.is_empty(), "{against}: {said:?}");
    }
}
