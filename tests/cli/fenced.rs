//! `dlock fenced MARK -- COMMAND`, and with a file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::program::{self, Said};
use harness::{Kind, Server};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::running::Running;
use crate::{address, dlock, on_two_servers, servers};

on_two_servers! {
    fn a_late_holder_is_told_and_changes_nothing(kind: Kind) {
        let server = servers(kind, 1);
        let fenced = |fence: &str, command: &[&str]| {
            dlock(&server, &[&["fenced", "--fence", fence, "mark", "--"][..], command].concat())
        };
        assert_eq!(fenced("7", &["SET", "a", "1"]).with_code(0).out, "OK\n");
        assert_eq!(fenced("7", &["GET", "a"]).with_code(0).out, "1\n");
        let late = fenced("6", &["SET", "a", "2"]).with_code(75);
        assert!(late.err.contains("a later holder has been there, with fence 7"), "{}", late.err);
        assert_eq!((late.out.as_str(), late.err.lines().count()), ("", 1));
        assert_eq!(server[0].run("GET a").text(), "1");
        assert_eq!(fenced("8", &[]).with_code(0).out, "OK\n");
        assert_eq!(server[0].run("DLOCK.MARK mark").int(), 8);
        assert_eq!(fenced("8", &["NOPE"]).with_code(65).out, "");
        assert_eq!(fenced("8", &["GET", "nothing"]).with_code(0).out, "\n");
    }
}

#[test]
fn run_passes_its_fence_on() {
    let nodes = servers(Kind::Redis82, 3);
    let data = Server::start(Kind::Redis82);
    let script = format!(
        "\"$DLOCK\" --node-timeout {} fenced --data {} '{{a}}:mark' -- SET a $DLOCK_FENCE",
        program::PATIENT,
        address(&data)
    );
    let mut command = program::command(&crate::addresses(&nodes));
    command.env("DLOCK", program::path()).args(["run", "a", "-c", &script]);
    program::run(&mut command).with_code(0);
    let fence = data.run("DLOCK.MARK {a}:mark").int();
    assert_eq!(data.run("GET a").text(), fence.to_string());
    program::run(&mut command).with_code(0);
    assert!(data.run("DLOCK.MARK {a}:mark").int() > fence);
    let password = format!("redis://:secret@{}", address(&data));
    data.run("CONFIG SET requirepass secret");
    let mut command = program::command(&crate::addresses(&nodes));
    command.env("DLOCK_DATA", password).args(["fenced", "--fence", "1", "{a}:mark"]);
    program::run(&mut command).with_code(75);
}

#[test]
fn wrong_usage_has_its_code() {
    let nodes = servers(Kind::Redis82, 2);
    dlock(&nodes, &["fenced", "mark", "--", "GET", "a"]).with_code(64);
    dlock(&nodes, &["fenced", "--fence", "1 2", "mark", "--", "GET", "a"]).with_code(64);
    let which = dlock(&nodes, &["fenced", "--fence", "7", "mark", "--", "GET", "a"]).with_code(64);
    assert!(which.err.contains("--data"), "{}", which.err);
    let away = ["fenced", "--fence", "7", "--data", "127.0.0.1:1", "mark", "--", "GET", "a"];
    dlock(&nodes, &away).with_code(69);
}

#[test]
fn a_file_is_replaced_by_later_holders_only() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let path = |name: &str| folder.path().join(name);
    let put = |fence: u64, text: &str| {
        fs::write(path("new"), text).expect("it can be written");
        file(folder.path(), fence, &["mv", "new", "data"])
    };
    put(1_795_238_075_371_227, "one").with_code(0);
    put(1_795_238_075_371_228, "two").with_code(0);
    let late = put(1_795_238_075_371_227, "late").with_code(75);
    assert!(late.err.contains("with fence 1795238075371228"), "{}", late.err);
    assert_eq!(fs::read_to_string(path("data")).expect("it is there"), "two");
    put(1_795_238_075_371_228, "three").with_code(0);
    assert_eq!(fs::read_to_string(path("data")).expect("it is there"), "three");
    file(folder.path(), 1_795_238_075_371_228, &["sh", "-c", "exit 7"]).with_code(7);
    file(folder.path(), 1_795_238_075_371_228, &["no-such-program"]).with_code(127);
    fs::write(path("data.fence"), "nonsense\n").expect("it can be written");
    put(1_795_238_075_371_229, "four").with_code(70);
    assert_eq!(fs::read_to_string(path("data")).expect("it is there"), "three");
}

