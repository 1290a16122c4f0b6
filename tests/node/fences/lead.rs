//! RESTORE and the lead of fences over the clock.

use harness::{Kind, Payload, Server, apply, eventually, on_two_servers, wall_clock};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 3600;

#[apply(on_two_servers)]
fn restore_is_no_way_to_drive_them_ahead_either(kind: Kind) {
    let ahead = Server::build(kind).with_movable_wall_clock().start();
    let server = Server::start(kind);
    let payload = |clock: i64| {
        ahead.set_wall_clock(clock);
        eventually("its clock is there", || {
            ahead.next_fence() >= wall_clock::micros(clock) - SECOND
        });
        ahead.run("DLOCK.ACQUIRE job alice 60000");
        let payload = Payload::read(&ahead.run("DUMP job")).bytes();
        ahead.run("DLOCK.RELEASE job alice");
        payload
    };
    let mut client = server.client();
    let mut restore = |payload: &[u8]| client.run_args(&[&b"RESTORE"[..], b"job", b"0", payload]);
    // Each is a few minutes ahead of the one before, and the first two are near enough.
    for (clock, accepted) in [(4 * 60, true), (9 * 60, true), (14 * 60, false), (HOUR, false)] {
        let answer = restore(&payload(clock));
        assert_eq!(!answer.is_error(), accepted, "{clock}: {answer:?}");
        server.run("DEL job");
    }
    assert!(server.node("fence").int() <= wall_clock::micros(0) + 10 * MINUTE);
    assert!(server.log().contains("more than ten minutes ahead"), "it says why");
}
