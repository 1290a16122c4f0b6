//! The programs of docs/agent, each with its client library, through `dlock agent`; and the agent as a service.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread;

use harness::{Agent, Kind, Quorum, Server, eventually, process, program};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{installed, top};

/// The programs, and how each is run.
fn programs() -> Vec<(&'static str, Command)> {
    let by = |interpreter: PathBuf, arguments: &[&str], name| {
        let mut command = Command::new(interpreter);
        command.args(arguments).arg(source(name));
        (name, command)
    };
    vec![
        by("sh".into(), &[], "lock.sh"),
        by("php".into(), &[], "phpredis.php"),
        by("ruby".into(), &[], "redis_rb.rb"),
        ("go_redis.go", Command::new(&*COMPILED_GO)),
    ]
}

/// The program in Go.
static COMPILED_GO: LazyLock<PathBuf> =
    LazyLock::new(|| compiled(installed("go/go"), &["build"], "go_redis.go"));

/// The leader in Go, which runs until a signal ends it.
static COMPILED_LEADER: LazyLock<PathBuf> =
    LazyLock::new(|| compiled(installed("go/go"), &["build"], "leader.go"));

/// Compiles a program, which may take minutes, before a test waits for its output.
fn compiled(compiler: impl AsRef<OsStr>, arguments: &[&str], name: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("program");
    let mut command = Command::new(compiler);
    let [first, rest @ ..] = arguments else { panic!("{name} has no arguments") };
    command.arg(first).arg("-o").arg(&to).arg(source(name)).args(rest);
    let status = command.status().expect("the compiler is there: scripts/world.sh");
    assert!(status.success(), "{name}: {status}");
    to
}

fn source(name: &str) -> PathBuf {
    top().join("docs/agent").join(name)
}

#[test]
fn each_program_takes_a_lock_of_a_majority_and_gives_it_back() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    for (name, mut command) in programs() {
        command.arg(agent.socket());
        let said = program::run(&mut command);
        assert_eq!(said.code, Some(0), "{name}: {said:#?}");
        assert!(said.out.starts_with("held with the fence "), "{name}: {said:#?}");
        quorum.until_empty();
    }
}

#[test]
fn all_programs_are_tried() {
    let ended = programs().into_iter().map(|(name, _)| name);
    let tried: Vec<&str> = ended.chain(["leader.go"]).collect();
    for file in fs::read_dir(top().join("docs/agent")).expect("it is there") {
        let name = file.expect("it can be read").file_name();
        assert!(tried.iter().any(|tried| name == *tried), "{name:?}");
    }
}

#[test]
fn a_program_waits_for_another_one() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    for (name, mut command) in programs() {
        let key = if name == "redis_rb.rb" { "worker:mail" } else { "job:42" };
        let mut holder = agent.client();
        let fence = holder.run(&format!("DLOCK.ACQUIRE {key} holder 30000")).int();
        command.arg(agent.socket());
        let waiting = thread::spawn(move || program::run(&mut command));
        eventually("it waits", || agent.figure("locks") == 2);
        holder.run(&format!("DLOCK.RELEASE {key} holder"));
        let said = waiting.join().expect("it ends");
        let later = said.out.trim().rsplit(' ').next().and_then(|word| word.parse::<i64>().ok());
        assert!(later.is_some_and(|later| later > fence), "{name}: {said:#?}");
        quorum.until_empty();
    }
}

/// Each line is the term of a leader; the next one begins after the work of the former has stopped.
#[test]
fn a_leader_in_go_hands_over_when_it_ends_and_campaigns_again_after_a_loss() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    let start = || {
        let mut command = Command::new(&*COMPILED_LEADER);
        command.arg(agent.socket()).stdout(Stdio::piped());
        let mut child = process::spawn(command).expect("it is compiled");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        (child, lines.map(|line| term(&line.expect("it is text"))))
    };
    let (mut first, mut terms_of_first) = start();
    let one = terms_of_first.next();
    let (mut second, mut terms_of_second) = start();
    eventually("it waits", || agent.figure("waiting") == 1);
    quorum.iter().for_each(|node| drop(node.run("DLOCK.BREAK leader")));
    let two = terms_of_second.next();
    eventually("the first campaigns again", || agent.figure("waiting") == 1);
    process::signal(&second, Signal::SIGTERM);
    let three = terms_of_first.next();
    assert!(one < two && two < three, "{one:?} {two:?} {three:?}");
    assert_eq!(terms_of_second.next(), None);
    process::signal(&first, Signal::SIGTERM);
    for child in [&mut first, &mut second] {
        assert!(child.wait().expect("it is ours").success());
    }
    quorum.until_empty();
}

/// "leads in the term 1795864356278368".
fn term(line: &str) -> u64 {
    let words = line.strip_prefix("leads in the term ");
    words.and_then(|term| term.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn systemd_finds_the_units_good_and_safe() {
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let program = program::path().display().to_string();
    for name in ["dlock-agent.service", "dlock-agent.socket"] {
        let unit = fs::read_to_string(top().join("packaging").join(name)).expect("it is there");
        fs::write(folder.path().join(name), unit.replace("/usr/bin/dlock", &program))
            .expect("there is room");
    }
    let path = |name: &str| folder.path().join(name);
    let analyze = |arguments: &[&str], unit: &Path| {
        let said = program::run(Command::new("systemd-analyze").args(arguments).arg(unit));
        assert_eq!(said.code, Some(0), "{said:#?}");
    };
    analyze(&["verify", "--man=no"], &path("dlock-agent.socket"));
    analyze(
        &["security", "--offline=true", "--threshold=25", "--no-pager"],
        &path("dlock-agent.service"),
    );
}

#[test]
fn a_socket_of_systemd_is_used() {
    let server = Server::start(Kind::Redis82);
    let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
    let socket = folder.path().join("agent.sock");
    let mut command = Command::new("systemd-socket-activate");
    command.arg(format!("--listen={}", socket.display())).arg("--setenv=DLOCK_NODES");
    command.env("DLOCK_NODES", format!("127.0.0.1:{}", server.port()));
    command.arg(program::path()).arg("agent").stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = harness::process::spawn(command).expect("it can be started");
    eventually("it listens", || socket.exists());
    let mut client = harness::Client::connect_unix(&socket).expect("it listens");
    client.run("DLOCK.ACQUIRE job alice 30000").int();
    drop(client);
    // systemd keeps the socket.
    harness::process::signal(&child, nix::sys::signal::Signal::SIGTERM);
    child.wait().expect("it is ours");
    assert!(socket.exists());
}
