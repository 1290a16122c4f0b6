//! A completion record is data, in files, payloads, replicas and clusters. Its end is a moment of the wall
//! clock.

use harness::quarantine::CRASHED;
use harness::{Cluster, Kind, Server, Value, apply, bytes, eventually, on_two_servers, wall_clock};

use super::{assert_done, leave_done, read, record};
use crate::cluster::on_servers_that_migrate;
use crate::replicas::promotion::promote;

#[apply(on_two_servers)]
fn a_record_is_what_it_was_after_each_way_through_a_file(kind: Kind) {
    for config in ["aof-use-rdb-preamble yes", "aof-use-rdb-preamble no", "appendonly no"] {
        let mut server = Server::build(kind).append_only().config(config).start();
        let fence = leave_done(&mut server.client(), "job", "600000 META text");
        leave_done(&mut server.client(), "deleted", "600000");
        leave_done(&mut server.client(), "again", "600000");
        server.run("DEL deleted");
        let next = server.run("DLOCK.ACQUIRE again bob 600000 AGAIN 9007199254740991").int();
        let before = record(&server, "job");
        for way in ["load", "rewrite", "reload"] {
            match way {
                "reload" => assert_eq!(server.run("DEBUG RELOAD").text(), "OK"),
                _ => {
                    if config == "appendonly no" {
                        server.run("SAVE");
                    } else if way == "rewrite" {
                        server.run("BGREWRITEAOF");
                        server.until_log_is_rewritten();
                    }
                    server.kill();
                    server.start_again();
                }
            }
            assert_eq!(record(&server, "job"), before, "{config}, {way}");
            assert_done(&server, "job", fence);
            assert_eq!(server.run("EXISTS deleted").int(), 0, "{config}, {way}");
            assert_eq!(server.holder("again")["fence"].int(), next, "{config}, {way}");
        }
    }
}

/// The end of a record is a moment, and not a length that starts again with the server.
#[apply(on_two_servers)]
fn the_time_goes_on_while_the_server_is_down(kind: Kind) {
    for config in ["aof-use-rdb-preamble yes", "aof-use-rdb-preamble no", "appendonly no"] {
        let builder = Server::build(kind).append_only().config(config).with_movable_wall_clock();
        let mut server = builder.start();
        server.set_wall_clock(-3_600);
        eventually("the clock by which records end is an hour behind", || {
            server.run("DEL long");
            leave_done(&mut server.client(), "long", "7200000 META text");
            record(&server, "long").0 < wall_clock::micros(3_700) / 1_000
        });
        leave_done(&mut server.client(), "short", "3000000");
        let before = record(&server, "long");
        for way in ["as it is", "rewritten"] {
            if config == "appendonly no" {
                server.run("SAVE");
            } else if way == "rewritten" {
                server.run("BGREWRITEAOF");
                server.until_log_is_rewritten();
            }
            // The server starts again at the present time: an hour later.
            server.kill();
            server.start_again();
            let (left, _) = read(&server.run("DLOCK.ACQUIRE long bob 60000"));
            assert!((3_400_000..=3_600_000).contains(&left), "{left}, {config}, {way}");
            let since = server.run("DLOCK.INSPECT long").at("done-ms").int();
            assert!((3_600_000..3_800_000).contains(&since), "{since}, {config}, {way}");
            assert_eq!(record(&server, "long"), before);
            assert!(server.run("DLOCK.INSPECT short").is_null(), "{config}, {way}");
        }
        server.leave_quarantine();
        server.set_wall_clock(3_700);
        eventually("the time is over", || server.run("DLOCK.INSPECT long").is_null());
        assert!(server.run("DLOCK.ACQUIRE long bob 60000").is_int());
    }
}

