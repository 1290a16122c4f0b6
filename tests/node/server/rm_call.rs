//! Other modules call DLOCK's commands, also from inside a keyspace event of a lock.

use harness::{
    Client, Kind, Server, Value, apply, bytes, eventually, on_every_server, on_two_servers,
};

#[apply(on_every_server)]
fn a_module_that_would_wait_is_answered_at_once(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    let before = server.traces();
    let mut client = server.client();
    for more in ["", " SHARED", " LIMIT 2"] {
        let ask = format!("DLOCK.ACQUIRE job bob 60000{more} WAIT");
        assert!(client.run(&format!("CALLER.CALL !E {ask} 0")).is_null(), "{ask}");
        assert!(client.run(&format!("CALLER.CALL E {ask} 60000")).is_null(), "{ask}");
    }
    assert_eq!(server.traces(), before);
    client.assert_in_step();

    // A script of the other module, which may not wait either.
    let script = "return redis.call('DLOCK.ACQUIRE','job','bob','60000','WAIT','0')";
    let args = ["CALLER.CALL", "!E", "EVAL", script, "0"];
    assert!(client.run_args(&args).is_null());
    assert_eq!(server.traces(), before);
}

/// Redis 7.2 lets a module call a blocking command, and gets the reply later. Either reply is right; nothing
/// may be left behind.
#[apply(on_every_server)]
fn a_module_that_allows_a_call_to_block_leaves_nothing_behind(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut client = server.client();
    let answer = client.run("CALLER.CALL !EK DLOCK.ACQUIRE job bob 200 WAIT 200");
    match &answer {
        Value::Null => {}
        Value::Simple(text) => assert_eq!(text, "WAITS"),
        // Redis 7.0 does not have the flag.
        Value::Error(words) => assert!(words.contains("no reply"), "{words}"),
        other => panic!("{other:?}"),
    }
    client.assert_in_step();
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    eventually("nothing is held, and no client waits", || {
        let now = server.traces();
        (now.leases, now.waiters, now.keys) == (0, 0, 0)
    });
}

/// A call without the flag C has no user. What is shared among users has a share for such calls.
#[apply(on_every_server)]
fn a_module_that_calls_without_a_user_is_answered(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    server.run("DLOCK.ACQUIRE held alice 60000");
    let mut client = server.client();
    let far = server.node("fence").int() + 10_000_000;
    for flags in ["E", "SE", "CE"] {
        let mut call = |words: &str| client.run(&format!("CALLER.CALL {flags} DLOCK.{words}"));
        assert!(call(&format!("ACQUIRE held {flags} 1000 KEEP 1000")).is_null());
        assert_eq!(call(&format!("RELEASE held {flags} FINAL")).int(), 0);
        assert!(call(&format!("ACQUIRE far alice 1000 FENCE {far}")).int() >= far);
        assert_eq!(call("RELEASE far alice DONE 100").int(), 1);
        assert_eq!(call("BREAK far").int(), 1);
    }
    client.assert_in_step();
}

#[apply(on_two_servers)]
fn a_module_takes_no_ephemeral_lock(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    let before = server.traces();
    let mut client = server.client();
    let refused = client.run("CALLER.CALL !E DLOCK.ACQUIRE job alice 60000 EPHEMERAL");
    assert_eq!(refused.code(), "ERR");
    assert_eq!(server.traces(), before);
}

#[apply(on_two_servers)]
fn a_listener_that_calls_back_from_an_event_gets_an_answer_or_an_error(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    let mut client = server.client();
    let calls = [
        "DLOCK.ACQUIRE job listener 60000",
        "DLOCK.ACQUIRE elsewhere listener 50",
        "DLOCK.ACQUIRE elsewhere2 listener 50 WAIT 0",
        "DLOCK.RELEASE job alice",
        "DLOCK.RELEASE job listener",
        "DLOCK.EXTEND job alice 60000",
        "DLOCK.CHECK job alice",
        "DLOCK.INSPECT job",
        "DLOCK.BREAK job",
        "DLOCK.NODE",
        "DLOCK.HELP",
        "INFO dlock",
        "MEMORY USAGE job",
        "DUMP job",
        "DEL job",
        "SET job text",
        "RENAME job other-job",
        "FLUSHALL",
    ];
    for call in calls {
        for event in ["acquire", "expire"] {
            server.run("FLUSHALL");
            let mut listening = server.client();
            listening.run(&format!("CALLER.ON dlock.{event} {call}"));
            cause_every_event(&server, &mut client);
            let heard = listening.run("CALLER.HEARD").text();
            // A payload can have any bytes, line ends too.
            let is_answered = !heard.is_empty() && heard.split('\n').all(|line| line != "no reply");
            assert!(is_answered, "{call} from {event}: {heard:?}");
            listening.run("CALLER.OFF");
        }
    }
    server.run("FLUSHALL");
    eventually("nothing is held, and no client waits", || {
        let now = server.traces();
        (now.leases, now.waiters) == (0, 0)
    });
    let fence = client.run("DLOCK.ACQUIRE job alice 60000");
    assert!(fence.int() > 0);
}

/// The key that was open at the event may be gone when the listener is done.
#[apply(on_every_server)]
fn what_a_listener_puts_at_the_key_of_a_lock_that_ends_is_not_overwritten(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    let mut client = server.client();
    let ends = [("release", "DLOCK.RELEASE job alice"), ("break", "DLOCK.BREAK job")];
    for (event, end) in ends {
        client.run("DLOCK.ACQUIRE job alice 60000");
        let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
        client.run(&format!("CALLER.ON dlock.{event} SET job text"));
        assert_eq!(client.run(end).int(), 1);
        assert_eq!(client.run("GET job").text(), "text", "{event}");
        assert!(!bob.has_answer());
        client.run("CALLER.OFF");
        client.run("DEL job");
        assert!(bob.recv().int() > 0);
        client.run("DLOCK.RELEASE job bob");
    }
}