#[test]
fn a_program_keeps_the_files_lock_as_long_as_it_runs() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let script = "trap 'echo asked' TERM; echo in; until [ -e end ]; do sleep 0.02; done";
    let running = Running::of(fenced(folder.path(), 7, &["sh", "-c", script]));
    running.until_it_prints("in");
    running.signal(Signal::SIGKILL);
    running.until_it_prints("asked");
    assert!(is_locked(folder.path()));
    fs::write(folder.path().join("end"), "").expect("it can be written");
    running.ended().with_code(137);
    file(folder.path(), 8, &["true"]).with_code(0);
}

/// Also if SIGCHLD is ignored at the start, so that dlock could not wait for the program.
#[test]
fn a_program_that_closes_what_it_has_inherited_keeps_the_files_lock() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let script =
        "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -lt 3 ] || eval \"exec $fd>&-\"; done
        echo in; until [ -e end ]; do sleep 0.02; done; exit 7";
    let mut ignoring = Command::new("env");
    ignoring.arg("--ignore-signal=CHLD").arg(program::path()).args(["fenced", "--fence", "7"]);
    ignoring.args(["--file", "data.fence", "--", "bash", "-c", script]);
    ignoring.current_dir(folder.path()).stdin(Stdio::null());
    let running = Running::of(ignoring);
    running.until_it_prints("in");
    assert!(is_locked(folder.path()));
    fs::write(folder.path().join("end"), "").expect("it can be written");
    running.ended().with_code(7);
    assert!(!is_locked(folder.path()));
}

#[test]
fn a_mark_in_a_file_is_written_whole() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let (mark, calls) = (folder.path().join("data.fence"), folder.path().join("calls"));
    for fence in ["7", "1795238075371227"] {
        let mut watched = Command::new("strace");
        watched.args(["-f", "-e", "trace=write,writev,pwrite64", "-P"]).arg(&mark);
        watched.arg("-o").arg(&calls).arg(program::path()).args(["fenced", "--fence", fence]);
        program::run(watched.arg("--file").arg(&mark)).with_code(0);
        let calls = fs::read_to_string(&calls).expect("strace has written it");
        assert_eq!(calls.matches("write").count(), 1, "{calls}");
    }
}

#[test]
fn a_program_runs_only_when_its_mark_is_synced_also_at_a_second_try() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    for _ in 0..2 {
        let mut failing = Command::new("strace");
        failing.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO"]);
        failing.arg(program::path()).args(["fenced", "--fence", "7", "--file", "data.fence"]);
        failing.args(["--", "touch", "run"]).current_dir(folder.path());
        program::run(&mut failing).with_code(70);
        assert!(!folder.path().join("run").exists());
    }
    file(folder.path(), 7, &["touch", "run"]).with_code(0);
    assert!(folder.path().join("run").exists());
}

#[test]
fn a_folder_that_may_not_be_read_is_no_hindrance() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o300)).expect("it is ours");
    let mut command = Command::new("env");
    if geteuid().is_root() {
        // Only its user's rights, without root's.
        command.args(["setpriv", "--bounding-set=-dac_override,-dac_read_search"]);
    }
    command.arg(program::path()).args(["fenced", "--fence", "7", "--file", "data.fence"]);
    program::run(command.args(["--", "touch", "run"]).current_dir(folder.path())).with_code(0);
    assert!(folder.path().join("run").exists());
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("it is ours");
}

#[test]
fn of_many_at_once_the_last_fence_is_what_stays() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    std::thread::scope(|scope| {
        for fence in 1..=20 {
            let folder = folder.path();
            scope.spawn(move || {
                let new = format!("new-{fence}");
                fs::write(folder.join(&new), fence.to_string()).expect("it can be written");
                let said = file(folder, fence, &["mv", &new, "data"]);
                assert!([Some(0), Some(75)].contains(&said.code), "{said:#?}");
            });
        }
    });
    assert_eq!(fs::read_to_string(folder.path().join("data")).expect("it is there"), "20");
}

fn is_locked(folder: &Path) -> bool {
    let mark = fs::File::open(folder.join("data.fence")).expect("it is there");
    Flock::lock(mark, FlockArg::LockExclusiveNonblock).is_err()
}

fn file(folder: &Path, fence: u64, command: &[&str]) -> Said {
    program::run(&mut fenced(folder, fence, command))
}

fn fenced(folder: &Path, fence: u64, command: &[&str]) -> Command {
    let mut program = program::command(&[]);
    program.current_dir(folder).env("DLOCK_FENCE", fence.to_string());
    program.args(["fenced", "--file", "data.fence", "--"]).args(command);
    program
}
