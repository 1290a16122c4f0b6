//! An append-only log that is cut somewhere in its last 4 KB, as a crash of the machine may leave
//! it. The server starts in quarantine, and its fences go on growing.
//!
//! `make test` tries a few places, `make soak` each of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use harness::{Kind, Server, append_only, apply, on_every_server, seed, soak};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};

const STEPS: u32 = 500;
const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const TOKENS: [(&str, &str); 5] = [
    ("alice", ""),
    ("bob", "META text"),
    ("carol", "EPHEMERAL"),
    ("dan", "SHARED"),
    ("eve", "SHARED"),
];

/// The length of the log's end that is cut off, at most.
const TAIL: usize = 4096;

/// The number of places that are tried in `make test`: any, and ends of commands.
const ANYWHERE: usize = 4;
const CLEAN: usize = 2;

#[apply(on_every_server)]
fn a_server_that_accepts_a_torn_log_starts_in_quarantine_with_larger_fences(kind: Kind) {
    let mut rng = seed::rng();
    let mut crashed = Crashed::after_a_life(kind, &mut rng);
    for length in crashed.places(&mut rng) {
        eprintln!("the log is cut to {length} bytes");
        crashed.cut_to(length);
        crashed.server.start_again();
        assert_in_quarantine(&crashed.server);
        crashed.assert_goes_on();
        crashed.server.kill();
    }
}

/// A server that was killed, and its files of that moment.
struct Crashed {
    server: Server,
    log: PathBuf,
    log_bytes: Vec<u8>,
    /// The possible ends of the log.
    clean_ends: BTreeSet<usize>,
    state: PathBuf,
    state_bytes: Vec<u8>,
    /// The largest fence before the crash.
    fence: i64,
    boot: i64,
}

impl Crashed {
    fn after_a_life(kind: Kind, rng: &mut StdRng) -> Crashed {
        let state_file = "dlock.state-file node.state";
        let mut server = Server::build(kind)
            .append_only()
            .config("aof-load-truncated yes")
            .config(state_file)
            .start();
        let fence = live(&server, rng);
        let boot = server.node("boot").int();
        server.kill();

        let log = server.append_only_log();
        let log_bytes = read(&log);
        let clean_ends = append_only::clean_ends(&log_bytes);
        assert!(log_bytes.len() > TAIL, "a log of {} bytes is too short", log_bytes.len());
        assert_eq!(clean_ends.last(), Some(&log_bytes.len()));
        let state = server.folder().join("node.state");
        let state_bytes = read(&state);
        Crashed { server, log, log_bytes, clean_ends, state, state_bytes, fence, boot }
    }

    /// The lengths to cut the log to, in bytes.
    fn places(&self, rng: &mut StdRng) -> Vec<usize> {
        let tail = self.log_bytes.len() - TAIL..self.log_bytes.len();
        if soak::tries_every_case() {
            return tail.collect();
        }
        let clean_ends = self.clean_ends.range(tail.clone()).copied();
        let mut places = clean_ends.sample(rng, CLEAN);
        places.extend(tail.sample(rng, ANYWHERE));
        places
    }

    /// Puts the files back as they were at the crash, but for the end of the log.
    fn cut_to(&self, length: usize) {
        write(&self.log, &self.log_bytes[..length]);
        write(&self.state, &self.state_bytes);
        self.server.clear_log();
    }

    /// The fences in the loaded data are old ones, and new ones are larger.
    #[track_caller]
    fn assert_goes_on(&self) {
        let server = &self.server;
        assert!(server.node("boot").int() > self.boot);
        for lock in server.pictures().values() {
            let fences = lock.holders.values().map(|holder| holder.fence);
            assert!(fences.max() <= Some(self.fence), "{lock:?}");
        }
        assert_eq!(server.run("CONFIG SET dlock.quarantine off").text(), "OK");
        for key in KEYS {
            server.run(&format!("DLOCK.BREAK {key}"));
            // The request waits for a disk that is busy.
            let fence = server.run(&format!("DLOCK.ACQUIRE {key} after 1000 WAIT 0")).int();
            assert!(fence > self.fence, "{fence} at {key} follows {}", self.fence);
        }
        assert_no_crash(&server.log());
    }
}

#[track_caller]
fn assert_in_quarantine(server: &Server) {
    let node = server.run("DLOCK.NODE");
    assert_eq!(node.at("granting").text(), "quarantine");
    assert!(node.at("quarantine-ms").int() > 0);
    let reason = "the server was not shut down cleanly, so earlier leases may still be held";
    assert_eq!(node.at("quarantine-reason").text(), reason);
}

#[track_caller]
fn assert_no_crash(log: &str) {
    for words in ["panicked", "BUG REPORT", "crashed by signal"] {
        assert!(!log.contains(words), "{log}");
    }
}

/// Takes, shares, extends and releases locks. Returns the largest fence.
fn live(server: &Server, rng: &mut StdRng) -> i64 {
    let mut client = server.client();
    let mut largest = 0;
    for _ in 0..STEPS {
        let words = step(rng, largest);
        let answer = client.run(&words);
        assert!(!answer.is_error(), "{words} was answered {answer:?}");
        let fence = if answer.is_int() { answer.int() } else { 0 };
        largest = fence.max(server.node("fence").int());
    }
    largest
}

fn step(rng: &mut StdRng, largest_fence: i64) -> String {
    let key = KEYS.choose(rng).expect("there are keys");
    let (token, mode) = TOKENS.choose(rng).expect("there are tokens");
    let ttl = rng.random_range(30_000..60_000);
    let ahead = largest_fence + rng.random_range(1..2_000_000);
    match rng.random_range(0..10) {
        0..4 => format!("DLOCK.ACQUIRE {key} {token} {ttl} {mode}"),
        4 if largest_fence > 0 => format!("DLOCK.ACQUIRE {key} {token} {ttl} {mode} FENCE {ahead}"),
        5 => format!("DLOCK.EXTEND {key} {token} {ttl}"),
        6 if largest_fence > 0 => format!("DLOCK.EXTEND {key} {token} {ttl} FENCE {ahead}"),
        7 => format!("DLOCK.BREAK {key}"),
        _ => format!("DLOCK.RELEASE {key} {token}"),
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
