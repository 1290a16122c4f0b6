//! Files that former versions wrote: `scripts/versions.sh write` has left them in tests/former, in a folder for each
//! version, with the fences that it granted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::picture::Holder;
use harness::quarantine::CRASHED;
use harness::{Kind, Picture, Server, Value, apply, on_every_server};

/// All locks in the files: database and key, mode and limit, and each holder's token and text.
type Lock = (&'static str, &'static str, i64, &'static [(&'static str, &'static str)]);
const LOCKS: [Lock; 13] = [
    ("0/after", "exclusive", 0, &[("alice", "")]),
    ("0/again", "exclusive", 0, &[("alice", "new")]),
    ("0/ahead", "exclusive", 0, &[("alice", "")]),
    ("0/broken", "shared", 0, &[("bob", "")]),
    ("0/described", "exclusive", 0, &[("alice", "host=a,pid=1")]),
    ("0/ephemeral", "exclusive", 0, &[("alice", "")]),
    ("0/extended", "exclusive", 0, &[("alice", "")]),
    ("0/limited", "limit", 3, &[("alice", "first")]),
    ("0/long", "exclusive", 0, &[("alice", "")]),
    ("0/one", "exclusive", 0, &[("alice", "")]),
    ("0/shared", "shared", 0, &[("alice", ""), ("bob", "reader")]),
    ("1/late", "shared", 0, &[("dave", "")]),
    ("1/one", "exclusive", 0, &[("carol", "")]),
];
/// A key, a token and a text of any bytes, which were written in quotes.
const BINARY: (&[u8], &[u8], &[u8]) = (b"b\0\xff\r\n", b"t\0\xff", b"\r\n\0");
const BINARY_WRITTEN: &str = r#"DLOCK.ACQUIRE "b\x00\xff\r\n" "t\x00\xff" "#;

/// The folders of all former versions.
fn versions() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("former");
    let entries = fs::read_dir(all).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let versions: Vec<_> = paths.filter(|path| path.is_dir()).collect();
    assert!(!versions.is_empty());
    versions
}

/// A server that was killed, whose files are these now.
#[track_caller]
fn with_files(kind: Kind, version: &Path, state: &str, log: bool) -> Server {
    let builder = Server::build(kind).as_it_comes().config("aof-load-truncated no");
    let builder = if log { builder.append_only() } else { builder };
    let mut server = builder.start();
    server.kill();
    let copy = |from: PathBuf, to: PathBuf| {
        fs::copy(&from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    copy(version.join(state), server.state_file());
    if log {
        let folder = server.folder().join("appendonlydir");
        fs::remove_dir_all(&folder).expect("it has begun its log");
        fs::create_dir(&folder).expect("the folder can be written");
        for file in fs::read_dir(version.join("appendonlydir")).expect("it is there") {
            let file = file.expect("it can be read");
            copy(file.path(), folder.join(file.file_name()));
        }
    } else {
        copy(version.join("dump.rdb"), server.folder().join("dump.rdb"));
    }
    server
}

/// Asserts that a server has the locks, marks and data of the former version.
#[track_caller]
fn assert_has_all(server: &Server, version: &Path) {
    let replies = fs::read_to_string(version.join("replies.txt")).expect("they are there");
    let expected: BTreeMap<String, Picture> =
        LOCKS.iter().map(|lock| (lock.0.to_owned(), expected(lock, &replies))).collect();
    assert_eq!(server.pictures(), expected);
    let (key, token, meta) = BINARY;
    let lock = Picture::read(&server.client().run_args(&[b"DLOCK.TOKENS", key])).expect("held");
    let holder = lock.holders.values().next().expect("held");
    assert_eq!(holder.fence, fence(&replies, BINARY_WRITTEN));
    assert_eq!(holder.meta.as_bytes(), meta);
    assert_eq!(server.client().run_args(&[b"DLOCK.RELEASE", key, token]).int(), 1);
    assert_eq!(server.run("DLOCK.MARK mark").int(), 9);
    for (words, text) in [
        ("GET plain", "text"),
        ("HGET hash field", "value"),
        ("GET setnx", "somebody"),
        ("GET data", "3"),
    ] {
        assert_eq!(server.run(words).text(), text);
    }
    assert_eq!(server.run("EXISTS released removed").int(), 0);
}

fn expected(lock: &Lock, replies: &str) -> Picture {
    let (path, mode, limit, holders) = *lock;
    let (db, key) = path.split_once('/').expect("a database and a key");
    // The second database's come last.
    let (first, second) = replies.split_once("SELECT 1").expect("there are two databases");
    let replies = if db == "1" { second } else { replies };
    assert!(!first.is_empty());
    let holders = holders.iter().map(|(token, meta)| {
        let granted = fence(replies, &format!("DLOCK.ACQUIRE {key} {token} "));
        let holder =
            Holder { fence: granted, meta: (*meta).to_owned(), ephemeral: key == "ephemeral" };
        ((*token).to_owned(), holder)
    });
    Picture { mode: mode.to_owned(), limit, holders: holders.collect() }
}

/// The fence that the former version granted to a request that begins so.
#[track_caller]
fn fence(replies: &str, request: &str) -> i64 {
    let line = replies.lines().find(|line| line.starts_with(request)).expect("it was asked");
    let (_, reply) = line.split_once("\t:").expect("it was granted");
    reply.parse().expect("a fence")
}

/// The largest fence that the former version may have handed out.
fn promised(version: &Path, state: &str) -> i64 {
    let text = fs::read_to_string(version.join(state)).expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix("fence ")).expect("it promises one");
    line.parse().expect("a number")
}

#[track_caller]
fn assert_goes_on_above(server: &Server, version: &Path, state: &str) {
    assert!(server.next_fence() > promised(version, state));
    assert!(server.run("DLOCK.ACQUIRE one bob 1000").is_null());
    assert_eq!(server.run("DLOCK.RELEASE one alice").int(), 1);
    assert_eq!(server.run("DLOCK.FENCED mark 8 SET data 0").code(), "STALE");
}

#[apply(on_every_server)]
fn locks_of_former_versions_come_back_at_once_after_a_clean_shutdown(kind: Kind) {
    for version in versions() {
        for log in [false, true] {
            let mut server = with_files(kind, &version, "shutdown.state", log);
            server.start_again();
            server.assert_grants();
            assert_eq!(server.node("boot").int(), 3);
            assert_has_all(&server, &version);
            assert_goes_on_above(&server, &version, "shutdown.state");
        }
    }
}

#[apply(on_every_server)]
fn a_complete_log_of_former_versions_is_complete(kind: Kind) {
    for version in versions() {
        let mut server = with_files(kind, &version, "crash.state", true);
        server.start_again();
        server.assert_grants();
        assert_has_all(&server, &version);
        assert_goes_on_above(&server, &version, "crash.state");
    }
}

#[apply(on_every_server)]
fn leases_that_former_versions_may_have_granted_before_a_crash_are_waited_for(kind: Kind) {
    for version in versions() {
        let mut server = with_files(kind, &version, "crash.state", false);
        server.start_again();
        let left = server.assert_in_quarantine(CRASHED);
        assert!((55_000..=61_440).contains(&left), "{left} ms, and leases of a minute were usual");
        assert_has_all(&server, &version);
        let answer = server.run("DLOCK.ACQUIRE long bob 1000");
        assert!(matches!(answer, Value::Error(_)), "{answer:?}");
    }
}