#[apply(on_two_servers)]
fn a_node_in_quarantine_answers_from_its_records_and_its_holders_may_leave_more(kind: Kind) {
    let mut server = Server::start(kind);
    let fence = leave_done(&mut server.client(), "job", "600000");
    let held = server.run("DLOCK.ACQUIRE held alice 60000").int();
    server.run("SAVE");
    server.run("DLOCK.ACQUIRE lost alice 60000");
    server.kill();
    server.start_again();
    server.assert_in_quarantine(CRASHED);
    assert_done(&server, "job", fence);
    let again = server.run(&format!("DLOCK.ACQUIRE job bob 60000 AGAIN {fence}"));
    assert_eq!(again.code(), "QUARANTINE");
    assert_done(&server, "job", fence);
    let mut bob = server.waiter("DLOCK.ACQUIRE held bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.RELEASE held alice DONE 60000").int(), 1);
    assert_eq!(read(&bob.recv()).1, held);
    assert_eq!(server.run("DLOCK.RELEASE lost alice DONE 60000").int(), 0);
    // An operator ends the record; the node in quarantine still does not grant the lock.
    assert_eq!(server.run("DLOCK.BREAK job").int(), 1);
    assert_eq!(server.run("DLOCK.ACQUIRE job bob 60000").code(), "QUARANTINE");

    // A node that may have lost its disk: a client restores a completion record, and no grant is due.
    let young = Server::build(kind).as_it_comes().start();
    let copy = server.run("DUMP held");
    young.client().run_args(&bytes!["RESTORE", "held", "60000", copy.bytes()]);
    assert_done(&young, "held", held);
    assert_eq!(young.run("DLOCK.ACQUIRE free bob 60000").code(), "QUARANTINE");
}

#[apply(on_two_servers)]
fn a_promoted_replica_has_the_records_of_its_primary(kind: Kind) {
    let (mut primary, replica) = Server::pair(kind);
    let ahead = wall_clock::micros(0) + 300_000_000;
    leave_done(&mut primary.client(), "job", &format!("600000 FENCE {ahead} META text"));
    let fence = leave_done(&mut primary.client(), "over", "600000");
    primary.run(&format!("DLOCK.ACQUIRE over bob 60000 AGAIN {fence}"));
    primary.assert_agrees_with(&replica);
    let before = record(&primary, "job");
    assert_eq!(record(&replica, "job"), before);
    assert!(replica.run("DLOCK.CHECK over bob").int() > fence);
    for words in ["RELEASE job alice DONE 60000", "ACQUIRE job bob 60000"] {
        assert_eq!(replica.run(&format!("DLOCK.{words}")).code(), "READONLY");
    }
    primary.kill();
    promote(&replica);
    assert_eq!(replica.node("granting").text(), "quarantine");
    assert_done(&replica, "job", ahead);
    assert_eq!(record(&replica, "job"), before);
    assert_eq!(replica.run("DLOCK.RELEASE job alice DONE 5").int(), 1, "said again");
    assert_eq!(replica.run("DLOCK.ACQUIRE free bob 60000").code(), "QUARANTINE");
    replica.leave_quarantine();
    let next = replica.run(&format!("DLOCK.ACQUIRE job bob 60000 AGAIN {ahead}")).int();
    assert!(next > ahead, "{next} after {ahead}");
}

/// A payload, or a key that MIGRATE sends, carries the whole record. Fences go on at the other server.
#[apply(on_two_servers)]
fn a_record_in_a_payload_is_the_same_elsewhere(kind: Kind) {
    let (here, there) = (Server::start(kind), Server::start(kind));
    let ahead = wall_clock::micros(0) + 300_000_000;
    for way in ["RESTORE", "MIGRATE"] {
        leave_done(&mut here.client(), way, &format!("600000 FENCE {ahead} META text"));
        let before = record(&here, way);
        // The copy takes the lock from its holder and its waiters there.
        there.run(&format!("DLOCK.ACQUIRE {way} holder 60000"));
        let mut waiter = there.waiter(&format!("DLOCK.ACQUIRE {way} waiter 60000 WAIT 0"));
        let answer = if way == "RESTORE" {
            let copy = here.run("DUMP RESTORE");
            let end = before.0.to_string();
            let words = bytes![way, way, &end, copy.bytes(), "REPLACE", "ABSTTL"];
            there.client().run_args(&words)
        } else {
            here.run(&format!("MIGRATE 127.0.0.1 {} {way} 0 5000 REPLACE", there.port()))
        };
        assert_eq!(answer.text(), "OK", "{way}");
        assert!(["UNBLOCKED", "DONE"].contains(&waiter.recv().code()), "{way}");
        let after = record(&there, way);
        assert!((after.0 - before.0).abs() < 1_000 && after.1 == before.1, "{way}");
        assert_done(&there, way, ahead);
        assert_eq!(there.run(&format!("DLOCK.RELEASE {way} holder")).int(), 0, "{way}");
        there.run(&format!("DEL {way}"));
        let next = there.run(&format!("DLOCK.ACQUIRE {way} bob 60000")).int();
        assert!(next > ahead, "{way}: {next} after {ahead}");
    }
}

