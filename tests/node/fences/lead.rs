//! The lead of fences over the clock, whatever clients and crashes do.

use harness::{
    Kind, Payload, Server, apply, eventually, on_one_server, on_two_servers, wall_clock,
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 3600;
/// The largest fence there is.
const LAST: i64 = (1 << 53) - 1;

/// Raises the fence of a held lock as far ahead as the server allows. Returns how far it went.
fn push(server: &Server, steps: i64) -> i64 {
    let mut fence = server.run("DLOCK.ACQUIRE hers eve 60000").int();
    let mut step = 10 * MINUTE;
    for _ in 0..steps {
        let answer = server.run(&format!("DLOCK.EXTEND hers eve 60000 FENCE {}", fence + step));
        if answer.is_int() {
            fence += step;
        } else {
            assert_eq!(answer.code(), "TOOFAR", "{answer:?}");
            step = (step / 2).max(1);
        }
    }
    fence
}

#[apply(on_one_server)]
fn a_client_cannot_use_up_the_fences(kind: Kind) {
    for state_file in [true, false] {
        let builder = Server::build(kind);
        let server = if state_file { builder } else { builder.config("dlock.state-file \"\"") };
        let server = server.start();
        let pushed = push(&server, 300);
        let most = wall_clock::micros(0) + 10 * MINUTE;
        assert!(pushed <= most && most < LAST, "{pushed}, {most}");
        let ahead = server.node("fence-ahead-ms").int();
        assert!((9 * 60_000..=600_000).contains(&ahead), "{ahead}");
        assert_eq!(server.info("dlock")["dlock_fence"], pushed.to_string());
        // No other key's fences move, whatever happens to the lock.
        for removal in ["DEL hers", "DLOCK.ACQUIRE hers eve 60000", "RENAME hers also-hers"] {
            assert!(!server.run(removal).is_error());
            let other = server.run("DLOCK.ACQUIRE other alice 60000").int();
            assert!(other <= wall_clock::micros(0), "{other} after {removal}");
            server.run("DLOCK.RELEASE other alice");
        }
        let next = server.run("DLOCK.ACQUIRE also-hers eve 60000").int();
        assert!(next > pushed, "{next} after {pushed}");
    }
}

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
