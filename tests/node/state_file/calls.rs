//! The system calls for the state file: the thread that makes them, and calls that fail or take long.

use std::path::{Path, PathBuf};
use std::thread;

use harness::system_calls::SystemCall;
use harness::{Fault, Kind, Server, apply, eventually, on_one_server, on_two_servers, wall_clock};

const SECOND: i64 = 1_000_000;

/// The calls that wait for a disk, and those that open a file.
const WATCHED: &str = "fsync,fdatasync,sync_file_range,rename,renameat,renameat2,open,openat,creat";

/// The system calls for the state file: nothing else is on a disk here.
fn state_calls(server: &Server, since: usize) -> Vec<SystemCall> {
    let mut calls = server.system_calls().split_off(since);
    calls.retain(|call| call.syncs() || call.renames() || call.text.contains(".state"));
    calls
}

/// Asks for more than is promised: it has to be written first.
#[track_caller]
fn make_it_write(server: &Server) -> i64 {
    let longer = server.node("lease-bound-ms").int() + 1;
    let fence = server.run(&format!("DLOCK.ACQUIRE far zed {longer}")).int();
    server.run("DLOCK.RELEASE far zed");
    fence
}

#[apply(on_two_servers)]
fn the_main_thread_never_touches_it(kind: Kind) {
    let server = Server::build(kind).watched(WATCHED).with_movable_wall_clock().start();
    let main = server.process_id();
    let started = server.system_calls().len();
    let mut client = server.client();
    let mut ttl = 100;
    for round in 0..5 {
        let cycles = (0..1000).flat_map(|n| {
            let key = n % 10;
            [format!("DLOCK.ACQUIRE job{key} t 60000"), format!("DLOCK.RELEASE job{key} t")]
        });
        let answers = client.pipeline(cycles);
        assert!(answers.iter().all(|answer| answer.int() > 0));
        // Each of these is written: a longer lease, a fence that time has carried above the promise, and a
        // longer lease.
        make_it_write(&server);
        let clock = 1000 * (round + 1);
        server.set_wall_clock(clock);
        let now = wall_clock::micros(clock);
        // The node looks at the wall clock once in a second.
        eventually("fences follow the clock", || {
            server.run("DLOCK.RELEASE later zed");
            server.run("DLOCK.ACQUIRE later zed 1000").int() >= now
        });
        assert!(server.fences().1 > now);
        ttl *= 3;
        assert!(server.run(&format!("DLOCK.ACQUIRE long{round} zed {ttl}")).is_int());
    }
    let calls = state_calls(&server, started);
    let own: Vec<&SystemCall> = calls.iter().filter(|call| call.thread == main).collect();
    assert!(own.is_empty(), "{own:#?}");
    let renamed = calls.iter().filter(|call| call.renames()).count();
    assert!(renamed >= 10, "what is seen cannot be all: {calls:#?}");
}

#[apply(on_one_server)]
fn a_steady_load_hardly_ever_writes_it(kind: Kind) {
    let server = Server::build(kind).watched(WATCHED).start();
    let mut client = server.client();
    client.run("DLOCK.ACQUIRE job t 60000");
    client.run("DLOCK.RELEASE job t");
    let renames = || server.system_calls().iter().filter(|call| call.renames()).count();
    let before = renames();
    let cycles = (0..5_000).flat_map(|n| {
        let ttl = 50_000 + n % 10_000;
        [format!("DLOCK.ACQUIRE job t {ttl}"), "DLOCK.RELEASE job t".to_owned()]
    });
    let answers = client.pipeline(cycles);
    assert!(answers.iter().all(|answer| answer.int() > 0));
    // The time may have come to renew the promise.
    assert!(renames() <= before + 1);
}

/// Only this order is safe: contents, then name, then the folder.
#[apply(on_one_server)]
fn every_write_reaches_the_disk_before_it_counts(kind: Kind) {
    let server = Server::build(kind).watched(WATCHED).start();
    let started = server.system_calls().len();
    make_it_write(&server);
    let calls = state_calls(&server, started);
    let steps = calls.iter().filter_map(|call| match () {
        () if call.renames() => Some("rename"),
        () if call.syncs() && call.text.contains(".state.tmp") => Some("file"),
        () if call.syncs() => Some("folder"),
        () => None,
    });
    let steps: Vec<&str> = steps.collect();
    assert!(steps.starts_with(&["file", "rename", "folder"]), "{steps:?} {calls:#?}");
    assert!(calls.iter().all(|call| call.thread == calls[0].thread), "{calls:#?}");
}

