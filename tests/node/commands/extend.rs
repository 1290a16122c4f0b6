//! DLOCK.EXTEND: a lease that still runs gets a new end, and with FENCE a larger fence.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn a_lease_ends_the_ttl_from_now_and_never_earlier_than_before(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let left = || server.holder("job")["ttl-ms"].int();
    assert_eq!(server.run("DLOCK.EXTEND job alice 300000").int(), 1);
    assert!((280_000..=300_000).contains(&left()), "{}", left());
    assert_eq!(server.run("DLOCK.EXTEND job alice 100").int(), 1);
    assert!(left() > 200_000);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    assert_eq!(server.node("fence").int(), fence);
    // The fence rises all the same.
    let raised = fence + 1_000;
    assert_eq!(server.run(&format!("DLOCK.EXTEND job alice 100 FENCE {raised}")).int(), 1);
    assert!(left() > 200_000);
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), raised);
    assert_eq!(server.run("DLOCK.EXTEND job bob 300000").int(), 0);
    assert_eq!(server.run("DLOCK.EXTEND job alice 300 GT").code(), "ERR");
}
