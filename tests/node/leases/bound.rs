//! `lease-bound-ms`: the longest that any lease can still run. It is never too small, and at most an eighth
//! too large. If it grows again within a minute, it is the next power of two.

use std::time::Instant;

use harness::quarantine::{CRASHED, assert_bound};
use harness::{Kind, Server, apply, bytes, eventually, on_one_server, on_two_servers};

fn bound(server: &Server) -> i64 {
    server.node("lease-bound-ms").int()
}

/// The largest lease so far has this length.
#[track_caller]
fn assert_bounds(server: &Server, largest: i64) {
    let bound = bound(server);
    let most = (largest + largest / 8).max((largest as u64).next_power_of_two() as i64);
    assert!((largest..=most).contains(&bound), "{bound} for leases of {largest} ms at most");
    assert_eq!(server.info_number("dlock", "dlock_lease_bound_ms"), bound);
}

#[apply(on_one_server)]
fn every_way_to_a_longer_lease_raises_it(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 50000");
    assert_bounds(&server, 50_000);
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 200000 WAIT 0");
    assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 1);
    assert_bounds(&server, 60_000);
    assert!(server.run("DLOCK.ACQUIRE job alice 80000").int() > 0);
    assert_bounds(&server, 80_000);
    let fence = server.run("DLOCK.CHECK job alice").int();
    assert_eq!(server.run(&format!("DLOCK.EXTEND job alice 100000 FENCE {fence}")).int(), 1);
    assert_bounds(&server, 100_000);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert!(bob.recv().int() > 0);
    assert_bounds(&server, 200_000);
    for (ask, ttl) in [("SHARED", 250_000), ("LIMIT 4", 300_000), ("EPHEMERAL", 350_000)] {
        assert!(server.run(&format!("DLOCK.ACQUIRE k{ttl} alice {ttl} {ask}")).int() > 0);
        assert_bounds(&server, ttl);
    }
    let script = "return redis.call('DLOCK.ACQUIRE', KEYS[1], 'alice', '400000')";
    let granted = server.client().run_args(&["EVAL", script, "1", "scripted"]);
    assert!(granted.int() > 0);
    assert_bounds(&server, 400_000);
    let mut client = server.client();
    client.run("MULTI");
    client.run("DLOCK.ACQUIRE queued alice 450000");
    assert!(client.run("EXEC").items()[0].int() > 0);
    assert_bounds(&server, 450_000);
}

#[apply(on_two_servers)]
fn a_lease_that_arrives_from_another_node_raises_it(kind: Kind) {
    for arrival in ["MIGRATE", "RESTORE"] {
        let source = Server::start(kind);
        let mut target = Server::start(kind);
        source.run("DLOCK.ACQUIRE job alice 60000");
        if arrival == "MIGRATE" {
            let migrate = format!("MIGRATE 127.0.0.1 {} job 0 5000", target.port());
            assert_eq!(source.run(&migrate).text(), "OK");
        } else {
            let dump = source.run("DUMP job");
            let restored = target.client().run_args(&bytes!["RESTORE", "job", "0", dump.bytes()]);
            assert_eq!(restored.text(), "OK");
        }
        eventually("the bound is raised", || bound(&target) > 0);
        assert_bounds(&target, 60_000);
        target.kill();
        let since = Instant::now();
        target.start_again();
        assert_bound(target.assert_in_quarantine(CRASHED), 60_000, since);
    }
}
