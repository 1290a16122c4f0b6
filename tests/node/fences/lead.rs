//! The lead of fences over the clock, whatever clients and crashes do.

use harness::{
    Client, Kind, Payload, Server, Value, apply, eventually, on_one_server, on_two_servers,
    wall_clock,
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 3600;
/// The largest fence there is.
const LAST: i64 = (1 << 53) - 1;

/// Asks for a fence of a lock that is held, as far ahead as the server takes it. How far it went.
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
        // Nobody else's fences move, whatever becomes of the lock.
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

/// Proposes this fence on this many names, and gives each back.
fn propose_on(client: &mut Client, names: std::ops::Range<u32>, proposal: i64) -> Vec<Value> {
    let take = |n: u32| format!("DLOCK.ACQUIRE hers:{n} eve 60000 FENCE {proposal}");
    let give = |n: u32| format!("DLOCK.RELEASE hers:{n} eve");
    let answers = client.pipeline(names.flat_map(|n| [take(n), give(n)]));
    answers.into_iter().step_by(2).collect()
}

#[apply(on_one_server)]
fn who_has_too_many_keys_ahead_is_refused_and_nobody_else(kind: Kind) {
    let server = Server::start(kind);
    for user in ["eve", "alice"] {
        let user = format!("ACL SETUSER {user} on nopass ~* +@all");
        assert_eq!(server.run(&user).text(), "OK");
    }
    let as_user = |user: &str| {
        let mut client = server.client();
        assert_eq!(client.run(&format!("AUTH {user} any")).text(), "OK");
        client
    };
    let far = wall_clock::micros(0) + 9 * MINUTE;
    let (mut eve, mut alice) = (as_user("eve"), as_user("alice"));
    let granted = propose_on(&mut eve, 0..50_000, far);
    assert!(granted.iter().all(|fence| fence.int() >= far));
    let refused = propose_on(&mut eve, 50_000..50_001, far).remove(0);
    refused.assert_error("TOOFAR", "too many have fences ahead of its clock");
    let raise =
        ["DLOCK.ACQUIRE more eve 60000", &format!("DLOCK.EXTEND more eve 60000 FENCE {far}")]
            .map(|request| eve.run(request));
    raise[1].assert_error("TOOFAR", "this user");
    // A fence as she proposes, or near the clock, is not refused.
    let near = wall_clock::micros(0) + SECOND;
    assert!(eve.run(&format!("DLOCK.ACQUIRE near eve 60000 FENCE {near}")).int() >= near);
    assert!(eve.run("DLOCK.ACQUIRE hers:7 eve 60000").int() > far);
    assert_eq!(alice.run(&format!("DLOCK.ACQUIRE hers alice 60000 FENCE {far}")).int(), far);
    assert_eq!(server.info("dlock")["dlock_keys_ahead"], "50001");
}
