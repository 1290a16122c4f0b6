//! Fences only grow, over every end of a server, whatever the wall clock does meanwhile. Only the state file
//! is kept.

use harness::{
    Kind, Payload, Server, apply, eventually, on_one_server, on_two_servers, wall_clock,
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 3600;

/// A server without quarantine: leases do not matter here.
fn hasty(kind: Kind) -> Server {
    Server::build(kind).config("dlock.quarantine off").start()
}

fn with_movable_clock(kind: Kind) -> Server {
    Server::build(kind).config("dlock.quarantine off").with_movable_wall_clock().start()
}

#[apply(on_two_servers)]
fn fences_grow_over_every_restart(kind: Kind) {
    let mut server = hasty(kind);
    let mut last = 0;
    for round in 0..6 {
        for _ in 0..3 {
            let fence = server.next_fence();
            assert!(fence > last, "{fence} after {last}");
            last = fence;
        }
        match round % 3 {
            0 => server.restart(),
            1 => {
                server.kill();
                server.start_again();
            }
            // No request comes in between.
            _ => {
                server.kill();
                server.start_again();
                server.restart();
            }
        }
    }
    assert!(server.next_fence() > last);
}

#[apply(on_one_server)]
fn an_idle_node_renews_its_promise_too(kind: Kind) {
    let server = with_movable_clock(kind);
    let fence = server.next_fence();
    server.set_wall_clock(HOUR);
    eventually("the promise goes on from the fence", || server.fences().1 > fence + 80 * SECOND);
    // Not as far as the clock, which may be wrong.
    assert!(server.fences().1 < wall_clock::micros(0) + 3 * MINUTE);
    let fence = server.next_fence();
    assert!(fence > wall_clock::micros(HOUR) - SECOND);
    eventually("the promise is ahead of the clock", || {
        server.fences().1 > wall_clock::micros(HOUR)
    });
}

#[apply(on_one_server)]
fn fences_that_come_with_a_lock_are_promised(kind: Kind) {
    let source = Server::start(kind);
    let ahead = source.fences().1 + SECOND;
    source.run(&format!("DLOCK.ACQUIRE job alice 60000 FENCE {ahead}"));
    let payload = Payload::read(&source.run("DUMP job")).bytes();
    for grants in [true, false] {
        let mut server = hasty(kind);
        let mut client = server.client();
        client.send_args(&[&b"RESTORE"[..], b"job", b"0", &payload]);
        if grants {
            client.send("DLOCK.ACQUIRE other alice 60000");
        }
        assert_eq!(client.recv().text(), "OK");
        if grants {
            assert!(client.recv().int() > 0);
        } else {
            assert!(server.fences().0 >= ahead);
        }
        server.kill();
        server.start_again();
        assert!(server.next_fence() > ahead);
    }
}
