//! The server's wall clock steps: NTP corrects it, a virtual machine resumes, somebody sets it.
//!
//! The recipe: `SET NX PX`, whose end the server keeps as a date. A step ahead ends all locks at
//! once, while their holders work; a step back keeps the locks of the dead for as long as the step.
//! dlock's leases run on the monotonic clock: they end when they should.

use harness::{Kind, Server, apply, eventually, on_every_server};

const HOUR: i64 = 3600;

/// An hour is 3,600,000 ms; what a lock of a second can have left after a step back.
const NEARLY_AN_HOUR: i64 = 3_500_000;

#[apply(on_every_server)]
fn a_step_ahead_ends_a_lock_that_is_held_but_no_lease(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    assert_eq!(server.run("SET old alice NX PX 1800000").text(), "OK");
    let fence = server.run("DLOCK.ACQUIRE new alice 1800000").int();
    assert!(server.run("SET old bob NX PX 1800000").is_null());
    assert!(server.run("DLOCK.ACQUIRE new bob 1800000").is_null());

    server.set_wall_clock(HOUR);
    eventually("bob has the old lock, too, half an hour early", || {
        !server.run("SET old bob NX PX 1800000").is_null()
    });
    assert!(server.run("DLOCK.ACQUIRE new bob 1800000").is_null());
    assert_eq!(server.run("DLOCK.CHECK new alice").int(), fence);
    assert!(server.holder("new")["ttl-ms"].int() > 1_700_000, "none of it is lost");
}

#[apply(on_every_server)]
fn a_step_back_keeps_a_dead_holders_lock_but_no_lease(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    assert_eq!(server.run("SET old alice NX PX 1000").text(), "OK");
    server.run("DLOCK.ACQUIRE new alice 600");
    let mut bob = server.waiter("DLOCK.ACQUIRE new bob 60000 WAIT 0");

    server.set_wall_clock(-HOUR);
    // Alice is gone, and releases neither.
    assert!(bob.recv().int() > 0);
    eventually("the old lock should have ended", || server.holder("new")["held-ms"].int() > 600);
    assert!(server.run("SET old bob NX PX 1000").is_null());
    assert!(server.run("PTTL old").int() > NEARLY_AN_HOUR, "and bob waits for an hour");
}
