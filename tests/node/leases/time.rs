//! The wall clock jumps. Leases and waits run on another clock: none ends early, and none late.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, Kind, Server, Value, apply, on_every_server, on_one_server};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// The clock's differences from the real time, one after the other: an hour and a day ahead and
/// behind, and all back.
const CLOCKS: [i64; 7] = [HOUR, 0, -HOUR, DAY, 0, -DAY, 0];

const LEASE: Duration = Duration::from_millis(400);
const WAIT: Duration = Duration::from_millis(300);
/// The moment of the clock's jump, counted from the beginning of the leases.
const JUMP: Duration = Duration::from_millis(100);

#[apply(on_every_server)]
fn a_jump_ends_no_lease_early_and_none_late(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    let mut events = server.client();
    server.run("CONFIG SET notify-keyspace-events Kd");
    events.run("SUBSCRIBE __keyspace@0__:alone");
    for clock in CLOCKS {
        let begun = Instant::now();
        server.run("DLOCK.ACQUIRE alone alice 400");
        events.recv();
        jump(&server, begun, clock);
        let holders = server.holders("alone");
        // Unless the machine took its time.
        assert!(holders == ["alice"] || begun.elapsed() >= LEASE, "{clock}: {holders:?}");
        // No client asks for the lock again.
        let message = events.recv();
        let ended = Instant::now();
        assert_eq!(message.items()[2].text(), "dlock.expire");
        assert_not_early(ended, begun + LEASE, clock);
        assert_eq!(server.node("leases").int(), 0);
    }
}

#[apply(on_one_server)]
fn a_jump_lets_no_waiter_give_up_early_or_late(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    server.run("DLOCK.ACQUIRE job alice 600000");
    for clock in CLOCKS {
        let begun = Instant::now();
        let bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 300");
        jump(&server, begun, clock);
        let (answered, ended) = answer(bob);
        assert!(answered.is_null(), "{clock}: {answered:?}");
        assert_not_early(ended, begun + WAIT, clock);
    }
    assert_eq!(server.holders("job"), ["alice"], "an hour and a day ahead, it is held");
    assert!(server.holder("job")["ttl-ms"].int() > 500_000);
}

/// Moves the clock once the leases have run for a while.
fn jump(server: &Server, begun: Instant, clock: i64) {
    thread::sleep(JUMP.saturating_sub(begun.elapsed()));
    server.set_wall_clock(clock);
}

/// The answer of a client that waits, and when it came.
#[track_caller]
fn answer(mut client: Client) -> (Value, Instant) {
    let answer = client.recv();
    (answer, Instant::now())
}

#[track_caller]
fn assert_not_early(moment: Instant, first: Instant, clock: i64) {
    let early = first.saturating_duration_since(moment);
    assert!(early.is_zero(), "{early:?} early, the clock set to {clock} s from the real time");
}
