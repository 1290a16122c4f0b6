//! The state of a server after a restart, whatever its files. It has the same holders with the same fences,
//! with leases at full length again, and a fence counter above all of them.

use std::time::Instant;

use harness::Builder;
use harness::{Kind, Server, apply, eventually, on_every_server, on_two_servers};

/// Locks of every mode and option, in two databases. They outlive the test.
const LOCKS: [&str; 9] = [
    "one alice 60000",
    "ephemeral alice 70000 EPHEMERAL META host=a,pid=1",
    "shared alice 60000 SHARED",
    "shared bob 80000 SHARED META reader",
    "shared carol 90000 SHARED EPHEMERAL",
    "limit alice 60000 LIMIT 3 META first",
    "limit bob 60000 LIMIT 3",
    "single alice 60000 LIMIT 1",
    "long alice 600000 FENCE 7",
];

/// Locks are taken, lost, extended and waited for, and 300 ms pass.
fn fill(server: &Server) -> harness::Client {
    let mut client = server.client();
    for db in ["0", "1"] {
        client.run(&format!("SELECT {db}"));
        for lock in LOCKS {
            assert!(client.run(&format!("DLOCK.ACQUIRE {lock}")).int() > 0);
        }
        // Binary names and texts.
        let args: [&[u8]; 6] =
            [b"DLOCK.ACQUIRE", b"k\0\xff\r\n", b"t\0\xff", b"60000", b"META", b"\r\n\0"];
        assert!(client.run_args(&args).int() > 0);
        client.run("DLOCK.ACQUIRE gone alice 60000");
        client.run("DLOCK.RELEASE gone alice");
        client.run("DLOCK.ACQUIRE broken alice 60000 SHARED");
        client.run("DLOCK.ACQUIRE broken bob 60000 SHARED");
        assert_eq!(client.run("DLOCK.BREAK broken alice").int(), 1);
        client.run("DLOCK.ACQUIRE extended alice 30000");
        let ahead = server.node("fence").int() + 60_000_000;
        assert_eq!(
            client.run(&format!("DLOCK.EXTEND extended alice 60000 FENCE {ahead}")).int(),
            1
        );
        client.run("DLOCK.ACQUIRE again alice 30000");
        assert!(client.run("DLOCK.ACQUIRE again alice 60000 META new EPHEMERAL").int() > 0);
    }
    client.run("SELECT 0");
    client.run("DLOCK.ACQUIRE handed alice 60000");
    let mut waiter = server.waiter("DLOCK.ACQUIRE handed bob 60000 WAIT 0 SHARED META m");
    server.run("DLOCK.RELEASE handed alice");
    assert!(waiter.recv().int() > 0);
    client.run("DLOCK.ACQUIRE waited alice 60000");
    client.run("DLOCK.ACQUIRE ended alice 300");
    eventually("a lease ends", || server.run("EXISTS ended").int() == 0);
    client
}

/// Ends a filled server in some way, starts it again, and compares.
#[track_caller]
fn assert_survives(mut server: Server, end: impl FnOnce(&mut Server)) {
    let _ephemeral = fill(&server);
    let mut _waiter = server.waiter("DLOCK.ACQUIRE waited bob 60000 WAIT 0");
    let before = (server.digest(), server.pictures());
    end(&mut server);
    let started = Instant::now();
    server.start_again();
    // These tests are about stored data, and not about forgotten leases.
    server.run("CONFIG SET dlock.quarantine off");
    let after = (server.digest(), server.pictures());
    assert_eq!(before, after);
    assert_at_full_length(&server, started);
    assert_eq!(server.node("waiters").int(), 0);

    let fences = after.1.values().flat_map(|lock| lock.holders.values()).map(|one| one.fence);
    let largest = fences.max().expect("there are locks");
    assert!(server.run("DLOCK.ACQUIRE next alice 1000").int() > largest);
    assert!(server.run("DLOCK.ACQUIRE one bob 60000").is_null());
    assert_eq!(server.run("DLOCK.RELEASE ephemeral alice").int(), 1);
    assert_eq!(server.run("EXISTS ephemeral").int(), 0);
    let mut waiter = server.waiter("DLOCK.ACQUIRE one bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.RELEASE one alice").int(), 1);
    assert!(waiter.recv().int() > largest);
}

