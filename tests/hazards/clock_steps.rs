//! The server's wall clock steps: NTP corrects it, a virtual machine resumes, an administrator sets it.
//!
//! The recipe: `SET NX PX`. The server keeps its end as a date. A step ahead ends all locks at once, while
//! their holders work; a step back keeps the locks of crashed clients for as long as the step. dlock's leases
//! run on the monotonic clock, and end on time.

use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_two_servers};

const HOUR: i64 = 3600;

/// Locks are meant to last this long.
const MEANT: Duration = Duration::from_secs(8);
/// A lock of some seconds has nearly an hour left after a step back, in milliseconds.
const NEARLY_AN_HOUR: i64 = 3_500_000;

#[apply(on_two_servers)]
fn a_step_ahead_ends_a_lock_that_is_held_but_no_lease(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    assert_eq!(server.run("SET old alice NX PX 600000").text(), "OK");
    let fence = server.run("DLOCK.ACQUIRE new alice 600000").int();
    assert!(server.run("SET old bob NX PX 600000").is_null());
    assert!(server.run("DLOCK.ACQUIRE new bob 600000").is_null());

    server.set_wall_clock(HOUR);
    eventually("bob has the old lock, too, ten minutes early", || {
        !server.run("SET old bob NX PX 600000").is_null()
    });
    assert!(server.run("DLOCK.ACQUIRE new bob 600000").is_null());
    assert_eq!(server.run("DLOCK.CHECK new alice").int(), fence);
    assert!(server.holder("new")["ttl-ms"].int() > 500_000, "none of it is lost");
}

#[apply(on_two_servers)]
fn a_step_back_keeps_a_dead_holders_lock_but_no_lease(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    let ttl = MEANT.as_millis();
    let set = |who: &str| server.run(&format!("SET old {who} NX PX {ttl}"));
    assert_eq!(set("alice").text(), "OK");
    let asked = Instant::now();
    server.run(&format!("DLOCK.ACQUIRE new alice {ttl}"));
    let mut bob = server.waiter("DLOCK.ACQUIRE new bob 60000 WAIT 0");

    server.set_wall_clock(-HOUR);
    assert!(!bob.has_answer());
    assert_eq!(server.holders("new"), ["alice"]);
    // Alice has crashed, and releases neither.
    assert!(bob.recv().int() > 0);
    assert!(asked.elapsed() >= MEANT, "{:?}", asked.elapsed());
    assert!(set("bob").is_null(), "it is over as well, or should be");
    assert!(server.run("PTTL old").int() > NEARLY_AN_HOUR, "and bob waits for an hour");
}
