//! `dlock run` on a terminal: `script` makes one.

use std::process::Stdio;

use harness::{Quorum, program};

use crate::LEASE;
use crate::running::Running;

const CTRL_C: &[u8] = b"\x03";

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
    let inner = "trap \"echo got; exit 7\" INT; echo in; while :; do sleep 0.02; done";
    let mut typed = on_a_terminal(&quorum, &format!("$DLOCK run job -c '{inner}'"));
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

#[test]
fn two_commands_of_one_job_have_the_terminal_one_after_the_other() {
    let quorum = Quorum::start(1);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let reads = folder.path().join("reads").display().to_string();
    let first = format!("$DLOCK run a -c 'touch {reads}; read line; echo first $line'");
    let second = "$DLOCK run b -c 'echo in; read line </dev/tty; echo second $line' </dev/null";
    // A shell with job control would print that the job was stopped, and go on.
    let job = format!("{{ until [ -e {reads} ]; do sleep 0.02; done; {second}; }} & {first}; wait");
    let job = job.replace('\'', "'\\''");
    let mut typed = on_a_terminal(&quorum, &format!("set -m; sh -c '{job}'; echo \"code $?\""));
    typed.until_it_prints("in");
    typed.write(b"1\n");
    typed.until_it_prints("first 1");
    typed.write(b"2\n");
    typed.until_it_prints("second 2");
    typed.until_it_prints("code 0");
    typed.ended().with_code(0);
}

/// Such a read stops the whole group of the process, and with a stopped dlock the lock would expire.
#[test]
fn a_lock_is_renewed_while_another_process_of_the_job_reads_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let begun = folder.path().join("begun").display().to_string();
    let reads = format!(
        "until [ -e {begun} ]; do sleep 0.02; done; read line </dev/tty; echo got $line; sleep 2"
    );
    let run = format!("$DLOCK run --ttl {LEASE} job -c 'touch {begun}; sleep 2; echo ran >&2'");
    let piped = format!("{run} | {{ {reads}; }}");
    let beside = format!("exec 3<&0; {run} <&3 & ({reads}); wait $!");
    for job in [piped, beside] {
        let quorum = Quorum::start(1);
        let job = job.replace('\'', "'\\''");
        // The job's own shell does not stop: the shell with job control would take the terminal if it saw that before
        // dlock has continued the job.
        let job = format!("trap : TTIN; {job}");
        let mut typed = on_a_terminal(&quorum, &format!("set -m; sh -c '{job}'; echo \"code $?\""));
        typed.write(b"1\n");
        typed.until_it_prints("got 1");
        typed.until_it_prints("ran");
        typed.until_it_prints("code 0");
        typed.ended().with_code(0);
        std::fs::remove_file(&begun).expect("the command has begun");
    }
}

#[test]
fn a_shell_has_its_terminal_again_afterwards() {
    let quorum = Quorum::start(1);
    let mut typed = on_a_terminal(
        &quorum,
        "$DLOCK run job -- true; $DLOCK run job -c 'exit 3'; echo \"code $?\"; \
         read line; echo \"got $line\"",
    );
    typed.until_it_prints("code 3");
    typed.write(b"hello\n");
    typed.until_it_prints("got hello");
    typed.ended().with_code(0);
}

/// A killed editor, say, has no time to set the terminal's modes again. In a nested run its group is not the outer command's.
#[test]
fn a_command_that_is_killed_leaves_no_raw_terminal() {
    let raw = "-c 'stty raw -echo; echo in; exec sleep 100'";
    let nested = format!("-- $DLOCK run inner {raw}");
    for (grace, inner) in [("5s", raw), ("0", &nested)] {
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
