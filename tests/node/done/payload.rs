//! RESTORE brings a sound completion record, or is refused; and the server goes on running.

use harness::{Kind, Server, apply, bytes, eventually, on_one_server, wall_clock};

/// A client with write access to one key can neither move the node's fences nor lock its key for ever.
#[apply(on_one_server)]
fn a_restored_fence_far_ahead_of_the_clock_is_refused(kind: Kind) {
    let server = Server::start(kind);
    let fast = Server::build(kind).with_movable_wall_clock().start();
    fast.set_wall_clock(100_000);
    let ahead = wall_clock::micros(99_990);
    fast.run("DLOCK.ACQUIRE job alice 600000");
    let release = format!("DLOCK.RELEASE job alice DONE 600000 FENCE {ahead}");
    eventually("the clock is ahead", || fast.run(&release).is_int());
    let copy = fast.run("DUMP job");
    let restore = bytes!["RESTORE", "copy", "60000", copy.bytes()];
    server.client().run_args(&restore).assert_error("ERR", "Bad data format");
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert!(server.run("DLOCK.ACQUIRE copy bob 60000").int() < ahead);
    assert_eq!(fast.client().run_args(&restore).text(), "OK");
}
