//! WATCH and client tracking: only a change of a lock invalidates them.

use harness::{Kind, Server, Value, apply, on_two_servers};

/// True if a client that watches `job` can carry its transaction out after these requests of others.
fn undisturbed(server: &Server, requests: &[&str]) -> bool {
    let mut watcher = server.client();
    watcher.run("WATCH job");
    for request in requests {
        let answer = server.run(request);
        assert!(!answer.is_error(), "{request}: {answer:?}");
    }
    watcher.run("MULTI");
    watcher.run("PING");
    !watcher.run("EXEC").is_null()
}

#[apply(on_two_servers)]
fn what_changes_nothing_does_not_disturb_a_watch(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    for request in [
        "DLOCK.ACQUIRE job bob 60000",
        "DLOCK.ACQUIRE job bob 60000 SHARED",
        "DLOCK.RELEASE job bob",
        "DLOCK.EXTEND job bob 60000",
        "DLOCK.EXTEND job alice 60000 FENCE 1",
        "DLOCK.CHECK job alice",
        "DLOCK.INSPECT job",
        "DLOCK.BREAK job bob",
    ] {
        assert!(undisturbed(&server, &[request]), "{request}");
    }
    server.run("DLOCK.RELEASE job alice");
    for request in [
        "DLOCK.RELEASE job alice",
        "DLOCK.EXTEND job alice 60000",
        "DLOCK.CHECK job alice",
        "DLOCK.INSPECT job",
        "DLOCK.BREAK job",
    ] {
        assert!(undisturbed(&server, &[request]), "{request} on a free key");
    }
}

#[apply(on_two_servers)]
fn what_changes_a_lock_disturbs_a_watch(kind: Kind) {
    let server = Server::start(kind);
    for request in [
        "DLOCK.ACQUIRE job alice 60000 SHARED",
        "DLOCK.ACQUIRE job bob 60000 SHARED",
        "DLOCK.EXTEND job alice 50000",
        "DLOCK.RELEASE job alice",
        "DLOCK.BREAK job",
        "DLOCK.ACQUIRE job alice 60000 LIMIT 2",
        "DLOCK.RELEASE job alice",
    ] {
        assert!(!undisturbed(&server, &[request]), "{request}");
    }
}

#[apply(on_two_servers)]
fn a_tracking_client_hears_of_changes_only(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut tracker = server.client().resp3();
    assert_eq!(tracker.run("CLIENT TRACKING ON").text(), "OK");
    for (request, changes) in [
        ("DLOCK.ACQUIRE job bob 60000", false),
        ("DLOCK.RELEASE job bob", false),
        ("DLOCK.EXTEND job bob 60000", false),
        ("DLOCK.EXTEND job alice 50000", true),
        ("DLOCK.RELEASE job alice", true),
        ("DLOCK.ACQUIRE job carol 60000", true),
    ] {
        tracker.run("DLOCK.INSPECT job");
        server.run(request);
        tracker.send("PING");
        let next = tracker.recv();
        if changes {
            let Value::Push(message) = &next else { panic!("{request}: {next:?}") };
            assert_eq!(message[0].text(), "invalidate", "{request}");
            assert_eq!(message[1].items()[0].text(), "job", "{request}");
            assert_eq!(tracker.recv().text(), "PONG");
        } else {
            assert_eq!(next.text(), "PONG", "{request}");
        }
    }
}
