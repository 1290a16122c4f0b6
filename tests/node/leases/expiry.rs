//! An expiry that another client sets on the key of a lock. It ends the lease, unless the holder asks for
//! more before that; then the holder gets what the reply says.

use harness::{Client, Kind, Server, apply, on_every_server, on_one_server, on_two_servers};

/// The modes of the lock at `job`.
const HOLDERS: [&str; 4] = ["", "EPHEMERAL META m", "SHARED", "LIMIT 3"];

fn pttl(server: &Server) -> i64 {
    server.run("PTTL job").int()
}

/// Alice holds, and another client sets an expiry of an hour.
fn held_and_expiring(server: &Server, alice: &mut Client, options: &str) {
    server.run("DEL job");
    assert!(alice.run(&format!("DLOCK.ACQUIRE job alice 60000 {options}")).int() > 0);
    assert_eq!(server.run("PEXPIRE job 3600000").int(), 1);
    assert!(pttl(server) > 0);
}

#[apply(on_every_server)]
fn a_holder_that_extends_or_asks_again_takes_it_away(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    let mut alice = server.client();
    let by_script = "return redis.call('DLOCK.EXTEND', KEYS[1], 'alice', 60000)";
    for options in HOLDERS {
        let again = format!("DLOCK.ACQUIRE job alice 60000 {options}");
        let extensions = ["DLOCK.EXTEND job alice 60000", "DLOCK.EXTEND job alice 30000"];
        let requests = extensions.into_iter().chain([again.as_str()]).map(str::split_whitespace);
        let script = vec!["EVAL", by_script, "1", "job"];
        for request in requests.map(Iterator::collect).chain([script]) {
            held_and_expiring(&server, &mut alice, options);
            assert!(alice.run_args(&request).int() > 0, "{request:?}");
            assert_eq!(pttl(&server), -1, "{request:?}");
            server.assert_agrees_with(&replica);
            assert_eq!(pttl(&replica), -1, "{request:?}");
        }
    }
}

#[apply(on_one_server)]
fn a_client_that_does_not_hold_leaves_it_there(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    for options in HOLDERS {
        held_and_expiring(&server, &mut alice, options);
        assert_eq!(server.run("DLOCK.EXTEND job bob 60000").int(), 0);
        assert_eq!(server.run("DLOCK.EXTEND job alice 60000 FENCE 1").int(), 0);
        assert!(server.run("DLOCK.ACQUIRE job bob 60000").is_null());
        assert!(server.run("DLOCK.CHECK job alice").int() > 0);
        assert!(pttl(&server) > 0, "{options}");
    }
}

#[apply(on_two_servers)]
fn listeners_are_told_when_it_is_taken_away_and_only_then(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    held_and_expiring(&server, &mut alice, "");
    server.run("CONFIG SET notify-keyspace-events Eg");
    let mut events = server.client();
    events.run("SUBSCRIBE __keyevent@0__:persist");
    for _ in 0..3 {
        assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 1);
    }
    assert_eq!(events.recv().items()[2].text(), "job");
    assert!(!events.has_answer());
}
