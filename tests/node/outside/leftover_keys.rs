//! Keys of locks that a RENAME, a MOVE or a SWAPDB has ended. The primary removes them in its next turn, and
//! nothing is left behind if that turn never comes.

use harness::{Kind, Server, apply, eventually, on_every_server, on_two_servers};

use crate::replicas::promotion::promote;

/// Commands that each leave the key of a lock that is over.
const WAYS: [&str; 3] = ["RENAME job other", "MOVE away 1", "SWAPDB 2 3"];

const PAUSE: &str = "CLIENT PAUSE 600000 WRITE";

/// Locks are over, and the last command comes before their keys can be removed.
fn leave_strays(primary: &Server, last: &str) {
    let mut client = primary.client();
    for (db, key) in [(2, "job"), (0, "job"), (0, "away")] {
        client.run(&format!("SELECT {db}"));
        client.run(&format!("DLOCK.ACQUIRE {key} alice 60000"));
    }
    client.pipeline(WAYS.into_iter().chain([last]).map(str::to_owned));
}

/// The same, and writes are paused.
fn leave_strays_in_a_pause(primary: &Server) {
    leave_strays(primary, PAUSE);
    assert_eq!(keys(primary), 3);
}

/// Waits until no key is there, in any database, and a plain string can be put anywhere.
#[track_caller]
fn assert_all_gone(server: &Server) {
    eventually("the keys go", || keys(server) == 0);
    let mut client = server.client();
    for db in 0..4 {
        client.run(&format!("SELECT {db}"));
        for key in ["job", "other", "away"] {
            assert_eq!(client.run(&format!("SET {key} any NX")).text(), "OK", "{db} {key}");
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
    let (mut primary, replica) = Server::pair(kind);
    let last = replica.replica();
    leave_strays_in_a_pause(&primary);
    eventually("the replica has followed", || keys(&replica) == 3 && keys(&last) == 3);
    primary.kill();
    promote(&replica);
    assert_all_gone(&replica);
    replica.assert_agrees_with(&last);
}

#[apply(on_every_server)]
fn a_replica_that_got_it_with_the_data_set_removes_it_when_it_is_promoted(kind: Kind) {
    for load in ["disabled", "swapdb"] {
        let primary = Server::start(kind);
        leave_strays_in_a_pause(&primary);
        let build = || Server::build(kind).config(&format!("repl-diskless-load {load}"));
        let replica = build().replica_of(&primary).start();
        let last = build().replica_of(&replica).start();
        eventually("they have arrived", || keys(&replica) == 3 && keys(&last) == 3);
        drop((primary, replica));
        promote(&last);
        assert_all_gone(&last);
    }
}

#[apply(on_every_server)]
fn a_failover_in_the_same_moment_leaves_nothing_at_either_side(kind: Kind) {
    let (old, new) = Server::pair(kind);
    leave_strays(&old, "FAILOVER");
    eventually("the roles change", || {
        new.client().run("DLOCK.NODE").at("role").text() == "primary"
            && old.client().run("DLOCK.NODE").at("role").text() == "replica"
    });
    assert_all_gone(&new);
    new.assert_agrees_with(&old);
}

#[apply(on_two_servers)]
fn a_log_that_ends_before_the_removal_leaves_nothing(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    leave_strays_in_a_pause(&server);
    server.kill();
    server.start_again();
    assert_all_gone(&server);

    // A replica reads its own log, and removes nothing; a primary does.
    let primary = Server::start(kind);
    let mut replica = Server::build(kind).append_only().replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    leave_strays_in_a_pause(&primary);
    eventually("they have arrived", || keys(&replica) == 3);
    replica.kill();
    replica.add_config("replicaof no one");
    replica.start_again();
    assert_all_gone(&replica);
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
            eventually("the key goes", || keys(&server) == 0);
        }
    }
}
