//! The processes of a command under `dlock run`: each of them keeps the lock, and is ended when the lock is
//! lost.

use std::process::{Command, Stdio};
use std::sync::LazyLock;

use harness::{Quorum, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::LEASE;
use crate::run_terminal::on_a_terminal;
use crate::running::{Running, run};

#[test]
fn a_process_is_ended_wherever_it_has_gone() {
    let quorum = Quorum::start(1);
    let hows = ["threads", "group", "daemon", "chain", "deep"];
    let all = hows.map(|how| {
        // This one ends when it is asked to.
        let grace = if how == "deep" { "10m" } else { "100ms" };
        let options = ["--ttl", LEASE, "--grace", grace, how, "--", *PROGRAM, how];
        let running = Running::start(&quorum, &options);
        process(&running);
        quorum[0].run(&format!("DLOCK.BREAK {how}"));
        running
    });
    // The output ends only when the last of the processes has ended.
    let [.., deep] = all.map(|running| running.ended().with_code(75).out);
    assert!(deep.ends_with("\nasked\n"), "{deep}");
    quorum.until_released();
}

/// A process that a command leaves behind may still use the lock's resource.
#[test]
fn a_lock_is_held_until_the_last_process_of_its_command_has_ended() {
    let quorum = Quorum::start(1);
    for (end, code) in [("exit 7", 7), ("kill -KILL $$", 137)] {
        let script = format!("{} leaves & sleep 0.1; {end}", *PROGRAM);
        let mut running = Running::start(&quorum, &["job", "-c", &script]);
        let left = process(&running);
        running.until_it_complains("run on");
        run(&quorum, &["-n", "job", "--", "true"]).with_code(1);
        assert!(!running.has_ended());
        kill(left, Signal::SIGKILL).expect("it runs");
        running.ended().with_code(code);
        quorum.until_released();
    }
}

#[test]
fn a_signal_ends_what_a_command_has_left_behind() {
    let quorum = Quorum::start(1);
    let script =
        "setsid sh -c \"trap 'echo asked; exit' TERM; echo in; while :; do sleep 0.02; done\" &";
    let running = Running::start(&quorum, &["job", "-c", script]);
    running.until_it_prints("in");
    running.until_it_complains("run on");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.ended().with_code(0).out, "in\nasked\n");
    quorum.until_released();
}

/// A process in another session that dlock cannot see, such as another user's where /proc hides those.
#[test]
fn a_lock_stays_held_while_a_process_is_left_that_proc_does_not_show() {
    let quorum = Quorum::start(1);
    let mut command = in_a_namespace(&quorum, &["--mount"]);
    command.args(["--max-hold", "8s", "--grace", "100ms", "job", "-c"]);
    command.arg(format!("mount -t tmpfs none /proc && exec {} daemon", *PROGRAM));
    let mut running = Running::of(command);
    let daemon = process(&running);
    running.until_it_complains("KILL");
    run(&quorum, &["-n", "job", "--", "true"]).with_code(1);
    assert!(!running.has_ended());
    kill(daemon, Signal::SIGKILL).expect("it is left");
    running.ended().with_code(75);
    quorum.until_released();
}

/// A shell that execs dlock leaves it its children.
#[test]
fn children_that_dlock_had_before_are_no_part_of_the_command() {
    let quorum = Quorum::start(1);
    let mut command = program::with_usual_signals("sh");
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!
        exec \"$0\" run --max-hold 500ms --grace 0 job -- sleep 1000";
    command.arg("-c").arg(script).arg(program::path());
    command.env("DLOCK_NODES", quorum.urls().join(",")).stdin(Stdio::null());
    let said = Running::of(command).ended().with_code(75);
    let other = Pid::from_raw(said.out.trim().parse().expect("a process"));
    kill(other, Signal::SIGKILL).expect("it runs");
    quorum.until_released();
}

#[test]
fn process_1_collects_processes_whatever_signal_has_ended_them() {
    let quorum = Quorum::start(1);
    let mut command = in_a_namespace(&quorum, &["--pid", "--fork", "--mount-proc"]);
    let script = "for signal in 9 34 50; do (sh -c \"kill -$signal \\$\\$\" &); done
        until [ $(ps -o pid= --ppid $PPID | wc -l) = 1 ]; do sleep 0.02; done; echo $PPID";
    command.args(["job", "-c", script]);
    let said = Running::of(command).ended().with_code(0);
    assert_eq!(said.out, "1\n");
    quorum.until_released();
}

#[test]
fn ctrl_c_ends_process_1_with_the_exit_code_of_a_shell() {
    let quorum = Quorum::start(1);
    let user = if geteuid().is_root() { "" } else { "--map-root-user" };
    let mut typed = on_a_terminal(
        &quorum,
        &format!(
            "trap : INT; unshare {user} --pid --fork --mount-proc \
             $DLOCK run job -c 'echo in; exec sleep 100'; echo \"code $?\""
        ),
    );
    typed.until_it_prints("in");
    typed.write(b"\x03");
    typed.until_it_prints("code 130");
    typed.ended().with_code(0);
    quorum.until_released();
}

/// `dlock run` in namespaces of its own.
fn in_a_namespace(quorum: &Quorum, which: &[&str]) -> Command {
    let mut command = program::with_usual_signals("unshare");
    command.args((!geteuid().is_root()).then_some("--map-root-user")).args(which);
    command.arg(program::path()).arg("run");
    command.env("DLOCK_NODES", quorum.urls().join(",")).stdin(Stdio::null());
    command
}

/// Waits until it has begun.
#[track_caller]
fn process(running: &Running) -> Pid {
    running.until_it_prints("\n");
    let out = running.out();
    let number = out.trim().strip_prefix("in ").and_then(|number| number.parse().ok());
    Pid::from_raw(number.unwrap_or_else(|| panic!("no process in {out}")))
}

/// The commands, compiled once for a test run.
static PROGRAM: LazyLock<&str> = LazyLock::new(|| {
    let to = concat!(env!("CARGO_TARGET_TMPDIR"), "/processes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/processes.c");
    let compiled = Command::new("gcc").args(["-Wall", "-pthread", "-o", to, source]).status();
    assert!(compiled.expect("gcc is missing: run `make setup`").success(), "{source}");
    to
});
