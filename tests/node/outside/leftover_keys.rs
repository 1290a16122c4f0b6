//! Keys of locks that a RENAME, a MOVE or a SWAPDB has ended. The primary removes them in its next turn, and
//! nothing is left behind if that turn never comes.

use harness::{Kind, Server, apply, eventually, on_every_server};

use crate::replicas::promotion::{pair, promote};

/// Commands that leave one key, of a lock that is over, in one of the two databases.
const WAYS: [&str; 3] = ["RENAME job other", "MOVE job 1", "SWAPDB 0 1"];

/// A lock is over, and writes are paused before its key can be removed.
fn leave_stray(primary: &Server, way: &str) {
    primary.run("DLOCK.ACQUIRE job alice 60000");
    primary.client().pipeline([way, "CLIENT PAUSE 600000 WRITE"].map(str::to_owned));
    assert_eq!(keys(primary), 1, "{way}");
}

/// Waits until no key is there, in any database, and a plain string can be put anywhere.
#[track_caller]
fn assert_all_gone(server: &Server, way: &str) {
    eventually(&format!("the key goes after {way}"), || keys(server) == 0);
    let mut client = server.client();
    for db in [0, 1] {
        client.run(&format!("SELECT {db}"));
        for key in ["job", "other"] {
            assert_eq!(client.run(&format!("SET {key} any NX")).text(), "OK", "{way}");
        }
    }
    assert_eq!(server.node("leases").int(), 0);
}

/// The number of keys in all databases.
fn keys(server: &Server) -> usize {
    let text = server.client().run("INFO keyspace").text();
    let count = |rest: &str| rest.split(',').next().and_then(|number| number.parse::<usize>().ok());
    text.split("keys=").skip(1).filter_map(count).sum()
}

#[apply(on_every_server)]
fn a_replica_that_is_promoted_removes_what_its_primary_could_not(kind: Kind) {
    for way in WAYS {
        let (mut primary, replica) = pair(kind);
        let last = Server::build(kind).replica_of(&replica).start();
        replica.until_streaming_to(&last);
        leave_stray(&primary, way);
        eventually("the replica has followed", || keys(&replica) == 1 && keys(&last) == 1);
        // The replica may get the removal at any moment, and it removes nothing by itself.
        assert_eq!(keys(&replica), 1);
        primary.kill();
        promote(&replica);
        assert_all_gone(&replica, way);
        replica.assert_agrees_with(&last);
    }
}

#[apply(on_every_server)]
fn a_replica_that_got_it_with_the_data_set_removes_it_when_it_is_promoted(kind: Kind) {
    for (way, load) in WAYS.into_iter().zip(["disabled", "swapdb", "swapdb"]) {
        let mut primary = Server::start(kind);
        leave_stray(&primary, way);
        let build = || Server::build(kind).config(&format!("repl-diskless-load {load}"));
        let mut replica = build().replica_of(&primary).start();
        let mut last = build().replica_of(&replica).start();
        eventually("it has arrived", || keys(&replica) == 1 && keys(&last) == 1);
        primary.kill();
        replica.kill();
        promote(&last);
        assert_all_gone(&last, way);
        last.kill();
    }
}

#[apply(on_every_server)]
fn a_failover_in_the_same_moment_leaves_nothing_at_either_side(kind: Kind) {
    for way in WAYS {
        let (old, new) = pair(kind);
        old.run("DLOCK.ACQUIRE job alice 60000");
        old.client().pipeline([way, "FAILOVER"].map(str::to_owned));
        eventually("the roles change", || {
            new.client().run("DLOCK.NODE").at("role").text() == "primary"
                && old.client().run("DLOCK.NODE").at("role").text() == "replica"
        });
        assert_all_gone(&new, way);
        new.assert_agrees_with(&old);
    }
}

#[apply(on_every_server)]
fn a_log_that_ends_before_the_removal_leaves_nothing(kind: Kind) {
    for way in WAYS {
        let mut server = Server::build(kind).append_only().start();
        leave_stray(&server, way);
        server.kill();
        server.start_again();
        assert_all_gone(&server, way);

        // A replica reads its own log, and removes nothing; a primary does.
        let primary = Server::start(kind);
        let mut replica = Server::build(kind).append_only().replica_of(&primary).start();
        primary.until_streaming_to(&replica);
        leave_stray(&primary, way);
        eventually("it has arrived", || keys(&replica) == 1);
        replica.kill();
        replica.add_config("replicaof no one");
        replica.start_again();
        assert_all_gone(&replica, way);
    }
}

#[apply(on_every_server)]
fn a_key_that_moves_on_before_it_is_removed_is_found(kind: Kind) {
    let server = Server::start(kind);
    let onward = ["SWAPDB 0 1", "MOVE other 1", "RENAME other third", "SWAPDB 1 0"];
    for next in onward {
        for after in ["PING", "SWAPDB 0 1"] {
            server.run("FLUSHALL");
            server.run("DLOCK.ACQUIRE job alice 60000");
            let mut client = server.client();
            for step in ["MULTI", "RENAME job other", next, after] {
                client.run(step);
            }
            let answers = client.run("EXEC");
            assert!(!answers.items().iter().any(harness::Value::is_error), "{next}: {answers:?}");
            assert_all_gone(&server, next);
        }
    }
}
