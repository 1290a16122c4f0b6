//! Fences only grow, over every end of a server, whatever the wall clock does meanwhile. Only the state file
//! is kept.

use std::thread;
use std::time::Duration;

use harness::{
    Client, Kind, Server, apply, eventually, on_one_server, on_two_servers, seed, wall_clock,
};
use rand::RngExt;

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

/// Many of these grants have to be written before they are given, and the server is killed meanwhile.
#[apply(on_one_server)]
fn a_crash_in_the_middle_of_writing_loses_no_fence(kind: Kind) {
    let mut rng = seed::rng();
    let mut server = hasty(kind);
    let mut last = server.next_fence();
    for round in 2..10 {
        let mut client = server.client();
        let (_, first) = server.fences();
        for n in 1..=50 {
            let ahead = first + n * SECOND;
            let ttl = 60_000 + 10_000 * n;
            client.send(&format!("DLOCK.ACQUIRE job{n} alice {ttl} FENCE {ahead}"));
        }
        thread::sleep(Duration::from_micros(rng.random_range(0..60_000)));
        server.kill();
        last = fences_until_the_end(&mut client).into_iter().fold(last, i64::max);
        server.start_again();
        assert_eq!(server.node("boot").int(), round);
        let fence = server.next_fence();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

/// The fences that reached a client before its server crashed.
fn fences_until_the_end(client: &mut Client) -> Vec<i64> {
    let answers = std::iter::from_fn(|| client.try_recv().ok());
    // After some rounds the proposals are too far ahead of the clock.
    answers.filter(|answer| answer.is_int()).map(|answer| answer.int()).collect()
}
