//! Clients of both versions, at nodes of both: every subcommand works, and two never hold one lock at a time.

use std::fs;
use std::path::Path;
use std::thread;

use harness::program::{self, Said};
use harness::{Builder, Kind, Quorum, Server, apply, on_two_servers};

use crate::former;

/// Runs a program of either version.
#[track_caller]
fn dlock(program: &Path, nodes: &[String], arguments: &[&str]) -> Said {
    program::run(program::command_of(program, nodes).args(arguments))
}

/// A value of the lines that `dlock acquire` prints.
#[track_caller]
fn field(said: &Said, name: &str) -> String {
    let found = said.out.split_whitespace().find_map(|word| word.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {said:?}")).trim_matches('\'').to_owned()
}

/// Takes locks in each way, looks at them, ends them, and shows their fences to data.
#[track_caller]
fn assert_works(program: &Path, nodes: &[String]) {
    let dlock = |arguments: &[&str]| dlock(program, nodes, arguments);
    let lease = dlock(&["acquire", "--ttl", "60s", "job"]).with_code(0);
    let (token, fence) = (field(&lease, "DLOCK_TOKEN="), field(&lease, "DLOCK_FENCE="));
    let shown = dlock(&["--json", "inspect", "job"]).with_code(0).out;
    assert!(shown.contains(&fence), "{shown}");
    assert!(dlock(&["ls"]).with_code(0).out.contains("job"));
    dlock(&["run", "-n", "job", "--", "true"]).with_code(1);
    dlock(&["run", "-w", "300ms", "job", "--", "true"]).with_code(1);
    dlock(&["run", "-n", "-s", "job", "--", "true"]).with_code(1);
    dlock(&["extend", "--ttl", "60s", "job", &token]).with_code(0);
    dlock(&["release", "job", &token]).with_code(0);
    dlock(&["acquire", "-s", "--ttl", "60s", "job"]).with_code(0);
    dlock(&["run", "-n", "-s", "job", "--", "true"]).with_code(0);
    dlock(&["break", "--yes", "job"]).with_code(0);
    let later = dlock(&["run", "job", "--", "sh", "-c", "echo $DLOCK_FENCE"]).with_code(0).out;
    let number = |text: &str| text.trim().parse::<u64>().expect("a fence");
    assert!(number(&later) > number(&fence), "{later} after {fence}");
    dlock(&["run", "job", "other", "--", "true"]).with_code(0);
    let first = &nodes[..1];
    let fenced = |fence| {
        let arguments = ["fenced", "--fence", fence, "mark", "--", "SET", "data", "text"];
        self::dlock(program, first, &arguments)
    };
    assert_eq!(fenced("7").with_code(0).out, "OK\n");
    assert_ne!(fenced("6").code, Some(0));
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(|server| format!("redis://127.0.0.1:{}", server.port())).collect()
}

#[apply(on_two_servers)]
fn a_former_client_works_with_a_present_node(kind: Kind) {
    assert_works(&former::program(), &urls(&[Server::start(kind)]));
}

#[apply(on_two_servers)]
fn a_present_client_works_with_a_former_node(kind: Kind) {
    assert_works(program::path(), &urls(&[former::node(kind).start()]));
}

/// Three nodes, of which so many have the former module.
fn mixed(formers: usize) -> Quorum {
    let kinds = [Kind::Redis82, Kind::Valkey91, Kind::Redis70];
    let node = |(place, kind)| {
        if place < formers { former::node(kind) } else { Server::build(kind) }
    };
    Quorum::of(kinds.into_iter().enumerate().map(node).collect::<Vec<Builder>>())
}

#[test]
fn both_clients_work_with_a_quorum_of_both_versions() {
    for formers in 0..=3 {
        let quorum = mixed(formers);
        for program in [former::program(), program::path().clone()] {
            assert_works(&program, &quorum.direct_urls());
            quorum.until_empty();
        }
    }
}

/// The command fails if somebody else is inside, and writes down its fence.
const INSIDE: &str =
    r#"mkdir "$0/inside" && echo "$DLOCK_FENCE" >>"$0/fences" && sleep 0.02 && rmdir "$0/inside""#;
const ROUNDS: usize = 6;

#[test]
fn clients_of_both_versions_exclude_each_other_at_nodes_of_both() {
    for formers in 0..=3 {
        let quorum = mixed(formers);
        let folder = tempfile::tempdir().expect("there is room");
        let programs = [former::program(), program::path().clone()];
        thread::scope(|scope| {
            for program in programs.iter().chain(&programs) {
                scope.spawn(|| contend(program, &quorum, folder.path()));
            }
        });
        let fences = fs::read_to_string(folder.path().join("fences")).expect("they were inside");
        let fences: Vec<u64> = fences.lines().map(|line| line.parse().expect("a fence")).collect();
        assert_eq!(fences.len(), 4 * ROUNDS);
        assert!(fences.is_sorted_by(|one, next| one < next), "{formers} former: {fences:?}");
        quorum.until_empty();
    }
}

fn contend(program: &Path, quorum: &Quorum, folder: &Path) {
    for _ in 0..ROUNDS {
        let mut command = program::command_of(program, &quorum.direct_urls());
        command.args(["run", "job", "--", "sh", "-c", INSIDE]);
        program::run(command.arg(folder)).with_code(0);
    }
}
