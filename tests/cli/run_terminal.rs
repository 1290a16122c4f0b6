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

#[test]
fn ctrl_z_stops_dlock_with_its_command_which_ends_if_it_goes_on_after_the_lease() {
    let quorum = Quorum::start(1);
    let run =
        format!("$DLOCK run --ttl {LEASE} job -c 'trap \"echo asked\" TERM; echo in; read line'");
    // The lock is free when the lease of the stopped holder has ended.
    let script = format!("set -m; {run}; $DLOCK run job -- echo next; fg; echo \"code $?\"");
    let mut typed = on_a_terminal(&quorum, &script);
    typed.until_it_prints("in");
    typed.write(CTRL_Z);
    typed.until_it_prints("next");
    typed.until_it_prints("code 75");
    typed.ended().with_code(0);
}

/// A key reaches the processes of one group.
#[test]
fn ctrl_z_stops_processes_in_other_groups_too_and_fg_continues_them() {
    let quorum = Quorum::start(1);
    let works = "echo in; while [ -e FILE ]; do echo >>FILE; sleep 0.02; done; exit 3";
    for inner in [
        format!("-c 'timeout 100 sh -c \"{works}\"; exit 3'"),
        format!("-c 'setsid sh -c \"{works}\"; exit 3'"),
        format!("-- $DLOCK run inner -c 'timeout 100 sh -c \"{works}\"; exit 3'"),
    ] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let file = folder.path().join("file").display().to_string();
        let looks = "before=$(wc -c <FILE); sleep 0.3; echo \"wrote $(($(wc -c <FILE) - before))\"";
        let run = format!("$DLOCK run job {inner}");
        let script = format!("touch FILE; set -m; {run}; {looks}; rm FILE; fg; echo \"code $?\"");
        let mut typed = on_a_terminal(&quorum, &script.replace("FILE", &file));
        typed.until_it_prints("in");
        typed.write(CTRL_Z);
        typed.until_it_prints("wrote 0");
        typed.until_it_prints("code 3");
        typed.ended().with_code(0);
        quorum.until_released();
    }
}

#[test]
fn dlock_goes_on_when_another_process_stops_its_command_and_continues_it() {
    let quorum = Quorum::start(1);
    let inner = "(sleep 0.5; kill -CONT $$) & kill -STOP $$; exit 3";
    let run = format!("set -m; $DLOCK run job -c '{inner}'; echo \"code $?\"");
    let typed = on_a_terminal(&quorum, &run);
    typed.until_it_prints("code 3");
    typed.ended().with_code(0);
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
fn dlock_goes_on_when_its_command_ignores_ctrl_z() {
    let quorum = Quorum::start(1);
    let inner = "trap \"\" TSTP; echo in; read line; echo got $line";
    let script = format!("set -m; $DLOCK run job -c '{inner}'; echo \"code $?\"");
    let mut typed = on_a_terminal(&quorum, &script);
    typed.until_it_prints("in");
    typed.write(CTRL_Z);
    typed.write(b"1\n");
    typed.until_it_prints("got 1");
    typed.until_it_prints("code 0");
    typed.ended().with_code(0);
}

#[test]
fn ctrl_z_leaves_a_process_time_to_tidy_up() {
    let quorum = Quorum::start(1);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("tidies.sh");
    let tidies = "trap 'read -t 0.5 line; echo tidied; kill -STOP $$' TSTP; echo in; while :; do read -t 0.05 line; done";
    std::fs::write(&file, tidies).expect("there is room");
    let run = format!("$DLOCK run job -c 'bash {}; true'", file.display());
    let mut typed = on_a_terminal(&quorum, &format!("set -m; {run}; echo stopped"));
    typed.until_it_prints("in");
    typed.write(CTRL_Z);
    typed.until_it_prints("tidied");
    typed.until_it_prints("stopped");
}

/// A process that goes on works, so its lock is renewed.
#[test]
fn dlock_goes_on_while_one_process_does_not_stop() {
    let quorum = Quorum::start(1);
    let inner = "(trap \"\" TSTP; echo in; sleep 1; kill -CONT $$); exit 3";
    let run = format!("set -m; $DLOCK run --ttl 300ms job -c '{inner}'; echo \"code $?\"");
    let mut typed = on_a_terminal(&quorum, &run);
    typed.until_it_prints("in");
    typed.write(CTRL_Z);
    typed.until_it_prints("code 3");
    typed.ended().with_code(0);
}

#[test]
fn ctrl_z_after_the_end_of_the_first_process_stops_what_is_left() {
    let quorum = Quorum::start(1);
    let script = "set -m; $DLOCK run job -c 'sleep 100 &'; echo stopped";
    let mut typed = on_a_terminal(&quorum, script);
    typed.until_it_prints("run on");
    typed.write(CTRL_Z);
    typed.until_it_prints("stopped");
}

/// As vim does for its own Ctrl-Z.
#[test]
fn a_command_that_stops_its_group_goes_on_with_fg() {
    let quorum = Quorum::start(1);
    let stops = "echo in; kill -TSTP 0; echo on; sleep 1; exit 3";
    for inner in [format!("-c '{stops}'"), format!("-- $DLOCK run inner -c '{stops}'")] {
        let script = format!("set -m; $DLOCK run job {inner}; echo stopped; fg; echo \"code $?\"");
        let typed = on_a_terminal(&quorum, &script);
        typed.until_it_prints("stopped");
        typed.until_it_prints("code 3");
        typed.ended().with_code(0);
        quorum.until_released();
    }
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
