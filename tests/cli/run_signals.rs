//! Signals, while `dlock run` waits and while its command runs.

use std::fs;
use std::process::{Command, Stdio};

use harness::{Quorum, eventually, program, scratch};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use tempfile::TempDir;

use crate::LEASE;
use crate::run::{End, hold};
use crate::running::{Running, run};

#[test]
fn a_wait_ends_by_a_signal_and_leaves_no_waiter() {
    let quorum = Quorum::start(1);
    let _holder = hold(&quorum, "job");
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let waiting = Running::start(&quorum, &["job", "--", "echo", "run"]);
        eventually("it waits", || quorum[0].node("waiters").int() == 1);
        waiting.signal(signal);
        let said = waiting.ended().with_code(code);
        assert_eq!(said.out, "");
        eventually("nobody waits", || quorum.iter().all(|node| node.node("waiters").int() == 0));
    }
}

#[test]
fn a_command_ends_though_the_parent_of_dlock_has_blocked_its_signal_or_ignores_it() {
    for how in ["--block-signal=CHLD", "--ignore-signal=CHLD"] {
        let quorum = Quorum::start(1);
        let mut command = program::with_usual_signals("env");
        command.arg(how).arg(program::path());
        command.args(["run", "job", "-c", "exit 7"]).env("DLOCK_NODES", quorum.urls().join(","));
        Running::of(command).ended().with_code(7);
        quorum.until_released();
    }
}

/// dlock is delayed after each handler that it installs: for a tenth of a second there is a handler, and
/// maybe no listener.
#[test]
fn a_signal_is_heard_from_the_moment_at_which_it_is_caught() {
    let quorum = Quorum::start(1);
    let _holder = hold(&quorum, "job");
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut command = program::with_usual_signals("strace");
        command
            .args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=rt_sigaction"])
            .args(["-e", "inject=rt_sigaction:delay_exit=100000"])
            .arg(program::path())
            .args(["run", "job", "--", "true"])
            .env("DLOCK_NODES", quorum.urls().join(","))
            .stdin(Stdio::null());
        let waiting = Running::of(command);
        until_it_catches(&waiting, signal);
        waiting.signal(signal);
        waiting.ended().with_code(code);
        eventually("nobody waits", || quorum[0].node("waiters").int() == 0);
    }
}

/// As process 1: a signal without a handler would not reach it.
#[test]
fn signals_are_caught_while_dlock_connects() {
    let quorum = Quorum::start(1);
    quorum[0].network().swallow();
    for subcommand in [&["run", "job", "--", "true"][..], &["acquire", "job"]] {
        let mut command = program::command(&quorum.urls());
        command.args(["--node-timeout", "1h"]).args(subcommand);
        let connecting = Running::of(command);
        until_it_catches(&connecting, Signal::SIGTERM);
        connecting.signal(Signal::SIGTERM);
        connecting.ended().with_code(143);
    }
}

/// The file of host names is a pipe without a writer: a look-up lasts.
#[test]
fn a_signal_ends_dlock_while_a_name_is_looked_up() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let hosts = folder.path().join("hosts");
    mkfifo(&hosts, Mode::S_IRUSR).expect("a pipe can be made");
    let mut command = program::with_usual_signals("unshare");
    let script =
        "mount --bind \"$1\" /etc/hosts && exec \"$2\" --nodes name.invalid:1 run job -- true";
    command.args((!geteuid().is_root()).then_some("--map-root-user"));
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&hosts).arg(program::path());
    let looking = Running::of(command);
    looking.until_it_complains("no majority");
    looking.signal(Signal::SIGTERM);
    looking.ended().with_code(143);
}

#[track_caller]
fn until_it_catches(running: &Running, signal: Signal) {
    eventually("it catches the signal", || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.id()));
        let status = status.expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16);
        caught.expect("a number") & (1 << (signal as i32 - 1)) != 0
    });
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let quorum = Quorum::start(1);
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGALRM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ] {
        let name = signal.as_str().trim_start_matches("SIG");
        let script =
            format!("trap 'echo got; exit 7' {name}; echo in; while :; do sleep 0.02; done");
        let running = Running::start(&quorum, &["job", "-c", &script]);
        running.until_it_prints("in");
        running.signal(signal);
        let said = running.ended().with_code(7);
        assert_eq!(said.out, "in\ngot\n", "{signal}");
        quorum.until_released();
    }
}

/// The kernel sends it, as it sends Ctrl-C, but to dlock alone.
#[test]
fn a_timer_that_the_caller_set_ends_the_command() {
    let quorum = Quorum::start(1);
    let mut command = program::with_usual_signals("perl");
    command.env("DLOCK_NODES", quorum.urls().join(","));
    command.args(["-e", "alarm shift; exec @ARGV", "1"]).arg(program::path());
    program::run(command.args(["run", "job", "--", "sleep", "60"])).with_code(142);
}

