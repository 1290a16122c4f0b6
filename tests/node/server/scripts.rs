//! Commands in MULTI, in a script and in a function: answered at once, never blocking.

use harness::{
    Client, Kind, Server, Value, apply, eventually, on_every_server, on_one_server, on_two_servers,
};

/// A script that runs a command given as its arguments and returns the answer.
const CALL: &str = "return redis.call(unpack(ARGV))";

#[track_caller]
fn eval(client: &mut Client, script: &str, keys: &[&str], args: &str) -> Value {
    let count = keys.len().to_string();
    let mut request = vec!["EVAL", script, &count];
    request.extend(keys);
    request.extend(args.split_whitespace());
    client.run_args(&request)
}

/// Otherwise one user could take the room of all others' scripts, or twice its own.
#[apply(on_every_server)]
fn a_request_counts_for_its_user_in_a_script_too(kind: Kind) {
    const MOST: i64 = 10_000;
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let client = |name: &str| {
        server.run(&format!("ACL SETUSER {name} on nopass ~* +@all"));
        let mut client = server.client();
        client.run(&format!("AUTH {name} any"));
        client
    };
    let ask = |token: String| format!("DLOCK.ACQUIRE job {token} 50000 KEEP 60000");
    let mut eve = client("eve");
    eve.pipeline((0..MOST + 9).map(|n| ask(format!("eve{n}"))));
    assert_eq!(server.node("places").int(), MOST);
    eval(&mut eve, CALL, &["job"], &ask("more".to_owned()));
    eve.run(&ask("another".to_owned()));
    assert_eq!(server.node("places").int(), MOST, "half of them are for one user");
    eval(&mut client("app"), CALL, &["job"], &ask("app".to_owned()));
    assert_eq!(server.node("places").int(), MOST + 1);
}

#[apply(on_one_server)]
fn a_transaction_does_not_wait(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.client();
    bob.run("MULTI");
    bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    bob.run("DLOCK.ACQUIRE job bob 60000 WAIT 100000");
    bob.run("DLOCK.ACQUIRE free bob 60000 WAIT 0");
    let answers = bob.run("EXEC");
    assert!(answers.items()[0].is_null());
    assert!(answers.items()[1].is_null());
    assert!(answers.items()[2].int() > 0);
    assert_eq!(server.node("waiters").int(), 0);
}

#[apply(on_two_servers)]
fn a_lock_released_in_a_transaction_goes_to_the_waiter(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    alice.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    alice.run("MULTI");
    alice.run("SET text value");
    alice.run("DLOCK.RELEASE job alice");
    alice.run("DLOCK.ACQUIRE job alice 60000");
    alice.run("DLOCK.CHECK job bob");
    let answers = alice.run("EXEC");
    assert_eq!(answers.items()[1].int(), 1);
    assert!(answers.items()[2].is_null());
    assert_eq!(bob.recv().int(), answers.items()[3].int());
}

#[apply(on_two_servers)]
fn an_ephemeral_lock_of_a_transaction_ends_with_the_connection(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    alice.run("MULTI");
    alice.run("DLOCK.ACQUIRE job alice 600000 EPHEMERAL");
    assert!(alice.run("EXEC").items()[0].int() > 0);
    assert_eq!(server.holders("job"), ["alice"]);
    alice.close();
    eventually("the lock is free", || server.holders("job").is_empty());
}

#[apply(on_two_servers)]
fn a_script_does_not_wait(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.client();
    for wait in ["", "WAIT 0", "WAIT 100000"] {
        let request = format!("DLOCK.ACQUIRE job bob 60000 {wait}");
        // Lua has null as false, which is answered as null.
        assert!(eval(&mut bob, CALL, &["job"], &request).is_null());
    }
    let granted = eval(&mut bob, CALL, &["free"], "DLOCK.ACQUIRE free bob 60000 WAIT 0");
    assert_eq!(granted.int(), server.run("DLOCK.CHECK free bob").int());
    assert_eq!(server.node("waiters").int(), 0);
}

#[apply(on_two_servers)]
fn an_ephemeral_lock_is_refused_in_a_script(kind: Kind) {
    let server = Server::start(kind);
    let before = server.traces();
    let mut client = server.client();
    for options in ["EPHEMERAL", "WAIT 0 EPHEMERAL", "SHARED EPHEMERAL"] {
        let request = format!("DLOCK.ACQUIRE job alice 60000 {options}");
        let refused = eval(&mut client, CALL, &["job"], &request);
        assert!(refused.error().contains("EPHEMERAL"), "{refused:?}");
    }
    // Not even where it would be refused.
    server.run("DLOCK.ACQUIRE held alice 60000");
    let held = "DLOCK.ACQUIRE held bob 60000 EPHEMERAL";
    let refused = eval(&mut client, CALL, &["held"], held);
    refused.assert_error("ERR", "EPHEMERAL needs a client connection");
    server.run("DLOCK.RELEASE held alice");
    // Nor in a transaction, where the connection's own request is allowed.
    client.run("MULTI");
    eval(&mut client, CALL, &["job"], "DLOCK.ACQUIRE job alice 60000 EPHEMERAL");
    let refused = client.run("EXEC").items()[0].clone();
    refused.assert_error("ERR", "EPHEMERAL needs a client connection");
    let after = server.traces();
    assert_eq!((after.keys, after.leases), (before.keys, before.leases));
}

#[apply(on_two_servers)]
fn a_lease_that_ends_during_a_script_ends_after_it(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 100");
    let mut client = server.client();
    // Time may stand still for the keys of a script.
    let script = "local first = redis.call('DLOCK.CHECK', KEYS[1], 'alice')
        for i = 1, 2000000 do end
        local last = redis.call('DLOCK.CHECK', KEYS[1], 'alice')
        return {first or 0, last or 0}";
    let answer = eval(&mut client, script, &["job"], "");
    let (first, last) = (answer.items()[0].int(), answer.items()[1].int());
    assert!(last == first || last == 0, "{first} {last}");
    eventually("the lease ends", || server.holders("job").is_empty());
}

#[apply(on_two_servers)]
fn a_read_only_script_may_check_and_not_acquire(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let mut client = server.client();
    let mut run = |command: &str| {
        let mut request = vec!["EVAL_RO", CALL, "1", "job"];
        request.extend(command.split(' '));
        client.run_args(&request)
    };
    assert_eq!(run("DLOCK.CHECK job alice").int(), fence);
    assert_eq!(run("DLOCK.INSPECT job").at("mode").text(), "exclusive");
    for words in ["DLOCK.ACQUIRE job2 alice 60000", "DLOCK.RELEASE job alice"] {
        run(words).assert_error("ERR", "read-only scripts");
    }
    assert_eq!(server.run("EXISTS job2").int(), 0);
    assert_eq!(server.holders("job"), ["alice"]);
}
