//! Fences go on growing over a completion record, and AGAIN is granted over the records that it names.

use harness::{Kind, Server, apply, bytes, eventually, on_one_server, wall_clock};

use super::assert_done;

/// Far ahead of the clock, in µs, and no farther than a proposal may be.
const AHEAD: i64 = 300_000_000;

/// Ends the record at a key, and perhaps the server's process, with only the state file saved.
type End = fn(&mut Server, &str);

const ENDS: [(&str, End); 7] = [
    ("DEL", |server, key| drop(server.run(&format!("DEL {key}")))),
    ("BREAK", |server, key| drop(server.run(&format!("DLOCK.BREAK {key}")))),
    ("FLUSHALL", |server, _| drop(server.run("FLUSHALL ASYNC"))),
    ("expiry", |server, key| {
        server.run(&format!("PEXPIRE {key} 1"));
        eventually("the time is over", || server.run(&format!("EXISTS {key}")).int() == 0);
    }),
    ("eviction", |server, _| server.evict_all()),
    ("restart", |server, _| server.restart()),
    ("crash", |server, _| {
        server.kill();
        server.start_again();
    }),
];

#[apply(on_one_server)]
fn the_next_fence_is_larger_than_any_of_before_however_the_record_ended(kind: Kind) {
    for (what, end) in ENDS {
        let mut server = Server::build(kind).config("dlock.quarantine off").start();
        for claim in ["smaller", "own", "ahead"] {
            let key = format!("{what}-{claim}");
            let own = server.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
            let claimed = match claim {
                "smaller" => 5,
                "own" => own,
                _ => wall_clock::micros(0) + AHEAD,
            };
            let release = format!("DLOCK.RELEASE {key} alice DONE 60000 FENCE {claimed}");
            assert_eq!(server.run(&release).int(), 1, "{key}");
            assert_done(&server, &key, claimed);
            let other = server.run(&format!("DLOCK.ACQUIRE {key}-other alice 60000")).int();
            assert!(other < wall_clock::micros(0) + AHEAD / 2, "{key}: {other}");
            // An evicted lock also closes one key in 4,096.
            server.run(&format!("DLOCK.RELEASE {key}-other alice"));
            end(&mut server, &key);
            let next = server.run(&format!("DLOCK.ACQUIRE {key} bob 60000")).int();
            assert!(next > own.max(claimed), "{key}: {next} after {own}, {claimed}");
            server.run(&format!("DLOCK.RELEASE {key} bob"));
        }
    }
}

/// The state file has the fence of a completion record before RESTORE replies.
#[apply(on_one_server)]
fn a_record_that_is_restored_counts_after_a_crash_at_once(kind: Kind) {
    let here = Server::start(kind);
    here.run("DLOCK.ACQUIRE job alice 60000");
    let claimed = wall_clock::micros(0) + AHEAD;
    here.run(&format!("DLOCK.RELEASE job alice DONE 60000 FENCE {claimed}"));
    let copy = here.run("DUMP job");
    let mut there = Server::build(kind).config("dlock.quarantine off").start();
    let restore = bytes!["RESTORE", "job", "60000", copy.bytes()];
    assert_eq!(there.client().run_args(&restore).text(), "OK");
    there.kill();
    there.start_again();
    let next = there.run("DLOCK.ACQUIRE job bob 60000").int();
    assert!(next > claimed, "{next} after {claimed}");
}
