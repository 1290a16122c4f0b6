//! Quarantine after a clean shutdown. There is one only if leases that were held then did not come back with
//! the data set, and it lasts no longer than they still ran.

use std::fs;
use std::time::Instant;

use harness::quarantine::{CRASHED, FORGOTTEN, assert_bound};
use harness::{Client, Kind, Server, apply, eventually, on_one_server, on_two_servers};

/// Ways to end a server that saves nothing.
const ENDS: [&str; 4] = ["SIGTERM", "SHUTDOWN NOSAVE", "SHUTDOWN", "SHUTDOWN NOW"];

/// Ends a server in order.
#[track_caller]
pub fn end(server: &mut Server, way: &str) {
    if way == "SIGTERM" {
        return server.stop();
    }
    server.client().send(way);
    assert!(server.wait_for_end(), "{way}");
}

/// Some leases of every mode, in two databases.
fn take_many(client: &mut Client) {
    for db in ["1", "0"] {
        client.run(&format!("SELECT {db}"));
        for lock in [
            "one alice 60000",
            "eph alice 50000 EPHEMERAL META m",
            "book alice 60000 SHARED",
            "book bob 40000 SHARED",
            "pool alice 60000 LIMIT 3",
            "pool bob 60000 LIMIT 3",
        ] {
            assert!(client.run(&format!("DLOCK.ACQUIRE {lock}")).int() > 0);
        }
        assert_eq!(client.run("DLOCK.EXTEND one alice 70000").int(), 1);
        assert_eq!(client.run("DLOCK.RELEASE pool alice").int(), 1);
    }
}

#[apply(on_one_server)]
fn without_a_lease_there_is_none(kind: Kind) {
    let mut server = Server::start(kind);
    for (number, way) in ENDS.into_iter().enumerate() {
        let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
        server.run("DLOCK.ACQUIRE over alice 5");
        server.run("DLOCK.RELEASE job alice");
        eventually("nothing is held", || server.node("leases").int() == 0);
        end(&mut server, way);
        server.start_again();
        assert_eq!(server.node("boot").int(), number as i64 + 2);
        server.assert_grants();
        assert!(server.run("DLOCK.ACQUIRE job bob 1000").int() > fence);
        server.run("DLOCK.RELEASE job bob");
    }
    assert_eq!(server.quarantine_lines(), 0, "{}", server.log());
}

/// The file is from before the end of its lease. Another client may have held the lock since.
#[apply(on_two_servers)]
fn an_older_data_set_gives_no_lease_back_without_a_quarantine(kind: Kind) {
    let mut server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    assert_eq!(server.run("SAVE").text(), "OK");
    server.run("DLOCK.RELEASE job alice");
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > fence);
    server.run("DLOCK.RELEASE job bob");
    end(&mut server, "SHUTDOWN NOSAVE");
    server.start_again();
    assert!(server.assert_in_quarantine(FORGOTTEN) <= 60_000);
    for request in ["EXTEND job alice 60000", "CHECK job alice", "ACQUIRE job carol 60000"] {
        assert_eq!(server.run(&format!("DLOCK.{request}")).code(), "QUARANTINE", "{request}");
    }
}

#[apply(on_two_servers)]
fn a_lease_that_was_not_saved_is_waited_for(kind: Kind) {
    for way in ENDS {
        let mut server = Server::start(kind);
        let asked = Instant::now();
        server.run("DLOCK.ACQUIRE longer alice 90000");
        server.run("DLOCK.RELEASE longer alice");
        let extended = Instant::now();
        // The time left of it, and nothing rounded up.
        server.run("DLOCK.ACQUIRE job alice 60000");
        server.run("DLOCK.ACQUIRE other alice 5000");
        end(&mut server, way);
        let held = extended.elapsed();
        server.start_again();
        let left = server.assert_in_quarantine(FORGOTTEN);
        println!("{way}: held for {held:?}, then refused for {left} ms");
        assert!(left <= 60_000, "{left}");
        let passed = asked.elapsed().as_millis() as i64 + 1;
        assert!(left + passed >= 60_000, "{left} ms left after {passed}");
    }
}

