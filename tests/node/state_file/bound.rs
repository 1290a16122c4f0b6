//! The bound in the state file: no lease runs longer. A server that has lost its data waits that long.

use std::fs;

use harness::{Kind, Payload, Server, apply, on_one_server, on_two_servers};

const LONG: i64 = 600_000;

#[apply(on_two_servers)]
fn a_longer_lease_that_cannot_be_written_does_not_arrive_and_leaves_no_trace(kind: Kind) {
    let source = Server::start(kind);
    source.run(&format!("DLOCK.ACQUIRE job alice {LONG}"));
    let payload = Payload::read(&source.run("DUMP job")).bytes();
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE held alice 60000");
    let in_the_way = server.state_file().with_extension("state.tmp");
    fs::create_dir(&in_the_way).unwrap();
    let before = server.traces();
    let restored = server.client().run_args(&[&b"RESTORE"[..], b"job", b"0", &payload]);
    restored.assert_error("ERR", "Bad data format");
    assert_eq!(server.traces(), before);
    assert!(server.run("DLOCK.ACQUIRE free bob 1000").int() > 0);
    fs::remove_dir(&in_the_way).unwrap();
}

/// Loaded leases start at full length again, and may be lost the next time.
#[apply(on_one_server)]
fn a_longer_lease_that_was_loaded_is_written(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    server.run(&format!("DLOCK.ACQUIRE job alice {LONG}"));
    server.kill();
    let file = server.state_file();
    fs::remove_file(&file).unwrap();
    server.add_config("dlock.max-ttl 60000");
    server.start_again();
    assert_eq!(server.holders("job"), ["alice"]);
    assert!(server.node("lease-bound-ms").int() >= LONG - 1000);
    // Longer than a new one may be.
    server.run("DLOCK.ACQUIRE other bob 60001").assert_error("TOOLONG", "60000 ms");
    server.kill();
    fs::remove_dir_all(server.folder().join("appendonlydir")).unwrap();
    server.start_again();
    assert!(server.node("quarantine-ms").int() >= LONG / 2);
}
