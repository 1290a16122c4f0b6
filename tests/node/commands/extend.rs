//! DLOCK.EXTEND: a lease that still runs gets a new end, and with FENCE a larger fence.

use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_every_server};

#[apply(on_every_server)]
fn a_lease_ends_the_ttl_from_now(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    for ttl in [300_000, 30_000, 60_000] {
        let extend = format!("DLOCK.EXTEND job alice {ttl}");
        assert_eq!(server.run(&extend).int(), 1);
        let left = server.holder("job")["ttl-ms"].int();
        assert!((ttl - 20_000..=ttl).contains(&left), "{left} of {ttl}");
    }
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    assert_eq!(server.node("fence").int(), fence);
}

#[apply(on_every_server)]
fn a_shortened_lease_ends_earlier(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let asked = Instant::now();
    assert_eq!(server.run("DLOCK.EXTEND job alice 100").int(), 1);
    assert!(bob.recv().int() > 0);
    assert!(asked.elapsed() >= Duration::from_millis(100));
}

#[apply(on_every_server)]
fn with_gt_a_lease_never_ends_earlier(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let left = || server.holder("job")["ttl-ms"].int();
    assert_eq!(server.run("DLOCK.EXTEND job alice 100 GT").int(), 1);
    assert!(left() > 30_000);
    // The fence rises all the same.
    let raised = fence + 1_000;
    assert_eq!(server.run(&format!("DLOCK.EXTEND job alice 100 gt FENCE {raised}")).int(), 1);
    assert!(left() > 30_000);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), raised);
    assert_eq!(server.run("DLOCK.EXTEND job alice 300000 GT").int(), 1);
    assert!(left() > 200_000);
    assert_eq!(server.run("DLOCK.EXTEND job bob 300000 GT").int(), 0);
    assert_eq!(server.run("DLOCK.EXTEND job alice 300 GT GT").code(), "ERR");
    server.run("SET old alice PX 60000");
    assert_eq!(server.run("DLOCK.EXTEND old alice 100 GT").int(), 1);
    assert!(server.run("PTTL old").int() > 30_000);
    assert_eq!(server.run("DLOCK.EXTEND old alice 300000 GT").int(), 1);
    assert!(server.run("PTTL old").int() > 200_000);
}

#[apply(on_every_server)]
fn a_lengthened_lease_does_not_end_at_its_old_time(kind: Kind) {
    let server = Server::start(kind);
    let replies = server.at_once(&[
        "DLOCK.ACQUIRE job alice 200",
        "DLOCK.ACQUIRE other alice 300",
        "DLOCK.EXTEND job alice 60000",
    ]);
    assert_eq!(replies[2].int(), 1);
    eventually("a lease that would have ended later has ended", || {
        server.holders("other").is_empty()
    });
    assert_eq!(server.holders("job"), ["alice"]);
}

#[apply(on_every_server)]
fn nobody_else_extends(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let _bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.EXTEND job carol 600000").int(), 0);
    assert_eq!(server.run("DLOCK.EXTEND job bob 600000").int(), 0);
    assert_eq!(server.run("DLOCK.EXTEND nothing alice 600000").int(), 0);
    assert!(server.holder("job")["ttl-ms"].int() <= 60_000);
    assert_eq!(server.waiters("job"), ["bob"]);
    assert_eq!(server.run("DBSIZE").int(), 1);
}

#[apply(on_every_server)]
fn an_ended_lease_cannot_be_extended_though_nobody_took_the_lock(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 50");
    eventually("the lease ends", || server.run("DLOCK.CHECK job alice").is_null());
    assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 0);
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_every_server)]
fn only_the_own_share_is_extended(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job r1 60000 SHARED");
    server.run("DLOCK.ACQUIRE job r2 100 SHARED");
    assert_eq!(server.run("DLOCK.EXTEND job r1 300000").int(), 1);
    eventually("the other share ends", || server.holders("job") == ["r1"]);
}

#[apply(on_every_server)]
fn extending_keeps_meta_and_connection(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    alice.run("DLOCK.ACQUIRE job alice 60000 META host=a EPHEMERAL");
    server.run("DLOCK.EXTEND job alice 300000");
    let holder = server.holder("job");
    assert_eq!(holder["meta"].text(), "host=a");
    assert_eq!(holder["ephemeral"].int(), 1);
    assert_eq!(holder["client"].int(), alice.id());
    alice.close();
    eventually("the lock is free", || server.holders("job").is_empty());
}

#[apply(on_every_server)]
fn a_larger_fence_becomes_that_of_the_holder_and_of_the_node(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let raised = fence + 60_000_000;
    let extend = format!("DLOCK.EXTEND job alice 300000 FENCE {raised}");
    assert_eq!(server.run(&extend).int(), 1);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), raised);
    assert_eq!(server.holder("job")["fence"].int(), raised);
    assert!(server.holder("job")["ttl-ms"].int() > 60_000);
    assert_eq!(server.node("fence").int(), raised);
    // And the same fence a second time, as a retry would send it.
    assert_eq!(server.run(&extend).int(), 1);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), raised);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > raised);
}

#[apply(on_every_server)]
fn a_fence_below_that_of_the_node_does_not_lower_the_counter(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let later = fence + 60_000_000;
    let newer = server.run(&format!("DLOCK.ACQUIRE job2 bob 60000 FENCE {later}"));
    assert_eq!(newer.int(), later);
    let between = fence + 1;
    let extend = format!("DLOCK.EXTEND job alice 60000 FENCE {between}");
    assert_eq!(server.run(&extend).int(), 1);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), between);
    assert_eq!(server.node("fence").int(), later);
}

#[apply(on_every_server)]
fn a_fence_smaller_than_that_of_the_holder_extends_nothing(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let before = server.traces();
    for smaller in [1, fence - 1] {
        let extend = format!("DLOCK.EXTEND job alice 600000 FENCE {smaller}");
        assert_eq!(server.run(&extend).int(), 0);
    }
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    assert!(server.holder("job")["ttl-ms"].int() <= 60_000);
    assert_eq!(server.traces(), before);
}

#[apply(on_every_server)]
fn a_fence_from_a_stranger_does_not_move_the_counter(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let larger = fence + 60_000_000;
    for key in ["job", "nothing"] {
        let extend = format!("DLOCK.EXTEND {key} bob 60000 FENCE {larger}");
        assert_eq!(server.run(&extend).int(), 0);
    }
    assert_eq!(server.node("fence").int(), fence);
}

#[apply(on_every_server)]
fn a_fence_too_far_ahead_is_an_error(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let before = server.traces();
    let far = fence + 3_600_000_000;
    for token in ["alice", "bob"] {
        let extend = format!("DLOCK.EXTEND job {token} 600000 FENCE {far}");
        let refused = server.run(&extend);
        assert_eq!(refused.code(), "TOOFAR", "{refused:?}");
        assert!(refused.error().contains(&far.to_string()), "{refused:?}");
    }
    assert_eq!(server.traces(), before);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    assert!(server.holder("job")["ttl-ms"].int() <= 60_000);
}