/// Asserts that leases end late, never early.
#[track_caller]
fn assert_at_full_length(server: &Server, started: Instant) {
    for (key, token, ttl) in [
        ("one", "alice", 60_000),
        ("shared", "bob", 80_000),
        ("limit", "alice", 60_000),
        ("extended", "alice", 60_000),
        ("again", "alice", 60_000),
        ("handed", "bob", 60_000),
        ("long", "alice", 600_000),
    ] {
        let lock = server.run(&format!("DLOCK.TOKENS {key}"));
        let holders = lock.at("holders");
        let mut holders = holders.items().iter();
        let holder = holders.find(|one| one.at("token").text() == token).expect("it holds");
        let left = holder.at("ttl-ms").int();
        let passed = started.elapsed().as_millis() as i64 + 1;
        assert!((ttl - passed..=ttl).contains(&left), "{key}: {left} of {ttl} after {passed} ms");
        assert!(holder.at("client").is_null(), "{key}: nobody of this life took it");
    }
}

fn append_only(kind: Kind, fsync: &str) -> Builder {
    Server::build(kind).config("appendonly yes").config(&format!("appendfsync {fsync}"))
}

#[apply(on_every_server)]
fn locks_survive_a_crash_after_a_save(kind: Kind) {
    for compression in ["yes", "no"] {
        let server = Server::build(kind).config(&format!("rdbcompression {compression}")).start();
        assert_survives(server, |server| {
            assert_eq!(server.run("SAVE").text(), "OK");
            server.kill();
        });
    }
}

#[apply(on_every_server)]
fn locks_survive_a_crash_with_a_log_written_always(kind: Kind) {
    assert_survives(append_only(kind, "always").start(), Server::kill);
}

#[apply(on_every_server)]
fn locks_survive_a_rewritten_log(kind: Kind) {
    for preamble in ["yes", "no"] {
        let server = append_only(kind, "always")
            .config(&format!("aof-use-rdb-preamble {preamble}"))
            .config("auto-aof-rewrite-percentage 0")
            .start();
        assert_survives(server, |server| {
            server.run("BGREWRITEAOF");
            server.until_log_is_rewritten();
            server.kill();
        });
    }
}

#[apply(on_two_servers)]
fn what_happens_while_a_log_is_rewritten_survives_too(kind: Kind) {
    for preamble in ["yes", "no"] {
        let server = append_only(kind, "always")
            .config(&format!("aof-use-rdb-preamble {preamble}"))
            .config("rdb-key-save-delay 20000")
            .start();
        for n in 0..50 {
            server.run(&format!("DLOCK.ACQUIRE filler{n} alice 60000"));
        }
        server.run("DLOCK.ACQUIRE filler alice 60000 LIMIT 5");
        server.run("BGREWRITEAOF");
        eventually("the rewrite has begun", || {
            server.info("persistence")["aof_rewrite_in_progress"] == "1"
        });
        server.run("DLOCK.RELEASE filler0 alice");
        server.run("DLOCK.EXTEND filler1 alice 70000");
        server.run("DLOCK.ACQUIRE filler bob 60000 LIMIT 5");
        assert_survives(server, |server| {
            server.run("CONFIG SET rdb-key-save-delay 0");
            server.until_log_is_rewritten();
            server.kill();
        });
    }
}

#[apply(on_two_servers)]
fn a_log_that_is_begun_while_locks_are_held_has_them_and_all_that_follows(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE early alice 60000");
    server.run("CONFIG SET appendfsync always");
    server.run("CONFIG SET appendonly yes");
    // The rewrite may still be under way.
    server.run("DLOCK.ACQUIRE early2 alice 60000");
    server.run("DLOCK.RELEASE early alice");
    assert_survives(server, |server| {
        server.until_log_is_rewritten();
        server.add_config("appendonly yes");
        server.kill();
    });
}

#[apply(on_every_server)]
fn what_was_removed_from_outside_is_not_in_the_log(kind: Kind) {
    let mut server = append_only(kind, "always").start();
    let mut there = server.client();
    there.run("SELECT 1");
    for n in 0..8 {
        server.run(&format!("DLOCK.ACQUIRE k{n} alice 60000"));
        there.run(&format!("DLOCK.ACQUIRE k{n} alice 60000 SHARED"));
    }
    for words in
        ["DEL k0", "RENAME k1 k2", "RENAME k3 new", "SET k4 text", "MOVE k3 1", "PEXPIRE k5 1"]
    {
        server.run(words);
    }
    there.run("SWAPDB 1 2");
    there.run("SELECT 3");
    there.run("DLOCK.ACQUIRE k alice 60000");
    there.run("FLUSHDB");
    let keyspace = |server: &Server| server.run("INFO keyspace").text();
    let left = || server.pictures().into_keys().collect::<Vec<_>>();
    eventually("what has a date is gone", || left() == ["0/k6", "0/k7"]);
    eventually("what is over is gone, in each database", || {
        let all = keyspace(&server);
        all.contains("db0:keys=3,") && all.matches("db").count() == 1
    });
    let before = (keyspace(&server), server.digest());
    server.kill();
    server.start_again();
    assert_eq!((keyspace(&server), server.digest()), before);
    assert_eq!(server.node("leases").int(), 2);
}
