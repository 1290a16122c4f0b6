//! Quarantine of a running node: a data set is loaded over its own, or thrown away.

use std::time::Instant;

use harness::quarantine::{RELOADED, assert_bound};
use harness::{Kind, Server, apply, on_every_server, on_one_server, on_two_servers};

#[apply(on_every_server)]
fn a_data_set_that_is_loaded_over_the_live_one_begins_a_quarantine(kind: Kind) {
    let server = Server::build(kind).append_only().start();
    for reload in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        let fence = server.run("DLOCK.ACQUIRE job alice 60000 META m").int();
        let mut waiter = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
        let since = Instant::now();
        assert_eq!(server.run(reload).text(), "OK", "{reload}");
        assert_bound(server.assert_in_quarantine(RELOADED), 60_000, since);
        assert_eq!(waiter.recv().code(), "UNBLOCKED", "{reload}");
        assert_eq!(server.holder("job")["fence"].int(), fence);
        assert_eq!(server.run("DLOCK.ACQUIRE free bob 1000").code(), "QUARANTINE");
        assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
        server.leave_quarantine();
        server.run("CONFIG SET dlock.quarantine auto");
        assert!(server.run("DLOCK.ACQUIRE free bob 60000").int() > fence);
        server.run("DLOCK.RELEASE free bob");
    }
    assert_eq!(server.quarantine_lines(), 4, "{}", server.log());
}

#[apply(on_one_server)]
fn a_reload_without_a_lease_in_this_life_begins_none(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET text any");
    server.run("DEBUG RELOAD");
    server.assert_grants();
    assert_eq!(server.quarantine_lines(), 0, "{}", server.log());
}

#[apply(on_two_servers)]
fn what_is_flushed_is_over_and_begins_none(kind: Kind) {
    let server = Server::start(kind);
    for flush in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHALL SYNC", "FLUSHDB", "FLUSHDB ASYNC"] {
        let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
        assert_eq!(server.run(flush).text(), "OK");
        assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > fence, "{flush}");
        server.assert_grants();
        server.run("FLUSHALL");
    }
    assert_eq!(server.quarantine_lines(), 0, "{}", server.log());
}
