//! `dlock.quarantine`: automatic, off, or a least number of milliseconds.

use harness::quarantine::CRASHED;
use harness::{Kind, Server, apply, on_one_server, on_two_servers};

use super::crash::crashed;

const NAME: &str = "dlock.quarantine";

fn setting(server: &Server) -> String {
    server.run(&format!("CONFIG GET {NAME}")).at(NAME).text()
}

#[apply(on_one_server)]
fn other_values_are_refused_and_change_nothing(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let values =
        ["", "0", "-1", "1.5", "4294967296", "99999999999999999999", "on", "10s", "auto 5"];
    for value in values {
        let refused = client.run_args(&["CONFIG", "SET", NAME, value]);
        let words = refused.error();
        for allowed in ["auto", "off", "4294967295"] {
            assert!(words.contains(allowed), "{value:?}: {words}");
        }
        assert_eq!(setting(&server), "auto", "{value:?}");
    }
    server.assert_grants();
}

#[apply(on_one_server)]
fn off_ends_a_quarantine_at_once_and_serves_waiters(kind: Kind) {
    let server = crashed(kind, &[]);
    let mut waiters: Vec<_> =
        (0..3).map(|n| server.waiter(&format!("DLOCK.ACQUIRE job{n} bob 60000 WAIT 0"))).collect();
    assert_eq!(server.run(&format!("CONFIG SET {NAME} off")).text(), "OK");
    server.assert_grants();
    for waiter in &mut waiters {
        assert!(waiter.recv().int() > 0);
    }
    assert_eq!(server.quarantine_lines(), 2, "{}", server.log());

    // A quarantine that is over does not come back.
    assert_eq!(server.run(&format!("CONFIG SET {NAME} auto")).text(), "OK");
    server.assert_grants();
    assert_eq!(server.run(&format!("CONFIG SET {NAME} 60000")).text(), "OK");
    server.assert_grants();
}

#[apply(on_two_servers)]
fn off_in_a_command_that_is_refused_ends_nothing(kind: Kind) {
    let server = crashed(kind, &["job alice 60000"]);
    let mut waiter = server.waiter("DLOCK.ACQUIRE free bob 1000 WAIT 0");
    let refused = server.run(&format!("CONFIG SET {NAME} off maxmemory nonsense"));
    refused.assert_error("ERR", "'maxmemory'");
    assert_eq!(setting(&server), "auto");
    server.assert_in_quarantine(CRASHED);
    assert!(!waiter.has_answer());
    server.leave_quarantine();
    assert!(waiter.recv().int() > 0);
}
