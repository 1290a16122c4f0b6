//! Twenty thousand leases that end in the same moment: the server ends a few in each turn of its event loop, and does
//! other work in between. How long clients wait meanwhile is measured by the benchmark.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_one_server};

const LEASES: i64 = 20_000;
/// No more than this many end in one turn.
const TURN: i64 = 400;

/// The server writes each ended lease to its log, and to a replica that follows it.
#[apply(on_one_server)]
fn with_a_replica_and_a_log_they_keep_no_client_waiting(kind: Kind) {
    let server = Server::build(kind).config("appendonly yes").config("appendfsync everysec");
    let server = server.start();
    let replica = Server::build(kind).replica_of(&server).start();
    eventually("the replica is in step", || {
        server.info("replication").get("slave0").is_some_and(|line| line.contains("state=online"))
    });
    end_very_many(&server);
    eventually("the replica has heard of every end", || replica.run("DBSIZE").int() == 0);
    assert_eq!(replica.node("leases").int(), 0);
}

fn end_very_many(server: &Server) {
    let mut end = Duration::from_secs(4);
    while !acquire_all(server, end) {
        server.run("FLUSHALL");
        end *= 2;
    }
    let expired = server.info_number("dlock", "dlock_expiries");
    let turns = || server.info_number("stats", "eventloop_cycles");
    let mut before = turns();
    eventually("all have ended", || {
        let left = server.node("leases").int();
        if left == LEASES {
            before = turns();
        }
        // The turns for these looks are few beside the others.
        thread::sleep(Duration::from_millis(20));
        left == 0
    });
    let took = turns() - before;
    assert!(took > LEASES / TURN, "{took} turns");
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert_eq!(server.info_number("dlock", "dlock_expiries") - expired, LEASES);
}

/// Takes all locks, for leases that end this long from now. False if half of the time was over by then.
fn acquire_all(server: &Server, end: Duration) -> bool {
    let mut holder = server.client();
    let begun = Instant::now();
    for first in (0..LEASES).step_by(2000) {
        let left = end.saturating_sub(begun.elapsed());
        if left < end / 2 {
            return false;
        }
        let left = left.as_millis();
        let batch = first..(first + 2000).min(LEASES);
        let answers = holder.pipeline(batch.map(|n| format!("DLOCK.ACQUIRE k{n} t{n} {left}")));
        assert!(answers.iter().all(|fence| fence.int() > 0));
    }
    true
}