/// The program's file is replaced between the two, as an upgrade does.
#[test]
fn the_command_of_two_dlock_run_gets_a_signal_once() {
    let (quorum, folder) = (Quorum::start(1), scratch::folder());
    let file = folder.path().join("dlock");
    fs::copy(program::path(), &file).expect("there is room");
    let script = "trap 'echo got' USR1; echo in; while :; do sleep 0.02 & wait; done";
    let upgrade = "cp \"$0\" \"$0.new\" && mv \"$0.new\" \"$0\" && exec \"$0\" \"$@\"";
    let mut command = program::with_usual_signals(&file);
    command.env("DLOCK_NODES", quorum.urls().join(",")).args(["run", "a", "--"]);
    command.args(["sh", "-c", upgrade]).arg(&file).args(["run", "b", "-c", script]);
    let running = Running::of(command);
    running.until_it_prints("in");
    for times in 1..=20 {
        running.signal(Signal::SIGUSR1);
        eventually("it gets the signal", || running.out().matches("got").count() >= times);
    }
    running.signal(Signal::SIGTERM);
    let said = running.ended().with_code(143);
    assert_eq!(said.out.matches("got").count(), 20, "{}", said.out);
    quorum.until_released();
}

/// A shell leaves its loop only if it has received the signal, too.
#[test]
fn a_signal_to_the_command_alone_does_not_end_the_script() {
    let quorum = Quorum::start(1);
    let mut command = program::with_usual_signals("bash");
    let script = "\"$0\" run job -c 'kill -INT $$'; echo \"code $?\"";
    command.args(["-c", script]).arg(program::path());
    command.env("DLOCK_NODES", quorum.urls().join(",")).stdin(Stdio::null());
    assert_eq!(Running::of(command).ended().with_code(0).out, "code 130\n");
    quorum.until_released();
}

/// A stopped process receives the signal when it goes on.
#[test]
fn a_command_that_is_stopped_ends_by_a_signal_to_dlock() {
    let quorum = Quorum::start(1);
    let script = "trap 'echo asked; exit 7' TERM; echo in; kill -STOP $$";
    let running = Running::start(&quorum, &["job", "-c", script]);
    running.until_it_prints("in");
    eventually("it is stopped", || states(running.id()).contains('T'));
    running.signal(Signal::SIGTERM);
    let said = running.ended().with_code(7);
    assert_eq!(said.out, "in\nasked\n");
    quorum.until_released();
}

#[test]
fn a_stopped_process_that_outlives_the_first_one_ends_by_a_signal_to_dlock() {
    let quorum = Quorum::start(1);
    let script = "sleep 600 & kill -STOP $!; exit 3";
    let running = Running::start(&quorum, &["job", "-c", script]);
    eventually("only the stopped one is left", || states(running.id()).trim() == "T");
    running.signal(Signal::SIGTERM);
    running.ended().with_code(3);
    quorum.until_released();
}

/// The states of the children of a process.
fn states(parent: u32) -> String {
    let listed = Command::new("ps").args(["-o", "s=", "--ppid", &parent.to_string()]).output();
    String::from_utf8_lossy(&listed.expect("there is ps").stdout).into_owned()
}

#[test]
fn a_command_that_goes_on_after_a_signal_keeps_its_lock() {
    let quorum = Quorum::start(1);
    let end = End::new();
    let script = format!("{}; echo done", end.after("trap 'echo got' TERM; echo in"));
    let running = Running::start(&quorum, &["job", "-c", &script]);
    running.until_it_prints("in");
    running.signal(Signal::SIGTERM);
    running.until_it_prints("got");
    assert!(quorum.held("job") == 1);
    end.comes();
    let said = running.ended().with_code(0);
    assert_eq!(said.out, "in\ngot\ndone\n");
}

#[test]
fn a_command_whose_dlock_is_killed_is_ended_and_its_lock_with_the_lease() {
    let quorum = Quorum::start(1);
    let script = "trap 'echo got; exit' TERM; echo in $$; while :; do sleep 0.02; done";
    let running = Running::start(&quorum, &["--ttl", LEASE, "job", "-c", script]);
    running.until_it_prints("\n");
    running.signal(Signal::SIGKILL);
    let said = running.ended().with_code(137);
    assert!(said.out.ends_with("got\n"), "{}", said.out);
    run(&quorum, &["job", "--", "true"]).with_code(0);
    quorum.until_empty();
}
