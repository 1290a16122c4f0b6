//! Several hosts start the same job every two seconds, and each window's runs are counted. Their clocks differ
//! by up to ten seconds, and a node crashes every now and then. Short with `make test`; `make jobs` takes
//! five minutes for each set of nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use harness::{Kind, Quorum, Server, eventually, process, program, soak, wall_clock};
use tempfile::TempDir;

/// Seconds between the fastest clock and the slowest one.
const APART: i64 = 10;
/// Seconds from one fire time to the next.
const PERIOD: i64 = 2;
/// A crashed node is started again after this time.
const DOWN: Duration = Duration::from_secs(1);
/// With `everysec`, the last writes to the log in this time may not be on the disk yet.
const UNSAVED: Duration = Duration::from_secs(1);
/// Notes its run, and works for 50 ms.
const JOB: &str = "echo $1 >> \"$0\"; sleep 0.05";

/// The effect of a machine's crash on its disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sync {
    /// Each write is on the disk before its answer.
    Always,
    /// The last second of the log is lost.
    EverySecond,
}

#[test]
fn each_window_runs_once_over_one_node() {
    let runs = course(1, Sync::Always);
    assert!(runs.once == runs.windows && runs.failed == 0, "{runs:?}");
}

/// A crash may cost one node the completion records of its last second, and two other nodes have them.
#[test]
fn each_window_runs_over_three_nodes_that_lose_a_second_when_they_crash() {
    let runs = course(3, Sync::EverySecond);
    assert!(runs.not_at_all == 0 && runs.again <= runs.crashes, "{runs:?}");
}

/// The windows, counted by their runs.
#[derive(Debug, Default)]
struct Runs {
    windows: usize,
    not_at_all: usize,
    once: usize,
    again: usize,
    crashes: usize,
    /// Programs that did not end with 0: they lost a lock.
    failed: usize,
}

/// The number of hosts.
fn hosts() -> i64 {
    if soak::jobs().is_some() { 20 } else { 8 }
}

fn course(size: usize, sync: Sync) -> Runs {
    // One crash.
    let length = soak::jobs().unwrap_or(Duration::from_secs(12));
    let every = if soak::jobs().is_some() { 40 } else { 6 };
    let fsync = match sync {
        Sync::Always => "appendfsync always",
        Sync::EverySecond => "appendfsync everysec",
    };
    let mut quorum = Quorum::of(
        (0..size)
            .map(|_| {
                let server = Server::build(Kind::Redis82).config("appendonly yes").config(fsync);
                server.config("auto-aof-rewrite-percentage 0")
            })
            .collect(),
    );
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let (log, urls) = (folder.path().join("log"), quorum.direct_urls());
    fs::write(&log, "").expect("a file can be written");
    let fired = Mutex::new(BTreeMap::<i64, usize>::new());
    let (until, mut crashes, mut failed) = (Instant::now() + length, 0, 0);
    thread::scope(|scope| {
        let hosts = (0..hosts()).map(|number| {
            let host = Host::new(number, folder.path(), &log);
            let (urls, fired) = (&urls, &fired);
            scope.spawn(move || host.work(urls, until, fired))
        });
        let hosts: Vec<_> = hosts.collect();
        while Instant::now() + Duration::from_secs(every) < until {
            thread::sleep(Duration::from_secs(every) - DOWN - UNSAVED);
            crash(&mut quorum[crashes % size], sync);
            crashes += 1;
        }
        failed = hosts.into_iter().map(|host| host.join().expect("it works")).sum();
    });
    let mut runs = fired.into_inner().expect("nobody panicked");
    for line in fs::read_to_string(&log).expect("it is there").lines() {
        *runs.get_mut(&line.parse().expect("a number")).expect("a window") += 1;
    }
    let of = |number| runs.values().filter(|runs| **runs == number).count();
    let (windows, not_at_all, once) = (runs.len(), of(0), of(1));
    let again = windows - not_at_all - once;
    let runs = Runs { windows, not_at_all, once, again, crashes, failed };
    println!("{size} nodes, {sync:?}: {runs:?}");
    runs
}

/// Removes the programs that have ended. Returns how many of them did not end with 0.
fn ended(started: &mut Vec<Child>) -> usize {
    let mut failed = 0;
    started.retain_mut(|program| {
        let end = program.try_wait().expect("a child can be asked");
        failed += usize::from(end.is_some_and(|status| !status.success()));
        end.is_none()
    });
    failed
}

/// Ends a server as by a power cut, and starts it again.
fn crash(server: &mut Server, sync: Sync) {
    let log = server.append_only_log();
    let length = || fs::metadata(&log).expect("it keeps a log").len();
    let saved = length();
    thread::sleep(UNSAVED);
    server.kill();
    if sync == Sync::EverySecond {
        let file = fs::OpenOptions::new().write(true).open(&log).expect("it keeps a log");
        file.set_len(saved).expect("it can be cut");
    }
    thread::sleep(DOWN);
    server.start_again();
}

/// A machine with a clock and a scheduler of its own.
struct Host {
    /// Seconds from the real time.
    clock: i64,
    clock_file: PathBuf,
    log: PathBuf,
}

impl Host {
    fn new(number: i64, folder: &Path, log: &Path) -> Host {
        let clock = number * APART / (hosts() - 1) - APART / 2;
        let clock_file = folder.join(format!("clock-{number}"));
        wall_clock::set(&clock_file, clock);
        Host { clock, clock_file, log: log.to_owned() }
    }

    /// Starts the job at each of its fire times. Returns the number of programs that did not end with 0.
    fn work(&self, urls: &[String], until: Instant, fired: &Mutex<BTreeMap<i64, usize>>) -> usize {
        let (mut started, mut failed) = (Vec::<Child>::new(), 0);
        while Instant::now() < until {
            let now = wall_clock::micros(self.clock);
            let next = (now / 1_000_000 / PERIOD + 1) * PERIOD;
            thread::sleep(Duration::from_micros((next * 1_000_000 - now).unsigned_abs()));
            fired.lock().expect("nobody panicked").entry(next).or_default();
            started.push(self.start(urls, next));
            failed += ended(&mut started);
        }
        eventually("its programs end", || {
            failed += ended(&mut started);
            started.is_empty()
        });
        failed
    }

    fn start(&self, urls: &[String], fire: i64) -> Child {
        let fire = fire.to_string();
        let mut command = Command::new(program::path());
        command.env("DLOCK_NODES", urls.join(","));
        wall_clock::preload(&mut command, &self.clock_file);
        command.args(["--node-timeout", program::PATIENT, "run", "--ttl", "20s"]);
        command.args(["--done-for", "10m", "--fire", &fire, "job", "--"]);
        command.args(["sh", "-c", JOB]).arg(&self.log).arg(&fire);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        process::spawn(command).expect("it can be started")
    }
}
