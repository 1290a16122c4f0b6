//! The completion records of a user, and memory.

use harness::{Client, Kind, Server, apply, bytes, eventually, on_one_server, on_two_servers};

use super::leave_done;
use crate::replicas::promotion::promote;

/// A connection of a user of this name with all rights.
fn user(server: &Server, name: &str) -> Client {
    server.run(&format!("ACL SETUSER {name} on nopass ~* &* +@all"));
    let mut client = server.client();
    client.run(&format!("AUTH {name} any"));
    client
}

#[track_caller]
fn assert_too_many(client: &mut Client, key: &str) {
    let held = client.run(&format!("DLOCK.ACQUIRE {key} alice 600000")).int();
    for options in ["DONE 600000", "DONE 600000 META text", "FINAL DONE 1"] {
        let refused = client.run(&format!("DLOCK.RELEASE {key} alice {options}"));
        refused.assert_error("TOOMANY", "done locks");
    }
    assert_eq!(client.run(&format!("DLOCK.CHECK {key} alice")).int(), held);
    assert_eq!(client.run(&format!("DLOCK.RELEASE {key} alice DONE 0")).int(), 1);
}

#[apply(on_two_servers)]
fn a_record_that_goes_makes_room_and_one_that_moves_does_not(kind: Kind) {
    let server = Server::start(kind);
    let mut app = user(&server, "app");
    let counted = || server.info_number("dlock", "dlock_done_keys");
    for (way, makes_room) in [
        ("DEL record", true),
        ("UNLINK record", true),
        ("DLOCK.BREAK record", true),
        ("SET record text", true),
        ("RENAME text record", true),
        ("PEXPIRE record 1", true),
        ("FLUSHDB SYNC", true),
        ("FLUSHALL ASYNC", true),
        ("DLOCK.ACQUIRE record bob 600000 AGAIN 9007199254740991", true),
        ("evict", true),
        ("DEBUG RELOAD", false),
        ("RENAME record other", false),
        ("MOVE record 1", false),
        ("SWAPDB 0 1", false),
        ("PERSIST record", false),
        ("PEXPIRE record 700000", false),
    ] {
        server.run("FLUSHALL SYNC");
        server.run("SET text any");
        eventually("all are freed", || counted() == 0);
        leave_done(&mut app, "record", "600000");
        assert_eq!(counted(), 1);
        match way {
            "evict" => server.evict_all(),
            way => assert!(!server.run(way).is_error(), "{way}"),
        }
        server.leave_quarantine();
        match makes_room {
            true => eventually(&format!("there is room after {way}"), || counted() == 0),
            // The server may free the former data set later, in a thread of its own.
            false => eventually(&format!("it counts once after {way}"), || counted() == 1),
        }
    }
}

/// Otherwise a few crashes would take a user beyond every limit. A restored payload could name any user.
#[apply(on_one_server)]
fn records_count_for_their_user_after_a_restart_and_a_promotion_and_not_after_restore(kind: Kind) {
    let mut primary = Server::build(kind).config("appendonly yes").start();
    leave_done(&mut user(&primary, "app"), "record", "600000");
    user(&primary, "app").fill_done("app", 1);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_followed_by(&replica);
    primary.client().send("SHUTDOWN");
    assert!(primary.wait_for_end());
    primary.start_again();
    assert_too_many(&mut user(&primary, "app"), "next");

    promote(&replica);
    replica.leave_quarantine();
    let mut app = user(&replica, "app");
    assert_too_many(&mut app, "next");
    let copy = replica.run("DUMP record");
    replica.run("DEL record");
    app.run_args(&bytes!["RESTORE", "record", "600000", copy.bytes()]);
    leave_done(&mut app, "next", "600000");
}
