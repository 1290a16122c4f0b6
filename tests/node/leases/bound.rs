//! `lease-bound-ms`: the longest that any lease can still run. It is never too small, and at most an eighth
//! too large. If it grows again within a minute, it is the next power of two.

use std::time::Instant;

use harness::quarantine::{CRASHED, assert_bound};
use harness::{Kind, Server, apply, bytes, eventually, on_two_servers};

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
