//! A server that is killed while it starts, or ends in any way while it is in quarantine: the rest of the
//! quarantine goes on.

use harness::quarantine::CRASHED;
use harness::{Builder, Kind, Server, apply, eventually, on_two_servers};

/// The lease of each lock, in milliseconds.
const LEASE: i64 = 600_000;

fn build(kind: Kind) -> Builder {
    Server::build(kind).append_only()
}

fn take_locks(server: &Server) {
    for key in ["a", "b", "c", "d", "e"] {
        assert!(server.run(&format!("DLOCK.ACQUIRE {key} alice {LEASE}")).int() > 0);
    }
}

/// Starts it and kills it while it loads its log.
fn die_while_loading(server: &mut Server) {
    server.clear_log();
    server.add_config("key-load-delay 10000000");
    server.start_again_and_kill_after(|server| {
        eventually("it loads the commands in its log", || {
            server.log().contains("DB loaded from base file")
        });
    });
    let log = server.log();
    assert!(!log.contains("Ready to accept connections"), "it was too quick:\n{log}");
    server.add_config("key-load-delay 0");
}

/// Asserts that an end of the server in a quarantine leaves the rest of it.
#[track_caller]
fn assert_quarantine_outlives_ends(mut server: Server) {
    for end in [Server::kill as fn(&mut Server), Server::stop, Server::kill] {
        let left = server.node("quarantine-ms").int();
        assert!(left > LEASE / 2, "{left} ms are left");
        assert_eq!(server.run("DLOCK.ACQUIRE free bob 1000").code(), "QUARANTINE");
        end(&mut server);
        server.start_again();
    }
    server.assert_in_quarantine(CRASHED);
}

#[apply(on_two_servers)]
fn ends_while_it_loads_and_in_quarantine_end_no_quarantine(kind: Kind) {
    let mut server = build(kind).start();
    take_locks(&server);
    server.kill();
    die_while_loading(&mut server);
    server.start_again();
    assert_quarantine_outlives_ends(server);
}
