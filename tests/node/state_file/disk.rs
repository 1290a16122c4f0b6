//! A state file that cannot be written while the server runs. Grants go on as far as was promised, everything
//! else goes on, and all is well again as soon as the file can be written.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

const SECOND: i64 = 1_000_000;

/// Locks of the test on a server with a full disk, after it has noticed.
fn full(kind: Kind) -> Server {
    let server = Server::build(kind).with_small_disk().with_movable_wall_clock().start();
    for lock in ["held alice 60000", "broken alice 60000", "pool alice 60000 LIMIT 2"] {
        assert!(server.run(&format!("DLOCK.ACQUIRE {lock}")).is_int());
    }
    server.fill_disk();
    until_noticed(&server);
    server
}

/// Asks for more than was promised: the full disk refuses it.
#[track_caller]
fn until_noticed(server: &Server) {
    let ahead = server.fences().1 + 60 * SECOND;
    let refused = server.run(&format!("DLOCK.ACQUIRE far zed 60000 FENCE {ahead}"));
    assert_eq!(refused.code(), "NOTDURABLE", "{refused:?}");
    eventually("it says so", || server.node("durable").text() == "failing");
}

/// Lets time pass on the wall clock until the promise is used up. Returns how far that went.
#[track_caller]
fn use_up(server: &Server) -> i64 {
    let (_, reserved) = server.fences();
    server.set_wall_clock(300);
    eventually("it is used up", || server.node("granting").text() == "not-durable");
    reserved
}

#[track_caller]
fn assert_not_durable(server: &Server, words: &str) {
    let before = server.traces();
    let refused = server.run(words);
    assert_eq!(refused.code(), "NOTDURABLE", "{words}: {refused:?}");
    assert_eq!(server.traces(), before, "{words}");
}

#[track_caller]
fn until_recovered(server: &Server) {
    eventually("it writes again", || server.node("durable").text() == "yes");
    assert_eq!(server.node("state-file-error").text(), "");
    eventually("it grants again", || server.node("granting").text() == "yes");
}

#[apply(on_one_server)]
fn on_a_full_disk_grants_go_on_as_far_as_was_promised(kind: Kind) {
    let server = full(kind);
    let node = server.run("DLOCK.NODE");
    assert!(node.at("state-file-error").text().contains("No space left"), "{node:?}");
    assert_eq!(node.at("granting").text(), "yes");
    let reserved = node.at("fence-reserved").int();
    let mut last = node.at("fence").int();
    for _ in 0..200 {
        let fence = server.next_fence();
        assert!(last < fence && fence < reserved, "{last} {fence} {reserved}");
        last = fence;
    }
    assert!(server.run("DLOCK.ACQUIRE pool bob 60000 LIMIT 2").int() > last);
    assert_eq!(use_up(&server), reserved);
    assert_not_durable(&server, "DLOCK.ACQUIRE free bob 1000");
    assert_not_durable(&server, "DLOCK.ACQUIRE free bob 1000 SHARED");

    eventually("it says so", || server.node("granting").text() == "not-durable");
    assert_eq!(server.info("dlock")["dlock_granting"], "not-durable");
    assert_eq!(server.fences().1, reserved);
    server.free_disk();
    until_recovered(&server);
    assert!(server.next_fence() > reserved);
}

#[apply(on_one_server)]
fn on_a_full_disk_everything_but_new_grants_goes_on(kind: Kind) {
    let server = full(kind);
    let fence = server.run("DLOCK.CHECK held alice").int();
    let mut ephemeral = server.client();
    ephemeral.run("DLOCK.ACQUIRE ephemeral eve 60000 EPHEMERAL");
    let mut bob = server.waiter("DLOCK.ACQUIRE held bob 60000 WAIT 0");
    let leases =
        server.at_once(&["DLOCK.ACQUIRE short alice 300", "DLOCK.NODE"])[1].at("leases").int();
    use_up(&server);

    assert_eq!(server.run("DLOCK.CHECK held alice").int(), fence);
    assert_eq!(server.holders("held"), ["alice"]);
    assert_eq!(server.run("DLOCK.EXTEND held alice 50000").int(), 1);
    assert_eq!(server.run("DLOCK.EXTEND held bob 50000").int(), 0);
    assert_eq!(server.run("DLOCK.ACQUIRE held alice 55000").int(), fence, "it holds already");
    assert_eq!(server.run("DLOCK.BREAK broken").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE pool alice").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE pool alice").int(), 0);
    ephemeral.close();
    // Two were released, one ended with its client, one is over.
    eventually("leases end", || server.node("leases").int() == leases - 4);
    assert_eq!(server.run("DLOCK.RELEASE held alice").int(), 1);
    assert_eq!(server.run("SET key value").text(), "OK");
    assert!(!bob.has_answer(), "nothing can be granted");
    server.free_disk();
    assert!(bob.recv().int() > fence);
    until_recovered(&server);
}

#[apply(on_one_server)]
fn one_warning_is_logged_and_one_notice(kind: Kind) {
    let server = Server::build(kind).with_small_disk().start();
    let quiet = server.module_log().len();
    for seconds in [2, 0] {
        let before = server.module_log().len();
        server.fill_disk();
        until_noticed(&server);
        let begun = Instant::now();
        // The server tries again every second, and clients ask for more all the time.
        while begun.elapsed() < Duration::from_secs(seconds) {
            let bound = server.node("lease-bound-ms").int();
            assert_not_durable(&server, &format!("DLOCK.ACQUIRE far zed {}", 2 * bound + 1000));
            thread::sleep(Duration::from_millis(20));
        }
        let said = server.module_log().split_off(before);
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(said[0].contains("# <module> dlock: "), "it is a warning: {}", said[0]);
        assert!(said[0].contains("disk/dlock.state"), "it names the file: {}", said[0]);
        assert!(said[0].contains("No space left"), "it says why: {}", said[0]);

        server.free_disk();
        until_recovered(&server);
        let said = server.module_log().split_off(before + 1);
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(said[0].contains("* <module> dlock: "), "it is a notice: {}", said[0]);
    }
    assert_eq!(server.module_log().len(), quiet + 4);
}

#[apply(on_two_servers)]
fn a_full_disk_does_not_keep_a_server_from_its_end(kind: Kind) {
    for uses_up in [false, true] {
        let mut server = full(kind);
        if uses_up {
            use_up(&server);
        }
        server.client().send("SHUTDOWN NOSAVE");
        assert!(server.wait_for_end(), "it ends well");
    }
}
