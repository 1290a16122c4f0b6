//! DLOCK.ACQUIRE … KEEP: a place in the queue that outlives its request.

use harness::{Client, Kind, Server, apply, eventually, on_one_server, on_two_servers};

#[apply(on_two_servers)]
fn a_place_survives_its_connection_and_client_kill(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let dropped = server.waiter("DLOCK.ACQUIRE job dropped 60000 WAIT 0 KEEP 60000");
    let mut killed = server.client();
    let id = killed.id();
    server.block(&mut killed, "DLOCK.ACQUIRE job killed 60000 WAIT 0 EPHEMERAL KEEP 60000");
    let _other = server.waiter("DLOCK.ACQUIRE job other 60000 WAIT 0");
    dropped.close();
    server.run(&format!("CLIENT KILL ID {id}"));
    eventually("both are away", || server.node("places").int() == 2);
    assert_eq!(server.waiters("job"), ["dropped", "killed", "other"]);

    server.run("DLOCK.RELEASE job holder");
    assert_eq!(server.holders("job"), ["dropped"]);
    assert!(server.run("DLOCK.ACQUIRE job dropped 60000").int() > 0);
    server.run("DLOCK.RELEASE job dropped");
    // A grant by a turn is tied to no connection until the token asks again.
    assert_eq!(server.holders("job"), ["killed"]);
    let mut again = server.client();
    assert!(again.run("DLOCK.ACQUIRE job killed 600000 EPHEMERAL").int() > 0);
    again.close();
    eventually("the other's turn", || server.holders("job") == ["other"]);
}

#[apply(on_one_server)]
fn the_newest_request_of_a_token_ends_the_one_that_waits(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let mut waiter = server.waiter("DLOCK.ACQUIRE job next 600000 WAIT 0");
    server.run("DLOCK.ACQUIRE job next 60000 KEEP 60000");
    let answer = waiter.recv();
    assert!(answer.error().starts_with("REPLACED "), "{answer:?}");
    assert_eq!((server.waiters("job"), server.node("places").int()), (vec!["next".into()], 1));
}

/// In one turn of the event loop, the turn of a waiter comes, and its connection breaks before the reply.
#[apply(on_one_server)]
fn a_grant_outlives_the_connection_that_waited(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let mut waiter = server.client();
    let kill = format!("CLIENT KILL ID {}", waiter.id());
    server.block(&mut waiter, "DLOCK.ACQUIRE job next 60000 WAIT 0");
    let answers = server.at_once(&["DLOCK.RELEASE job holder", &kill]);
    assert!(answers.iter().all(|answer| answer.int() > 0));
    eventually("it is closed", || server.holder("job")["client"].is_null());
    assert_eq!(server.holders("job"), ["next"]);
}

#[apply(on_one_server)]
fn a_place_can_be_taken_in_a_transaction_and_in_a_script(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let mut client = server.client();
    client.run("MULTI");
    client.run("DLOCK.ACQUIRE job multi 60000 WAIT 0 KEEP 60000");
    assert!(client.run("EXEC").items()[0].is_null());
    let script = "return redis.call('DLOCK.ACQUIRE', KEYS[1], 'lua', 60000, 'KEEP', 60000)";
    let polled = |client: &mut Client| client.run_args(&["EVAL", script, "1", "job"]);
    assert!(polled(&mut client).is_null());
    assert_eq!(server.waiters("job"), ["multi", "lua"]);
    server.run("DLOCK.RELEASE job holder");
    assert_eq!(server.run("DLOCK.RELEASE job multi").int(), 1);
    assert!(polled(&mut client).int() > 0);
}

#[apply(on_one_server)]
fn inspect_shows_absent_waiters_and_how_long_their_places_are_kept(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job holder 60000");
    let _here = server.waiter("DLOCK.ACQUIRE job here 1000 WAIT 0 KEEP 1000");
    assert!(server.run("DLOCK.ACQUIRE job away 50000 KEEP 50000").is_null());
    let lock = server.run("DLOCK.INSPECT job");
    assert_eq!(lock.at("waiting").int(), 2);
    let waiters = lock.at("waiters");
    let shown = |n: usize| (waiters.items()[n].at("away").int(), waiters.items()[n].at("left-ms"));
    assert!(shown(0).0 == 0 && shown(0).1.is_null());
    assert!(shown(1).0 == 1 && shown(1).1.int() > 1000);
}
