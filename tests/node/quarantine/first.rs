//! Quarantine without a state file: a first start, a deleted file, and a node that keeps none. Its leases are
//! those that came with the data set.

use std::fs;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use harness::quarantine::{FOUND, NO_FILE};
use harness::{Kind, Server, apply, on_one_server, on_two_servers};

fn state_file(server: &Server) -> PathBuf {
    server.node("state-file").text().into()
}

/// Stops a server in order after it saved, and starts it without its state file.
fn start_without_state(server: &mut Server) {
    let file = state_file(server);
    server.client().send("SHUTDOWN SAVE");
    assert!(server.wait_for_end());
    fs::remove_file(file).expect("there was a state file");
    server.start_again();
}

/// Asserts a time left as long as a lease of this many milliseconds that began no earlier than `since`.
#[track_caller]
fn assert_exactly(left: i64, ttl: i64, since: Instant) {
    let passed = since.elapsed().as_millis() as i64 + 1;
    assert!((ttl - passed..=ttl).contains(&left), "{left} of {ttl} ms left after {passed}");
}

#[apply(on_one_server)]
fn a_first_start_without_leases_grants_at_once(kind: Kind) {
    let mut server = Server::build(kind).config("dlock.quarantine 60000").start();
    server.assert_grants();
    server.run("SET text any");
    start_without_state(&mut server);
    server.assert_grants();
    assert_eq!(server.run("GET text").text(), "any");
    assert_eq!(server.node("boot").int(), 1);
    assert_eq!(server.quarantine_lines(), 0, "{}", server.log());
}

/// A new node and one that has lost its disk look the same.
#[apply(on_two_servers)]
fn a_start_without_a_state_file_waits_for_leases_that_may_have_been_lost(kind: Kind) {
    let begun = Instant::now();
    let mut server = Server::build(kind).as_it_comes().start();
    let left = server.assert_in_quarantine(NO_FILE);
    assert_exactly(left, 60_000, begun);
    // A crash at that moment, too, though there is a file by now.
    server.kill();
    let since = Instant::now();
    server.start_again();
    let next = server.node("quarantine-ms").int();
    assert!(next + since.elapsed().as_millis() as i64 + 1 >= left, "{next} ms left, {left} before");
    server.run("CONFIG SET dlock.quarantine off");
    // No node accepts a client's fence that is more than ten minutes ahead.
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    let ahead = server.run("DLOCK.ACQUIRE job alice 1000").int() - unix.as_micros() as i64;
    assert!(ahead > 500_000_000, "{ahead} us ahead of the clock");
}

#[apply(on_two_servers)]
fn leases_that_came_with_the_data_set_are_waited_for_in_their_full_length(kind: Kind) {
    let mut server = Server::start(kind);
    server.run("DLOCK.ACQUIRE released alice 90000");
    server.run("DLOCK.RELEASE released alice");
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    server.run("DLOCK.ACQUIRE book alice 30000 SHARED");
    server.run("DLOCK.ACQUIRE book bob 61000 SHARED");
    let since = Instant::now();
    start_without_state(&mut server);
    assert_exactly(server.assert_in_quarantine(FOUND), 61_000, since);
    assert_eq!(server.holder("job")["fence"].int(), fence);
    assert_eq!(server.run("DLOCK.ACQUIRE other bob 1000").code(), "QUARANTINE");
    // The file is written again, and has the next quarantine.
    let left = server.assert_in_quarantine(FOUND);
    server.kill();
    let since = Instant::now();
    server.start_again();
    assert_eq!(server.node("boot").int(), 2);
    let next = server.node("quarantine-ms").int();
    assert!(next + since.elapsed().as_millis() as i64 + 1 >= left, "{next} ms left, {left} before");
}

#[apply(on_two_servers)]
fn a_node_that_keeps_no_file_waits_for_the_leases_that_it_finds(kind: Kind) {
    let mut server =
        Server::build(kind).config("dlock.state-file \"\"").config("appendonly yes").start();
    assert_eq!(server.node("durable").text(), "no");
    assert_eq!(server.node("state-file").text(), "");
    server.assert_grants();
    server.stop();
    server.start_again();
    server.assert_grants();

    server.run("DLOCK.ACQUIRE job alice 60000");
    server.stop();
    let since = Instant::now();
    server.start_again();
    assert_exactly(server.assert_in_quarantine(FOUND), 60_000, since);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
}
