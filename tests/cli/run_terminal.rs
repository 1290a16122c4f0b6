//! `dlock run` on a terminal: `script` makes one.

use std::process::Stdio;

use harness::{Quorum, program};
use nix::sys::signal::Signal;

use crate::LEASE;
use crate::running::Running;

const CTRL_C: &[u8] = b"\x03";
const CTRL_S: &[u8] = b"\x13";
const CTRL_Z: &[u8] = b"\x1a";

#[test]
fn a_command_has_the_terminal_and_reads_from_it() {
    let quorum = Quorum::start(1);
    let inner = "test -t 0 && test -t 1 && test -t 2 && echo all; read line; echo \"got $line\"";
    let mut typed = on_a_terminal(&quorum, &format!("$DLOCK run job -c '{inner}'"));
    typed.until_it_prints("all");
    typed.write(b"hello\n");
    typed.until_it_prints("got hello");
    typed.ended().with_code(0);
    quorum.until_released();
}

#[test]
fn ctrl_c_ends_the_command_and_gives_the_lock_back() {
    let quorum = Quorum::start(1);
    // Ctrl-C may come twice in the first moment.
    let inner = "trap \"echo got; exit 7\" INT; sleep 0.3; echo in; while :; do sleep 0.02; done";
    let mut typed = on_a_terminal(&quorum, &format!("exec $DLOCK run job -c '{inner}'"));
    typed.until_it_prints("in");
    typed.write(CTRL_C);
    let said = typed.ended().with_code(7);
    assert_eq!(said.out.matches("got").count(), 1, "it gets the signal once: {}", said.out);
    quorum.until_released();
}

#[test]
fn ctrl_c_leaves_a_loop_that_waits_for_the_nodes() {
    let quorum = Quorum::start(1);
    quorum[0].network().refuse();
    let waits = "until $DLOCK ready --verbose --wait 10m; do echo again; done";
    let mut typed = on_a_terminal(&quorum, &format!("exec bash -c '{waits}'"));
    typed.until_it_prints("waits for");
    typed.write(CTRL_C);
    let said = typed.ended();
    assert!(!said.out.contains("again"), "{}", said.out);
}

#[test]
fn ctrl_c_leaves_a_loop_of_commands_whose_output_goes_elsewhere() {
    for elsewhere in [">/dev/null", "</dev/null"] {
        let quorum = Quorum::start(1);
        let run = format!("$DLOCK run job -c \"echo in >&2; exec sleep 100\" {elsewhere}");
        let rounds = format!("for n in 1 2; do echo round $n; {run}; done");
        let mut typed = on_a_terminal(&quorum, &format!("exec bash -c '{rounds}'"));
        typed.until_it_prints("in");
        typed.write(CTRL_C);
        let said = typed.ended();
        assert!(!said.out.contains("round 2"), "{elsewhere}: {}", said.out);
    }
}

/// `timeout` puts it into the background, where reading stops a job, and continues it to end it.
#[test]
fn a_command_that_reads_in_the_background_ends_by_a_signal() {
    let quorum = Quorum::start(1);
    let run = "timeout 1 $DLOCK run job -c 'read line </dev/tty'; echo \"code $?\"";
    let typed = on_a_terminal(&quorum, run);
    typed.until_it_prints("code 124");
    typed.ended().with_code(0);
    quorum.until_released();
}

/// The lock is renewed as before.
#[test]
fn ctrl_z_has_no_effect() {
    let quorum = Quorum::start(1);
    let waits = "echo in; read line; exit 3";
    for inner in [
        format!("-c '{waits}'"),
        format!("-c 'timeout --foreground 100 sh -c \"{waits}\"; exit 3'"),
        format!("-- $DLOCK run inner -c '{waits}'"),
        // As vim does.
        "-c 'kill -TSTP 0; echo in; read line; exit 3'".to_owned(),
    ] {
        let script = format!("set -m; $DLOCK run job {inner}; echo \"code $?\"");
        let mut typed = on_a_terminal(&quorum, &script);
        typed.until_it_prints("in");
        typed.write(CTRL_Z);
        typed.write(b"\n");
        typed.until_it_prints("code 3");
        typed.ended().with_code(0);
        quorum.until_released();
    }
}

