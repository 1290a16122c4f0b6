//! Fences of several keys on one node. At each key they grow, whatever becomes of its locks. A grant at one
//! key does not push another's fences past a proposal that goes to several nodes.

use std::thread;
use std::time::Duration;

use harness::{Kind, Payload, Server, apply, on_two_servers, wall_clock};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// The time on a server that has started; it is a little later by now.
fn now(server: &Server) -> i64 {
    server.run("DLOCK.CHECK any any");
    let now = wall_clock::micros(0);
    thread::sleep(Duration::from_millis(2));
    now
}

/// Takes and releases a lock, with a proposal. Returns the fence.
#[track_caller]
fn take(server: &Server, key: &str, proposal: i64) -> i64 {
    let fence = server.run(&format!("DLOCK.ACQUIRE {key} taker 60000 FENCE {proposal}")).int();
    assert_eq!(server.run(&format!("DLOCK.RELEASE {key} taker")).int(), 1);
    fence
}

/// Takes a lock with a fence far ahead of the clock, and returns that.
#[track_caller]
fn hold(server: &Server, key: &str, minutes: i64) -> i64 {
    hold_for(server, key, 60 * minutes)
}

#[track_caller]
fn hold_for(server: &Server, key: &str, seconds: i64) -> i64 {
    let proposal = wall_clock::micros(0) + seconds * SECOND;
    let fence = server.run(&format!("DLOCK.ACQUIRE {key} alice 60000 FENCE {proposal}")).int();
    assert!(fence >= proposal);
    fence
}

/// Each grant at one of these keys from now on has a larger fence.
#[track_caller]
fn assert_above(server: &Server, keys: &[&str], earlier: i64, what: &str) {
    for key in keys {
        let fence = take(server, key, 1);
        assert!(fence > earlier, "{what}: {fence} after {earlier} at {key}");
    }
}

#[apply(on_two_servers)]
fn at_both_names_of_a_renamed_lock_they_are_larger_than_before(kind: Kind) {
    let server = Server::start(kind);
    for (round, other) in ["", "SET other text", "DLOCK.ACQUIRE other eve 60000"].iter().enumerate()
    {
        if !other.is_empty() {
            assert!(!server.run(other).is_error());
        }
        let ahead = hold(&server, "job", 2 * (1 + round as i64));
        server.run("RENAME job other");
        assert_above(&server, &["other", "job"], ahead, other);
    }
    // At once, and inside of one transaction.
    let ahead = hold(&server, "job", 8);
    let mut client = server.client();
    let steps = ["MULTI", "RENAME job other", "DLOCK.ACQUIRE other eve 60000 FENCE 1", "EXEC"];
    let answers = steps.map(|step| client.run(step));
    let fence = answers[3].items()[1].int();
    assert!(fence > ahead, "{fence} after {ahead}");
    server.run("DLOCK.RELEASE other eve");
    assert_above(&server, &["other", "job"], ahead, "RENAME in a transaction");
}

#[apply(on_two_servers)]
fn they_are_larger_than_before_whatever_removed_the_lock(kind: Kind) {
    let server = Server::start(kind);
    let removals = [
        "DEL job",
        "UNLINK job",
        "SET job text",
        "PEXPIRE job 1",
        "MOVE job 1",
        "SWAPDB 0 1",
        "FLUSHALL",
        "FLUSHDB",
        "DLOCK.BREAK job",
        "DLOCK.RELEASE job alice",
        "DEBUG RELOAD",
    ];
    server.run("CONFIG SET dlock.quarantine off");
    for (round, removal) in removals.iter().enumerate() {
        let ahead = hold_for(&server, "job", 45 * (1 + round as i64));
        let answer = server.run(removal);
        assert!(!answer.is_error(), "{removal}: {answer:?}");
        thread::sleep(Duration::from_millis(2));
        server.run("DEL job");
        assert_above(&server, &["job"], ahead, removal);
        let mut there = server.client();
        there.run("SELECT 1");
        there.run("DEL job");
        let fence = there.run("DLOCK.ACQUIRE job bob 60000 FENCE 1").int();
        assert!(fence > ahead, "{removal}: {fence} after {ahead} in the other database");
        there.run("DLOCK.RELEASE job bob");
    }
}

#[apply(on_two_servers)]
fn a_restored_lock_raises_the_fences_of_its_key_and_of_no_other(kind: Kind) {
    let source = Server::start(kind);
    let ahead = hold(&source, "job", 8);
    let payload = Payload::read(&source.run("DUMP job")).bytes();
    let server = Server::start(kind);
    let asked = now(&server);
    let mut client = server.client();
    assert_eq!(client.run_args(&[&b"RESTORE"[..], b"there", b"0", &payload]).text(), "OK");
    assert_eq!(server.run("DLOCK.CHECK there alice").int(), ahead);
    assert_eq!(take(&server, "another", asked), asked);
    assert_eq!(server.run("DLOCK.RELEASE there alice").int(), 1);
    assert_above(&server, &["there"], ahead, "RESTORE");
    // Restored again, over a lock and away again.
    let last = server.node("fence").int();
    let restore = [&b"RESTORE"[..], b"there", b"0", &payload, b"REPLACE"];
    assert_eq!(client.run_args(&restore).text(), "OK");
    assert_eq!(client.run_args(&restore).text(), "OK");
    server.run("RENAME there elsewhere");
    assert_above(&server, &["there"], last, "RESTORE and RENAME");
    assert_above(&server, &["elsewhere"], ahead, "RENAME of a restored lock");
}

/// A node that has lost its counter, or has never had one on disk, has its log and the clock.
#[apply(on_two_servers)]
fn without_a_state_file_the_log_and_the_clock_tell(kind: Kind) {
    let builder = Server::build(kind).append_only();
    let mut server = builder.config("appendfsync always").config("dlock.state-file \"\"").start();
    let ahead = hold(&server, "held", 5);
    let given = take(&server, "given-back", ahead - MINUTE);
    let before = now(&server);
    server.kill();
    server.start_again();
    server.run("CONFIG SET dlock.quarantine off");
    server.run("DLOCK.BREAK held");
    assert_above(&server, &["held"], ahead, "a crash");
    assert_above(&server, &["given-back"], given, "a crash");
    let next = take(&server, "new", before - SECOND);
    assert!(next > before, "a crash: {next} after {before}");
}