#[apply(on_two_servers)]
fn a_server_without_memory_evicts_records_by_either_policy_and_the_job_may_run_again(kind: Kind) {
    for policy in ["volatile-lru", "volatile-ttl", "allkeys-lru", "allkeys-random"] {
        let server = Server::build(kind).config(&format!("maxmemory-policy {policy}")).start();
        let fence = leave_done(&mut server.client(), "job", "600000");
        server.evict_all();
        assert!(server.run("DLOCK.INSPECT job").is_null(), "{policy}");
        assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > fence, "{policy}");
    }
    let server = Server::start(kind);
    leave_done(&mut server.client(), "job", "600000");
    server.run("CONFIG SET maxmemory 1");
    assert_eq!(server.run("SET text any").code(), "OOM");
    assert_eq!(server.run("EXISTS job").int(), 1, "noeviction");
}

#[apply(on_two_servers)]
fn a_record_moves_with_its_slot_key_by_key(kind: Kind) {
    let cluster = Cluster::start(kind);
    let key = cluster.key(0, "job");
    let ahead = wall_clock::micros(0) + 300_000_000;
    leave_done(&mut cluster.nodes[0].client(), &key, &format!("600000 FENCE {ahead} META text"));
    let before = record(&cluster.nodes[0], &key);
    for (from, to) in [(0, 2), (2, 0)] {
        cluster.move_slot(cluster.slot(&key), from, to);
        assert_at_its_new_node(&cluster, &key, (from, to), &before);
    }
    assert_next(&cluster.nodes[0], &key, ahead);
}

#[apply(on_servers_that_migrate)]
fn a_record_moves_with_its_slot_as_a_whole(kind: Kind) {
    let cluster = Cluster::start(kind);
    let key = cluster.key(0, "job");
    let ahead = wall_clock::micros(0) + 300_000_000;
    leave_done(&mut cluster.nodes[0].client(), &key, &format!("600000 FENCE {ahead} META text"));
    let before = record(&cluster.nodes[0], &key);
    let slot = cluster.slot(&key);
    for (from, to) in [(0, 2), (2, 1)] {
        cluster.migrate_to_the_end(slot..=slot, from, to);
        assert_at_its_new_node(&cluster, &key, (from, to), &before);
    }
    // A record that is left while the slot moves.
    let late = format!("{{{key}}}late");
    cluster.nodes[1].run(&format!("DLOCK.ACQUIRE {late} alice 60000"));
    cluster.hold_migrations(1);
    cluster.migrate(slot..=slot, 1, 0);
    cluster.until_caught_up(1, 0);
    let mut waiter = cluster.nodes[1].waiter(&format!("DLOCK.ACQUIRE {late} bob 60000 WAIT 0"));
    let released = cluster.nodes[1].run(&format!("DLOCK.RELEASE {late} alice DONE 600000"));
    assert_eq!(released.int(), 1);
    read(&waiter.recv());
    let left = record(&cluster.nodes[1], &late);
    cluster.let_migrations_go(1);
    eventually("the slot is there", || cluster.owner(slot, 0) == Some(0));
    assert_eq!(record(&cluster.nodes[0], &late), left);
    assert_next(&cluster.nodes[0], &key, ahead);
}

type Record = (i64, std::collections::BTreeMap<String, Value>);

#[track_caller]
fn assert_at_its_new_node(cluster: &Cluster, key: &str, way: (usize, usize), before: &Record) {
    let (from, to) = (&cluster.nodes[way.0], &cluster.nodes[way.1]);
    assert!((record(to, key).0 - before.0).abs() < 1_000 && record(to, key).1 == before.1);
    assert_done(to, key, before.1["fence"].int());
    assert_eq!(from.run(&format!("DLOCK.ACQUIRE {key} bob 60000")).code(), "MOVED");
    eventually("the old node has forgotten it", || from.run("DBSIZE").int() == 0);
}

#[track_caller]
fn assert_next(node: &Server, key: &str, fence: i64) {
    let next = node.run(&format!("DLOCK.ACQUIRE {key} bob 60000 AGAIN {fence}")).int();
    assert!(next > fence, "{next} after {fence}");
}