/// A shell such as bash continues no job that it takes for running.
#[test]
fn a_command_that_reads_in_the_background_goes_on_with_fg() {
    let quorum = Quorum::start(1);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("script");
    let runs = format!("$DLOCK run --ttl {LEASE} job -c 'echo in; read line </dev/tty; exit 3'");
    let held = "until $DLOCK inspect job >inspected; do sleep 0.1; done; sleep 1; echo held";
    let script =
        format!("cd {}; set -m; {runs} & {held}; fg; echo \"code $?\"", folder.path().display());
    std::fs::write(&file, script).expect("there is room");
    let mut typed = on_a_terminal(&quorum, &format!("exec bash {}", file.display()));
    typed.until_it_prints("held");
    typed.write(b"line\n");
    typed.until_it_prints("code 3");
    typed.ended().with_code(0);
}

#[test]
fn dlock_goes_on_when_another_process_stops_its_command_and_continues_it() {
    let quorum = Quorum::start(1);
    for signal in ["STOP", "TSTP"] {
        let inner = format!("(sleep 0.5; kill -CONT $$) & kill -{signal} $$; exit 3");
        let run = format!("set -m; $DLOCK run job -c '{inner}'; echo \"code $?\"");
        let typed = on_a_terminal(&quorum, &run);
        typed.until_it_prints("code 3");
        typed.ended().with_code(0);
    }
}

#[test]
fn ctrl_c_ends_a_command_in_a_group_of_its_own() {
    let quorum = Quorum::start(1);
    let inner = "timeout 100 sh -c 'sleep 0.3; echo in; exec sleep 100'";
    let mut typed = on_a_terminal(&quorum, &format!("exec $DLOCK run job -- {inner}"));
    typed.until_it_prints("in");
    typed.write(CTRL_C);
    typed.ended();
    quorum.until_released();
}

/// The kernel tells the leader of the session alone, which is dlock if a shell has become it.
#[test]
fn the_end_of_the_terminal_ends_the_command() {
    let quorum = Quorum::start(1);
    let typed =
        on_a_terminal(&quorum, "exec $DLOCK run job -c 'sleep 0.3; echo in; exec sleep 100'");
    typed.until_it_prints("in");
    typed.signal(Signal::SIGKILL);
    quorum.until_released();
}

#[test]
fn a_lock_is_released_though_the_terminal_takes_no_output() {
    let quorum = Quorum::start(1);
    let run = "exec $DLOCK run --max-hold 1s --grace 0 job -c 'echo in; exec sleep 100'";
    let mut typed = on_a_terminal(&quorum, run);
    typed.until_it_prints("in");
    typed.write(CTRL_S);
    quorum.until_released();
}

#[test]
fn a_pagers_terminal_is_left_as_it_is() {
    let quorum = Quorum::start(1);
    let pager = "{ sleep 0.5; stty -ixon </dev/tty; }";
    let script = format!("$DLOCK run job -c 'sleep 1; kill -KILL $$' | {pager}; stty --all");
    let said = on_a_terminal(&quorum, &script).ended().with_code(0);
    assert!(said.out.contains(" -ixon "), "{}", said.out);
}

/// A killed editor, say, has no time to set the terminal's modes again. A shell has a group of its own.
#[test]
fn a_command_that_is_killed_leaves_no_raw_terminal() {
    let raw = "-c 'stty raw -echo; echo in; exec sleep 100'";
    let nested = format!("-- $DLOCK run inner {raw}");
    let shell = "-- sh -c 'set -m; stty raw -echo; echo in; sleep 100'";
    for (grace, inner) in [("5s", raw), ("0", &nested), ("0", shell)] {
        let quorum = Quorum::start(1);
        let script = format!("$DLOCK run --grace {grace} --ttl {LEASE} job {inner}; stty --all");
        let typed = on_a_terminal(&quorum, &script);
        typed.until_it_prints("in");
        quorum[0].run("DLOCK.BREAK job");
        let said = typed.ended();
        assert!(said.out.contains("isig icanon "), "{inner}: {}", said.out);
    }
}

/// A shell on a terminal, with these nodes and the program as `$DLOCK`. Its output is the terminal's, and its
/// input is typed.
pub fn on_a_terminal(quorum: &Quorum, script: &str) -> Running {
    let nodes = program::command(&quorum.urls());
    let mut command = program::with_usual_signals("script");
    command.args(["--quiet", "--return", "--echo", "never", "--command", script]).arg("/dev/null");
    for (name, value) in nodes.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let dlock = format!("{} --node-timeout {}", program::path().display(), program::PATIENT);
    command.env("DLOCK", dlock).env("SHELL", "/bin/sh").stdin(Stdio::piped());
    Running::of(command)
}
