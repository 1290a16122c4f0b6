//! Evicted locks leave no memory behind, whether they come back or end where they are.

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

const LOCKS: usize = 1_000;

#[apply(on_one_server)]
fn ten_thousand_evictions_of_locks_that_come_back_leave_no_memory_behind(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let taken = client.pipeline(every(|n| match n % 3 {
        0 => format!("DLOCK.ACQUIRE k{n} t 600000 META {n}"),
        1 => format!("DLOCK.ACQUIRE k{n} t 600000 SHARED"),
        _ => format!("DLOCK.ACQUIRE k{n} t 600000 LIMIT 3"),
    }));
    assert!(taken.iter().all(|fence| fence.int() > 0));
    assert_leaves_nothing(&server, LOCKS, || {
        server.evict_all();
        let back = client.pipeline(every(|n| format!("DLOCK.EXTEND k{n} t 600000")));
        assert!(back.iter().all(|done| done.int() == 1));
    });
}

#[apply(on_two_servers)]
fn ten_thousand_evicted_locks_that_end_leave_no_memory_behind(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let mut ephemeral = server.client();
    assert_leaves_nothing(&server, 0, || {
        let taken = client.pipeline(every(|n| format!("DLOCK.ACQUIRE k{n} t 600000 META {n}")));
        assert!(taken.iter().all(|fence| fence.int() > 0));
        ephemeral.run("DLOCK.ACQUIRE eph t 600000 EPHEMERAL");
        server.evict_all();
        // Some are released, some broken, some run out, and some are replaced.
        let ended = client.pipeline(every(|n| match n % 4 {
            0 => format!("DLOCK.RELEASE k{n} t"),
            1 => format!("DLOCK.BREAK k{n}"),
            2 => format!("DLOCK.EXTEND k{n} t 1"),
            _ => format!("SET k{n} text"),
        }));
        assert!(!ended.iter().any(|answer| answer.is_error()));
        client.pipeline(every(|n| format!("DLOCK.CHECK k{n} t")));
        client.run("DLOCK.RELEASE eph t");
        eventually("all leases end", || server.node("leases").int() == 0);
        client.run("FLUSHALL SYNC");
    });
}

fn every(request: impl Fn(usize) -> String) -> impl Iterator<Item = String> {
    (0..LOCKS).map(request)
}

/// Does the work a few times, and then ten times more, and compares what the server uses.
fn assert_leaves_nothing(server: &Server, leases: usize, mut work: impl FnMut()) {
    server.run("CONFIG SET slowlog-log-slower-than -1");
    for _ in 0..2 {
        work();
    }
    let before = server.settled_memory();
    for _ in 0..10 {
        work();
    }
    assert_eq!(server.node("leases").int(), leases as i64);
    server.assert_memory_falls_back_to(before);
}