/// The server announces a new key in the middle of making it.
#[apply(on_every_server)]
fn a_lock_that_a_listener_removes_while_another_is_made_has_ended(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    let mut client = server.client();
    for ask in ["DLOCK.ACQUIRE job carol 60000", "DLOCK.ACQUIRE pool carol 60000 LIMIT 2"] {
        client.run("DLOCK.ACQUIRE other alice 60000");
        let mut bob = server.waiter("DLOCK.ACQUIRE other bob 60000 WAIT 0");
        client.run("CALLER.ON new DEL other");
        assert!(client.run(ask).int() > 0, "{ask}");
        assert_eq!(bob.recv().code(), "UNBLOCKED", "{ask}");
        client.run("CALLER.OFF");
        assert_eq!(client.run("CALLER.HEARD").text(), ":1");
        assert!(client.run("DLOCK.CHECK other alice").is_null());
        assert_eq!(client.run("DLOCK.NODE").at("leases").int(), 1, "{ask}");
        client.run("FLUSHALL");
    }
}

/// The completion record takes the lock's place in the same way, and gets its expiry after that.
#[test]
fn a_done_lock_that_a_listener_changes_while_it_is_made_leaves_no_expiry_behind() {
    let server = Server::build(Kind::Redis82).with_caller().start();
    let mut client = server.client();
    for (change, there) in
        [("DEL job", "none"), ("RENAME job away", "none"), ("SET job v", "string")]
    {
        client.run("DLOCK.ACQUIRE job alice 60000");
        client.run(&format!("CALLER.ON new {change}"));
        assert_eq!(client.run("DLOCK.RELEASE job alice DONE 60000").int(), 1, "{change}");
        client.run("CALLER.OFF");
        assert_eq!(client.run("TYPE job").text(), there, "{change}");
        assert!(client.run("PTTL job").int() < 0, "{change}");
        client.run("FLUSHALL");
    }
}

/// Redis 8 survives that; the others do not survive it for their own SET, either.
#[apply(on_every_server)]
fn a_lock_that_a_listener_removes_while_it_is_made_has_ended(kind: Kind) {
    if !matches!(kind, Kind::Redis82 | Kind::Redis86) {
        return;
    }
    let server = Server::build(kind).with_caller().start();
    let mut client = server.client();
    client.run("CALLER.ON new DEL job");
    for ask in ["alice 60000", "bob 60000 SHARED", "carol 60000 LIMIT 2"] {
        for _ in 0..20 {
            assert!(client.run(&format!("DLOCK.ACQUIRE job {ask}")).int() > 0);
            assert_eq!(client.run("DLOCK.NODE").at("leases").int(), 0);
        }
    }
    client.run("CALLER.OFF");
    assert!(client.run("DLOCK.ACQUIRE job alice 60000").int() > 0);
    assert_eq!(server.holders("job"), ["alice"]);
}

/// Its lease is over, as after any RENAME, and nothing is left at its new name.
#[apply(on_every_server)]
fn a_lock_that_a_listener_renames_leaves_nothing_behind(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    let mut client = server.client();
    client.run("DLOCK.ACQUIRE other alice 60000");
    client.run("DLOCK.ACQUIRE job alice 60000");
    client.run("CALLER.ON dlock.release RENAME other elsewhere");
    assert_eq!(client.run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(client.run("CALLER.HEARD").text(), "+OK");
    assert!(client.run("DLOCK.CHECK elsewhere alice").is_null());
    eventually("it is removed", || server.run("DBSIZE").int() == 0);
    assert_eq!(server.node("leases").int(), 0);
}

/// A lock that has just been restored is still looked for when it is removed.
#[apply(on_every_server)]
fn a_restored_lock_that_a_listener_removes_at_once_has_ended(kind: Kind) {
    let server = Server::build(kind).with_caller().start();
    let mut client = server.client();
    for holder in ["alice 60000", "alice 60000 SHARED"] {
        client.run(&format!("DLOCK.ACQUIRE other {holder}"));
        let copy = client.run("DUMP other");
        client.run("DEL other");
        client.run("DLOCK.ACQUIRE job bob 60000");
        client.run("CALLER.ON dlock.release DEL other");
        client.run("MULTI");
        client.run_args(&bytes!["RESTORE", "other", "0", copy.bytes()]);
        client.run("DLOCK.NODE");
        client.run("DLOCK.RELEASE job bob");
        client.run("DLOCK.NODE");
        let answers = client.run("EXEC");
        let [_, before, _, after] = answers.items() else { panic!("{answers:?}") };
        assert_eq!((before.at("leases").int(), after.at("leases").int()), (2, 0), "{holder}");
        client.run("CALLER.OFF");
        assert!(client.run("DLOCK.ACQUIRE other carol 60000").int() > 0);
        assert_eq!(server.holders("other"), ["carol"]);
        client.run("FLUSHALL");
    }
}

/// Locks are granted, released, broken and handed over, and a lease ends.
fn cause_every_event(server: &Server, client: &mut Client) {
    client.run("DLOCK.ACQUIRE ends alice 1");
    for end in ["DLOCK.RELEASE job alice", "DLOCK.BREAK job"] {
        client.run("DLOCK.ACQUIRE job alice 60000");
        let mut waiter = server.client();
        waiter.send("DLOCK.ACQUIRE job waiter 60000 WAIT 100");
        client.run(end);
        waiter.recv();
        client.run("DLOCK.RELEASE job waiter");
        client.run("DEL job");
        waiter.assert_in_step();
    }
    eventually("the lease ends", || server.run("EXISTS ends").int() == 0);
    client.assert_in_step();
}