/// Calls that fail, their errors, and their files.
fn faults(server: &Server) -> Vec<(&'static str, &'static str, Vec<PathBuf>)> {
    let file = server.state_file();
    let next = file.with_extension("state.tmp");
    let folder = file.parent().expect("it is in a folder").to_path_buf();
    vec![
        ("open,openat,creat", "error=EMFILE", vec![next.clone()]),
        ("write,writev,pwrite64", "error=ENOSPC", vec![next.clone()]),
        ("fsync,fdatasync", "error=EIO", vec![next.clone()]),
        ("rename,renameat,renameat2", "error=EROFS", vec![next, file]),
        ("fsync,fdatasync", "error=EIO", vec![folder]),
    ]
}

#[apply(on_two_servers)]
fn a_call_that_fails_is_survived_whichever_it_is(kind: Kind) {
    let servers: Vec<Server> = (0..5).map(|_| Server::start(kind)).collect();
    // Each takes a second to recover.
    thread::scope(|scope| {
        for (number, server) in servers.iter().enumerate() {
            let (calls, fault, files) = faults(server).swap_remove(number);
            scope.spawn(move || assert_survives(server, calls, fault, &files));
        }
    });
}

#[track_caller]
fn assert_survives(server: &Server, calls: &str, fault: &str, files: &[PathBuf]) {
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let before = server.module_log().len();
    let last = server.next_fence();
    let fault = Fault::inject(server, calls, fault, &files);
    let ahead = server.fences().1 + SECOND;
    let refused = server.run(&format!("DLOCK.ACQUIRE far zed 60000 FENCE {ahead}"));
    assert_eq!(refused.code(), "NOTDURABLE", "{calls}: {refused:?}");
    eventually("it says so", || server.node("durable").text() == "failing");
    assert_ne!(server.node("state-file-error").text(), "");
    assert!(server.next_fence() > last, "{calls}: that was promised");

    fault.end();
    eventually("it writes again", || server.node("durable").text() == "yes");
    assert_eq!(server.node("state-file-error").text(), "");
    let said = server.module_log().split_off(before);
    assert_eq!(said.len(), 2, "{calls}: {said:#?}");
    assert!(make_it_write(server) > last);
}

#[apply(on_one_server)]
fn a_crash_after_a_call_that_failed_loses_no_fence(kind: Kind) {
    let mut server = Server::build(kind).config("dlock.quarantine off").start();
    for (calls, fault, files) in faults(&server) {
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        server.next_fence();
        let fault = Fault::inject(&server, calls, fault, &files);
        let ahead = server.fences().1 + SECOND;
        let refused = server.run(&format!("DLOCK.ACQUIRE far zed 60000 FENCE {ahead}"));
        assert_eq!(refused.code(), "NOTDURABLE", "{calls}: {refused:?}");
        let last = server.next_fence();
        server.kill();
        fault.end();
        server.start_again();
        assert!(server.next_fence() > last, "{calls}");
    }
}

#[apply(on_one_server)]
fn a_slow_disk_delays_no_client_within_the_promise(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    let (_, reserved) = server.fences();
    let said = server.module_log().len();
    let slow = Fault::inject(&server, "fsync,fdatasync", "delay_enter=2000000", &[]);
    // The server has to renew the promise now, and not yet too late.
    server.set_wall_clock(45);
    let mut answered = 0;
    eventually("the promise is renewed", || {
        server.next_fence();
        assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 1);
        answered += 1;
        server.fences().1 > reserved
    });
    // A client that had to wait for the disk would have been answered once or twice.
    assert!(answered > 5, "{answered} answers while the disk was slow");
    slow.end();
    assert_eq!(server.node("durable").text(), "yes");
    assert_eq!(server.module_log().split_off(said), [""; 0], "it was slow, and did not fail");
}

#[apply(on_one_server)]
fn a_disk_that_hangs_refuses_what_it_would_have_to_write(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let hung = Fault::inject(&server, "fsync,fdatasync", "delay_enter=60000000", &[]);
    let (_, reserved) = server.fences();
    let ahead = reserved + SECOND;
    for words in [
        format!("DLOCK.ACQUIRE far zed 60000 FENCE {ahead}"),
        "DLOCK.ACQUIRE long zed 600000".to_owned(),
        "DLOCK.EXTEND job alice 600000".to_owned(),
    ] {
        let before = server.traces();
        let refused = server.run(&words);
        assert_eq!(refused.code(), "NOTDURABLE", "{words}: {refused:?}");
        assert_eq!(server.traces(), before);
        assert_eq!(server.node("durable").text(), "failing", "{words}");
        assert_eq!(server.node("state-file-error").text(), "the disk does not answer");
    }
    assert!(server.next_fence() < reserved);
    hung.end();
    eventually("it writes again", || server.node("durable").text() == "yes");
    assert!(make_it_write(&server) > 0);
    assert_eq!(server.run("DLOCK.EXTEND job alice 600000").int(), 1);
}
