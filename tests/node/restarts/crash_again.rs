//! A server that is killed while it starts, or while it is in quarantine. A log that is complete is
//! taken at its word, and no other is.

use harness::{Builder, Kind, Server, apply, eventually, on_every_server, on_two_servers};

/// The lease of each lock, in milliseconds.
const LEASE: i64 = 60_000;

/// A server with a complete log.
fn build(kind: Kind) -> Builder {
    Server::build(kind)
        .config("appendonly yes")
        .config("appendfsync always")
        .config("aof-load-truncated no")
}

fn take_locks(server: &Server) {
    for key in ["a", "b", "c", "d", "e"] {
        assert!(server.run(&format!("DLOCK.ACQUIRE {key} alice {LEASE}")).int() > 0);
    }
}

/// Starts it and kills it while it loads its log.
fn die_while_loading(server: &mut Server) {
    server.clear_log();
    server.add_config("key-load-delay 1000000");
    server.start_again_and_kill_after(|server| {
        eventually("it loads the commands in its log", || {
            server.log().contains("DB loaded from base file")
        });
    });
    let log = server.log();
    assert!(!log.contains("Ready to accept connections"), "it was too quick:\n{log}");
    server.add_config("key-load-delay 0");
}

#[apply(on_every_server)]
fn a_complete_log_is_still_complete_after_a_kill_while_it_was_loaded(kind: Kind) {
    let mut server = build(kind).start();
    take_locks(&server);
    server.kill();
    die_while_loading(&mut server);
    server.start_again();
    assert_eq!(server.node("quarantine-reason").text(), "");
    assert!(server.run("DLOCK.ACQUIRE free bob 1000").int() > 0);
}

#[apply(on_two_servers)]
fn an_incomplete_log_is_not_complete_after_a_kill_while_it_was_loaded(kind: Kind) {
    let mut server = build(kind).config("appendfsync everysec").start();
    take_locks(&server);
    server.kill();
    // From now on it would be.
    server.add_config("appendfsync always");
    die_while_loading(&mut server);
    server.start_again();
    assert!(server.node("quarantine-ms").int() > LEASE - 10_000);
}

/// A crash in a quarantine leaves what is left of it, whatever the log can say.
#[track_caller]
fn assert_quarantine_outlives_crashes(mut server: Server) {
    for _ in 0..2 {
        let left = server.node("quarantine-ms").int();
        assert!(left > LEASE - 10_000, "{left} ms are left");
        assert_eq!(server.run("DLOCK.ACQUIRE free bob 1000").code(), "QUARANTINE");
        server.kill();
        server.start_again();
    }
}

#[apply(on_two_servers)]
fn a_log_that_is_complete_from_now_on_does_not_end_a_quarantine(kind: Kind) {
    let mut server = build(kind).config("appendfsync everysec").start();
    take_locks(&server);
    server.kill();
    server.add_config("appendfsync always");
    server.start_again();
    assert_quarantine_outlives_crashes(server);
}

#[apply(on_two_servers)]
fn a_complete_log_does_not_end_the_quarantine_of_a_promotion(kind: Kind) {
    let primary = Server::start(kind);
    take_locks(&primary);
    let server = build(kind).start();
    follow_and_be_promoted(&primary, &server);
    assert_quarantine_outlives_crashes(server);
}

/// A replica begins a new log when it has got a new data set, and that takes its time.
#[apply(on_two_servers)]
fn a_log_that_is_not_yet_begun_is_not_complete(kind: Kind) {
    let primary = Server::start(kind);
    // There is something to write, even when the lease is over before that begins.
    primary.run("SET text any");
    primary.run("DLOCK.ACQUIRE job alice 200");
    let mut server = build(kind)
        .config("rdb-key-save-delay 60000000")
        .config("repl-diskless-load disabled")
        .start();
    follow_and_be_promoted(&primary, &server);
    eventually("its quarantine ends", || server.node("granting").text() == "yes");
    take_locks(&server);
    server.kill();
    server.start_again();
    let is_lost = server.holders("a").is_empty();
    // This one begins its log with the file that it got from its primary.
    assert_eq!(is_lost, kind != Kind::Valkey91);
    assert!(!is_lost || server.node("quarantine-ms").int() > LEASE - 10_000);
}

fn follow_and_be_promoted(primary: &Server, server: &Server) {
    server.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    primary.until_streaming_to(server);
    primary.until_followed_by(server);
    let longest = primary.node("lease-bound-ms").int() * 8 / 9;
    eventually("its state file says how long leases are", || {
        server.node("lease-bound-ms").int() >= longest
    });
    server.run("REPLICAOF NO ONE");
}

#[apply(on_two_servers)]
fn a_complete_log_does_not_end_the_quarantine_after_a_reload(kind: Kind) {
    let server = build(kind).start();
    take_locks(&server);
    assert_eq!(server.run("DEBUG RELOAD").text(), "OK");
    assert_quarantine_outlives_crashes(server);
}

/// A moment is long enough to lose a lease.
#[apply(on_two_servers)]
fn a_log_that_was_incomplete_for_a_moment_is_not_complete(kind: Kind) {
    for (line, back) in [
        ("appendonly no", "appendonly yes"),
        ("appendfsync everysec", "appendfsync always"),
        ("appendfsync no", "appendfsync always"),
        ("no-appendfsync-on-rewrite yes", "no-appendfsync-on-rewrite no"),
        ("aof-load-truncated yes", "aof-load-truncated no"),
    ] {
        let mut server = build(kind).start();
        assert_eq!(server.run(&format!("CONFIG SET {line}")).text(), "OK");
        take_locks(&server);
        assert_eq!(server.run(&format!("CONFIG SET {back}")).text(), "OK");
        server.kill();
        server.start_again();
        let left = server.node("quarantine-ms").int();
        assert!(left > LEASE - 10_000, "{left} ms after {line}");
    }
}
