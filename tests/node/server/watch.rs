//! WATCH: only a change of a lock disturbs it.

use harness::{Kind, Server, apply, on_two_servers};

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
