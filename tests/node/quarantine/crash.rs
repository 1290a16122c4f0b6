//! Quarantine after a crash: a node that may have forgotten leases grants nothing new until the longest of
//! them is over, and says so.

use std::time::{Duration, Instant};

use harness::quarantine::{CRASHED, assert_bound};
use harness::{Kind, Server, apply, on_one_server, on_two_servers};

/// A node after a crash. It has the saved leases of these locks, and has forgotten one of a minute.
pub fn crashed(kind: Kind, known: &[&str]) -> Server {
    let mut server = Server::start(kind);
    for lock in known {
        assert!(server.run(&format!("DLOCK.ACQUIRE {lock}")).int() > 0);
    }
    assert_eq!(server.run("SAVE").text(), "OK");
    assert!(server.run("DLOCK.ACQUIRE lost alice 60000").int() > 0);
    server.kill();
    server.start_again();
    server
}

/// No lease is missing here, but the node cannot tell.
#[apply(on_two_servers)]
fn a_log_that_is_written_always_brings_leases_back_and_spares_no_quarantine(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    server.kill();
    let since = Instant::now();
    server.start_again();
    assert_bound(server.assert_in_quarantine(CRASHED), 60_000, since);
    assert_eq!(server.holder("job")["fence"].int(), fence);
    assert_eq!(server.run(&format!("DLOCK.EXTEND job alice 60000 FENCE {fence}")).int(), 1);
    assert_eq!(server.run("DLOCK.ACQUIRE free bob 1000").code(), "QUARANTINE");
    server.leave_quarantine();
    server.run("CONFIG SET dlock.quarantine auto");
    server.stop();
    server.start_again();
    server.assert_grants();
    assert_eq!(server.holder("job")["fence"].int(), fence);
}

#[apply(on_two_servers)]
fn no_grant_comes_before_a_forgotten_lease_is_over(kind: Kind) {
    let mut server = Server::start(kind);
    let sent = Instant::now();
    let fence = server.run("DLOCK.ACQUIRE lost alice 700").int();
    server.kill();
    server.start_again();
    let next = server.client().run("DLOCK.ACQUIRE lost bob 60000 WAIT 0").int();
    let held = sent.elapsed();
    assert!(next > fence, "{next} after {fence}");
    assert!(held >= Duration::from_millis(700), "{held:?}");
    server.assert_grants();
}

#[apply(on_one_server)]
fn node_and_info_tell_of_it_from_its_beginning_to_its_end(kind: Kind) {
    let server = crashed(kind, &[]);
    let info = server.info("dlock");
    assert_eq!(info["dlock_granting"], "quarantine");
    assert_eq!(info["dlock_quarantine_reason"], CRASHED);
    let number = |name: &str| server.info_number("dlock", name);
    assert!((1..=67_500).contains(&number("dlock_quarantine_ms")));
    assert_eq!(number("dlock_lease_bound_ms"), 0, "what was forgotten is nothing that is granted");
    assert_eq!(number("dlock_boot"), 2);

    server.leave_quarantine();
    let info = server.info("dlock");
    assert_eq!(info["dlock_granting"], "yes");
    assert_eq!(info["dlock_quarantine_reason"], "");
    assert_eq!(info["dlock_quarantine_ms"], "0");
}
