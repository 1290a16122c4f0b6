//! Clients that an operator kills or unblocks while they hold or wait.

use harness::{Client, Kind, Server, Value, apply, eventually, on_every_server, on_two_servers};

/// A client that waits, and its id.
fn waiter(server: &Server, words: &str) -> (Client, i64) {
    let mut client = server.client();
    let id = client.id();
    server.block(&mut client, words);
    (client, id)
}

#[apply(on_every_server)]
fn a_killed_holder_leaves_what_is_ephemeral_to_the_next(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    let mut alice = server.client();
    let id = alice.id();
    for words in [
        "job alice 60000 EPHEMERAL",
        "pool alice 60000 LIMIT 1 EPHEMERAL",
        "read alice 60000 SHARED EPHEMERAL",
        "kept alice 60000",
    ] {
        assert!(alice.run(&format!("DLOCK.ACQUIRE {words}")).int() > 0);
    }
    let waits = ["job bob 60000", "pool bob 60000 LIMIT 1", "read bob 60000", "kept bob 60000"];
    let mut waiters = waits.map(|words| server.waiter(&format!("DLOCK.ACQUIRE {words} WAIT 0")));
    assert_eq!(server.run(&format!("CLIENT KILL ID {id}")).int(), 1);
    for waiter in &mut waiters[..3] {
        assert!(waiter.recv().int() > 0);
    }
    assert!(!waiters[3].has_answer());
    assert_eq!(server.holders("kept"), ["alice"]);
    assert_eq!(server.info_number("dlock", "dlock_ephemeral_ends"), 3);
    server.assert_agrees_with(&replica);
}

/// The node carries the end of a connection out a moment later.
#[apply(on_every_server)]
fn a_killed_holder_extends_nothing_that_is_ephemeral_over_another_connection(kind: Kind) {
    let server = Server::start(kind);
    let (mut alice, mut other) = (server.client(), server.client());
    let id = alice.id();
    let fence = alice.run("DLOCK.ACQUIRE job alice 60000 EPHEMERAL").int();
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    other.run("MULTI");
    for words in [
        format!("CLIENT KILL ID {id}"),
        "DLOCK.EXTEND job alice 60000".to_owned(),
        format!("DLOCK.EXTEND job alice 60000 FENCE {fence}"),
        "DLOCK.CHECK job alice".to_owned(),
    ] {
        other.run(&words);
    }
    let done = other.run("EXEC");
    let replies = done.items();
    assert_eq!(replies[..3].iter().map(Value::int).collect::<Vec<_>>(), [1, 0, 0]);
    assert!(replies[3].is_null());
    assert!(bob.recv().int() > fence);
}

/// Ends the wait of a client. False: a server before Redis 7.4 leaves it where it is.
fn unblock(server: &Server, kind: Kind, id: i64, form: &str) -> bool {
    let can = kind != Kind::Redis70;
    assert_eq!(server.run(&format!("CLIENT UNBLOCK {id} {form}")).int(), i64::from(can), "{form}");
    can
}

#[track_caller]
fn assert_unblocked(mut client: Client, form: &str) {
    match form {
        "ERROR" => client.recv().assert_error("UNBLOCKED", "CLIENT UNBLOCK"),
        _ => assert!(client.recv().is_null(), "{form}"),
    }
    client.assert_in_step();
}

#[apply(on_every_server)]
fn an_operators_unblock_ends_a_wait(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    for form in ["", "TIMEOUT", "ERROR"] {
        server.run("DLOCK.ACQUIRE job alice 60000");
        let (mut bob, id) = waiter(&server, "DLOCK.ACQUIRE job bob 60000 WAIT 0");
        let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
        if unblock(&server, kind, id, form) {
            assert_unblocked(bob, form);
            assert_eq!(server.waiters("job"), ["carol"], "{form}");
        } else {
            assert_eq!(server.waiters("job"), ["bob", "carol"]);
            server.run("DLOCK.RELEASE job bob");
            assert!(bob.recv().is_null());
        }
        server.run("DLOCK.RELEASE job alice");
        assert!(carol.recv().int() > 0, "{form}");
        server.run("DLOCK.RELEASE job carol");
        assert_eq!(server.node("waiters").int(), 0, "{form}");
    }
    server.assert_agrees_with(&replica);
}

#[apply(on_two_servers)]
fn an_operators_unblock_leaves_a_place_that_is_kept(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    for form in ["TIMEOUT", "ERROR"] {
        server.run("DLOCK.ACQUIRE job alice 60000");
        let (bob, id) = waiter(&server, "DLOCK.ACQUIRE job bob 60000 WAIT 0 KEEP 60000");
        if !unblock(&server, kind, id, form) {
            return;
        }
        assert_unblocked(bob, form);
        assert_eq!(server.node("places").int(), 1, "{form}");
        server.run("DLOCK.RELEASE job alice");
        assert_eq!(server.holders("job"), ["bob"], "{form}");
        assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > 0, "{form}");
        assert_eq!(server.run("DLOCK.RELEASE job bob").int(), 1, "{form}");
    }
    server.assert_agrees_with(&replica);
}

/// The grant and the end of the client come in one turn of the server.
#[apply(on_two_servers)]
fn a_grant_to_a_client_that_ends_in_the_same_moment_leaves_nothing_else_behind(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    for round in 0..4 {
        for (end, reason) in
            [("CLIENT KILL ID", ""), ("CLIENT UNBLOCK", "ERROR"), ("CLIENT UNBLOCK", "TIMEOUT")]
        {
            server.run("DLOCK.ACQUIRE job alice 60000");
            let (bob, id) = waiter(&server, "DLOCK.ACQUIRE job bob 60000 WAIT 0");
            let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
            let end = format!("{end} {id} {reason}");
            let mut operator = server.client();
            operator.run("MULTI");
            let steps = ["DLOCK.RELEASE job alice", &end];
            for step in if round % 2 == 0 { steps } else { [steps[1], steps[0]] } {
                operator.run(step);
            }
            let done = operator.run("EXEC");
            assert_eq!(done.items().len(), 2);
            end_of_bob(&server, bob, &mut carol);
            server.run("DLOCK.BREAK job");
            eventually("the lock is free", || server.run("EXISTS job").int() == 0);
            assert_eq!(server.info_number("dlock", "dlock_leases"), 0);
            assert_eq!(server.info_number("dlock", "dlock_waiters"), 0);
        }
    }
    server.assert_agrees_with(&replica);
}

/// Bob got the lock, or null, or an error, or was disconnected. A grant stays. Carol has the lock after bob.
#[track_caller]
fn end_of_bob(server: &Server, mut bob: Client, carol: &mut Client) {
    match bob.try_recv() {
        Ok(Value::Error(why)) => assert!(why.starts_with("UNBLOCKED "), "{why}"),
        Ok(Value::Null) => {}
        Ok(granted) => {
            assert!(granted.int() > 0);
            assert_eq!(server.holders("job"), ["bob"]);
        }
        Err(_) => {}
    }
    server.run("DLOCK.RELEASE job bob");
    assert!(carol.recv().int() > 0);
    assert_eq!(server.holders("job"), ["carol"]);
}
