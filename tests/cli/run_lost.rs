//! `dlock run` with a lock that is lost while its command runs.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::program::{self, Said};
use harness::{Quorum, Way, wall_clock};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::LEASE;
use crate::running::{Running, run};

/// Prints its beginning, and the request to end; then ends.
const POLITE: &str = "trap 'echo asked; exit 0' TERM; echo in; while :; do sleep 0.02; done";
/// Ignores the request to end, and so does its child process.
const STUBBORN: &str = "trap 'echo asked' TERM; sh -c 'trap \"\" TERM; sleep 30' & \
    echo in; while :; do sleep 0.02; done";

#[test]
fn a_command_whose_lock_is_broken_is_asked_to_end() {
    let quorum = Quorum::start(1);
    let running = start(&quorum, &[], POLITE);
    for node in quorum.iter() {
        assert_eq!(node.run("DLOCK.BREAK job").int(), 1);
    }
    let said = running.ended().with_code(75);
    assert_eq!(said.out, "in\nasked\n");
    assert!(said.err.contains("dlock: lost the lock on 'job'"), "{}", said.err);
}

#[test]
fn a_command_and_all_it_started_are_killed_when_they_do_not_end_in_time() {
    let quorum = Quorum::start(1);
    let running = start(&quorum, &["--grace", "3s"], STUBBORN);
    let begun = Instant::now();
    for node in quorum.iter() {
        node.run("DLOCK.BREAK job");
    }
    // The output ends only when the last of the processes has ended.
    let said = running.ended().with_code(75);
    assert_eq!(said.out, "in\nasked\n");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn a_command_is_killed_at_once_where_that_is_wanted() {
    let quorum = Quorum::start(1);
    let running = start(&quorum, &["--grace", "0"], STUBBORN);
    quorum[0].run("DLOCK.BREAK job");
    let said = running.ended().with_code(75);
    assert_eq!(said.out, "in\n");
}

#[test]
fn a_command_ends_before_another_begins_when_the_nodes_are_out_of_reach() {
    let quorum = Quorum::start(3);
    let running = start(&quorum, &["--grace", "0"], POLITE);
    for node in quorum.iter() {
        node.network().swallow();
    }
    let said = running.ended().with_code(75);
    for node in quorum.iter() {
        assert!(node.network().has_kept_back(Way::Up), "a renewal that fails is no loss yet");
        assert!(said.err.contains(&node.url()), "{}", said.err);
        node.network().pass();
    }
    quorum.until_empty();
}

#[test]
fn a_command_is_ended_after_its_longest_time() {
    let quorum = Quorum::start(1);
    let begun = Instant::now();
    let running = start(&quorum, &["--max-hold", "5s"], POLITE);
    let said = running.ended().with_code(75);
    assert_eq!(said.out, "in\nasked\n");
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    run(&quorum, &["-n", "job", "--", "true"]).with_code(0);
}

/// The kill fails, as if the processes were root's, or hung in a system call.
#[test]
fn a_lock_that_is_held_stays_held_while_processes_are_left_that_kill_does_not_end() {
    let quorum = Quorum::start(1);
    let mut command = program::with_usual_signals("strace");
    command
        .args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=kill"])
        .args(["-e", "inject=kill:retval=0"])
        .arg(program::path())
        .args(["run", "--max-hold", "100ms", "--grace", "0"])
        .args(["job", "-c", "echo $$; exec sleep 1000"])
        .env("DLOCK_NODES", quorum.urls().join(","))
        .stdin(Stdio::null());
    let running = Running::of(command);
    running.until_it_prints("\n");
    running.until_it_complains("that KILL does not end");
    let left = Pid::from_raw(running.out().trim().parse().expect("a process"));
    run(&quorum, &["-n", "job", "--", "true"]).with_code(1);
    kill(left, None).expect("it is left");
    // Then KILL ends them.
    kill(tracer(&running), Signal::SIGKILL).expect("it runs");
    let said = running.ended().with_code(75);
    assert_eq!(said.err.matches("that KILL does not end").count(), 1, "{}", said.err);
    quorum.until_released();
}

fn tracer(running: &Running) -> Pid {
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).expect("it runs");
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    Pid::from_raw(tracer.and_then(|tracer| tracer.trim().parse().ok()).expect("a tracer"))
}

#[test]
fn a_command_is_ended_after_its_longest_time_though_the_machine_sleeps_meanwhile() {
    let quorum = Quorum::start(1);
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let clock = folder.path().join("clock");
    wall_clock::set(&clock, 0);
    wall_clock::sleep(&clock, 0);
    let mut command = program::command(&quorum.urls());
    wall_clock::preload(&mut command, &clock);
    command.args(["run", "--ttl", "10m", "--max-hold", "1m", "job", "-c", POLITE]);
    let running = Running::of(command);
    running.until_it_prints("in\n");
    wall_clock::sleep(&clock, 60);
    let said = running.ended().with_code(75);
    assert_eq!(said.out, "in\nasked\n");
    assert!(said.err.contains("held for as long as allowed"), "{}", said.err);
}

#[test]
fn a_command_whose_dlock_was_suspended_over_its_lease_is_ended() {
    let quorum = Quorum::start(1);
    let script = format!("echo fence=$DLOCK_FENCE; {STUBBORN}");
    let running = start(&quorum, &["--grace", "3s"], &script);
    running.signal(Signal::SIGSTOP);
    let next = run(&quorum, &["job", "-c", "echo fence=$DLOCK_FENCE"]).with_code(0);
    running.signal(Signal::SIGCONT);
    let said = running.ended().with_code(75);
    assert!(said.out.ends_with("in\nasked\n"), "{}", said.out);
    assert!(said.err.contains("paused") || said.err.contains("suspended"), "{}", said.err);
    assert!(fence(&next.out) > fence(&said.out), "{} {}", next.out, said.out);
    quorum.until_empty();
}

#[test]
fn a_loss_is_told_as_json() {
    let quorum = Quorum::start(1);
    let running = start(&quorum, &["--json", "--grace", "200ms"], STUBBORN);
    quorum[0].run("DLOCK.BREAK job");
    let said = running.ended().with_code(75);
    for event in ["\"acquired\"", "\"started\"", "\"lost\"", "\"killing\""] {
        assert!(said.err.contains(event), "{event}: {}", said.err);
    }
    assert_eq!(reason(&said), "ended");
    let limit = ["--json", "--max-hold", "1s", "job", "--", "sleep", "60"];
    assert_eq!(reason(&Running::start(&quorum, &limit).ended().with_code(75)), "max_hold");
}

/// The reason in the error.
fn reason(said: &Said) -> String {
    let line =
        said.err.lines().find(|line| line.contains(r#""event":"lost""#)).expect("it is told");
    let event: Value = serde_json::from_str(line).expect("it is JSON");
    assert!(event["message"].is_string(), "{event}");
    event["why"].as_str().unwrap_or_default().to_owned()
}

/// Starts it, and waits until its command runs.
fn start(quorum: &Quorum, options: &[&str], script: &str) -> Running {
    let mut arguments = vec!["--ttl", LEASE];
    arguments.extend(options);
    arguments.extend(["job", "-c", script]);
    let running = Running::start(quorum, &arguments);
    running.until_it_prints("in\n");
    running
}

fn fence(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("fence="));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no fence in {text}"))
}