#[apply(on_two_servers)]
fn leases_that_were_saved_are_all_there_and_there_is_none(kind: Kind) {
    let mut server = Server::start(kind);
    // An ephemeral lease ends with its connection, which must outlive the server.
    let mut client = server.client();
    take_many(&mut client);
    let mut waiter = server.waiter("DLOCK.ACQUIRE one carol 60000 WAIT 0");
    let before = server.pictures();
    end(&mut server, "SHUTDOWN SAVE");
    assert!(waiter.is_closed_by_server());
    for _ in 0..2 {
        server.start_again();
        assert_eq!(server.pictures(), before);
        assert!(server.run("DLOCK.ACQUIRE one carol 1000").is_null());
        server.assert_grants();
        end(&mut server, "SHUTDOWN SAVE");
    }
    assert_eq!(server.quarantine_lines(), 0, "{}", server.log());
}

#[apply(on_two_servers)]
fn leases_in_a_log_are_all_there_after_a_clean_end(kind: Kind) {
    for fsync in ["everysec", "no"] {
        let mut server = Server::build(kind)
            .config("appendonly yes")
            .config(&format!("appendfsync {fsync}"))
            .start();
        let mut client = server.client();
        take_many(&mut client);
        client.run("DLOCK.ACQUIRE cut alice 60000");
        eventually("a lease of 59,990 ms ends later", || {
            server.holder("cut")["ttl-ms"].int() < 59_990
        });
        client.run("DLOCK.EXTEND cut alice 59990");
        let before = server.pictures();
        server.stop();
        server.start_again();
        server.assert_grants();
        assert_eq!(server.pictures(), before);
    }
}

// --- an older data set -------------------------------------------------------------------------

/// Ends a server with its data in its dump, and starts it with an older one.
fn start_with_an_older_dump(server: &mut Server, older: &[u8]) {
    end(server, "SHUTDOWN SAVE");
    fs::write(server.folder().join("dump.rdb"), older).expect("the folder can be written");
    server.start_again();
}

fn dump(server: &Server) -> Vec<u8> {
    assert_eq!(server.run("SAVE").text(), "OK");
    fs::read(server.folder().join("dump.rdb")).expect("it was just written")
}

#[apply(on_two_servers)]
fn an_older_dump_without_a_lease_is_noticed(kind: Kind) {
    let mut server = Server::start(kind);
    let since = Instant::now();
    server.run("DLOCK.ACQUIRE early alice 60000");
    let older = dump(&server);
    server.run("DLOCK.ACQUIRE late alice 30000");
    start_with_an_older_dump(&mut server, &older);
    // As long as any of them ran, even one that came back.
    let left = server.assert_in_quarantine(FORGOTTEN);
    let passed = since.elapsed().as_millis() as i64 + 1;
    assert!((60_000 - passed..=60_000).contains(&left), "{left} ms left after {passed}");
    assert_eq!(server.holders("early"), ["alice"]);
}

// --- ends that are refused -------------------------------------------------------------------------

#[apply(on_two_servers)]
fn a_shutdown_that_failed_is_no_clean_end(kind: Kind) {
    let mut server = Server::start(kind);
    server.run("DLOCK.ACQUIRE early alice 60000");
    // A folder in the place of the dump.
    fs::create_dir(server.folder().join("dump.rdb")).expect("the folder can be written");
    server.run("SHUTDOWN SAVE").assert_error("ERR", "SHUTDOWN");
    server.run("DLOCK.ACQUIRE late alice 60000");
    fs::remove_dir(server.folder().join("dump.rdb")).expect("it is empty");
    server.kill();
    let since = Instant::now();
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}

#[apply(on_two_servers)]
fn a_shutdown_that_was_called_off_is_no_clean_end(kind: Kind) {
    let mut server = Server::build(kind).config("shutdown-timeout 60").start();
    let replica = server.replica();
    replica.pause();
    server.run("SET something new");
    let mut asking = server.client();
    asking.send("SHUTDOWN");
    eventually("the shutdown waits", || server.log().contains("aiting for replicas"));
    assert_eq!(server.run("SHUTDOWN ABORT").text(), "OK");
    asking.recv().assert_error("ERR", "SHUTDOWN");
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.kill();
    replica.resume();
    let since = Instant::now();
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
}
