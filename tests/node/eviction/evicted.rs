//! Locks that a server without memory evicts: they are no keys any more, and are held all the same.

use harness::{
    Client, Kind, Server, apply, eventually, on_every_server, on_one_server, on_two_servers,
};

#[apply(on_every_server)]
fn a_lock_that_is_evicted_by_any_policy_is_still_held(kind: Kind) {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let server = Server::start(kind);
        let fence = server.run("DLOCK.ACQUIRE job alice 60000 META m").int();
        server.write_until_evicted("job", policy);
        assert_eq!(server.run("EXISTS job").int(), 0, "{policy}");
        assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence, "{policy}");
        assert!(server.run("DLOCK.CHECK job bob").is_null(), "{policy}");
        assert!(server.run("DLOCK.ACQUIRE job bob 1000").is_null(), "{policy}");
        assert!(server.run("DLOCK.ACQUIRE job bob 1000 SHARED").is_null(), "{policy}");
        assert_eq!(server.node("leases").int(), 1, "{policy}");
        assert_eq!(server.run("DLOCK.RELEASE job bob").int(), 0, "{policy}");
        assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1, "{policy}");
        assert_eq!(server.node("leases").int(), 0, "{policy}");
        assert!(server.run("DLOCK.ACQUIRE job bob 1000").int() > fence, "{policy}");
    }
}

/// A lock has no date at which it ends, as far as the server knows.
#[apply(on_every_server)]
fn a_policy_that_evicts_only_what_has_a_date_leaves_locks_alone(kind: Kind) {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction"]
    {
        let server = Server::start(kind);
        for n in 0..20 {
            server.run(&format!("DLOCK.ACQUIRE job{n} alice 60000"));
            server.run(&format!("SET text{n} any PX 600000"));
        }
        server.run(&format!("CONFIG SET maxmemory-policy {policy}"));
        server.run("CONFIG SET maxmemory 1");
        if policy != "noeviction" {
            eventually("what has a date is evicted", || server.run("DBSIZE").int() == 20);
        }
        assert_eq!(server.run("SET text any").code(), "OOM");
        let locks = server.run("SCAN 0 COUNT 1000 TYPE dlock-key");
        assert_eq!(locks.items()[1].items().len(), 20, "{policy}");
    }
}

#[apply(on_one_server)]
fn an_evicted_lock_is_shown_as_it_is(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000 META m");
    server.run("DLOCK.ACQUIRE pool alice 60000 LIMIT 3 META first");
    server.run("DLOCK.ACQUIRE pool bob 70000 LIMIT 3 META second");
    server.run("DLOCK.ACQUIRE book alice 60000 SHARED EPHEMERAL");
    let keys = ["job", "pool", "book"];
    let before = keys.map(|key| server.run(&format!("DLOCK.TOKENS {key}")));
    server.evict_all();
    for (key, before) in keys.into_iter().zip(before) {
        let after = server.run(&format!("DLOCK.TOKENS {key}"));
        let pictures = [&before, &after].map(harness::Picture::read);
        assert_eq!(pictures[0], pictures[1]);
        for (one, other) in before.at("holders").items().iter().zip(after.at("holders").items()) {
            assert_eq!(one.at("client"), other.at("client"), "{key}");
            assert!(other.at("ttl-ms").int() <= one.at("ttl-ms").int(), "{key}");
            assert!(other.at("held-ms").int() >= one.at("held-ms").int(), "{key}");
        }
    }
    assert_eq!(server.node("leases").int(), 4);
    assert_eq!(server.info_number("dlock", "dlock_leases"), 4);
    assert_eq!(server.run("DBSIZE").int(), 0, "looking at it brings nothing back");
}

#[apply(on_every_server)]
fn its_holder_brings_it_back(kind: Kind) {
    let server = Server::start(kind);
    for bring in ["DLOCK.EXTEND job alice 70000", "DLOCK.ACQUIRE job alice 70000 META m"] {
        let fence = server.run("DLOCK.ACQUIRE job alice 60000 META m").int();
        let before = server.pictures();
        server.evict_all();
        assert!(server.run(bring).int() > 0);
        assert_eq!(server.pictures(), before, "{bring}");
        assert_eq!(server.run("EXISTS job").int(), 1, "{bring}");
        assert_eq!(server.run("TYPE job").text(), "dlock-key", "{bring}");
        assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence, "{bring}");
        assert!(server.holder("job")["ttl-ms"].int() > 60_000, "{bring}");
        assert_eq!(server.node("leases").int(), 1, "{bring}");
        assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1, "{bring}");
        assert_eq!(server.run("DBSIZE").int(), 0, "{bring}");
    }
    // With a fence.
    let fence = server.run("DLOCK.ACQUIRE job alice 2000").int();
    server.evict_all();
    let raised = format!("DLOCK.EXTEND job alice 2000 FENCE {}", fence + 5);
    let answers = server.at_once(&[&raised, "DLOCK.CHECK job alice"]);
    assert_eq!((answers[0].int(), answers[1].int()), (1, fence + 5));
    eventually("the lease ends", || server.node("leases").int() == 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
}

#[apply(on_one_server)]
fn who_does_not_hold_it_does_not_bring_it_back(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.evict_all();
    assert_eq!(server.run("DLOCK.EXTEND job bob 1000").int(), 0);
    assert_eq!(server.run("DLOCK.EXTEND job alice 60000 FENCE 1").int(), 0);
    assert!(server.run("DLOCK.ACQUIRE job bob 1000").is_null());
    assert_eq!(server.run("DLOCK.BREAK job bob").int(), 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
    assert!(server.run("DLOCK.CHECK job alice").int() > 0);
}

#[apply(on_one_server)]
fn an_evicted_lock_of_many_goes_on_as_before(kind: Kind) {
    let server = Server::start(kind);
    for (key, mode) in [("book", "SHARED"), ("pool", "LIMIT 3")] {
        let ask = |token: &str| server.run(&format!("DLOCK.ACQUIRE {key} {token} 60000 {mode}"));
        let fences = ["a", "b"].map(|token| ask(token).int());
        server.evict_all();
        assert!(server.run(&format!("DLOCK.ACQUIRE {key} other 1000")).is_null());
        let other = server.run(&format!("DLOCK.ACQUIRE {key} other 1000 LIMIT 7"));
        assert!(other.is_null() || other.code() == "OTHERMODE", "{key}: {other:?}");
        // A new one brings it back with the old ones.
        let third = ask("c").int();
        assert!(third > fences[1]);
        assert_eq!(server.run(&format!("EXISTS {key}")).int(), 1);
        assert_eq!(server.holders(key), ["a", "b", "c"]);
        server.evict_all();
        assert_eq!(ask("a").int(), fences[0]);
        assert_eq!(server.holders(key), ["a", "b", "c"]);
        server.evict_all();
        assert_eq!(server.run(&format!("DLOCK.RELEASE {key} b")).int(), 1);
        assert_eq!(server.holders(key), ["a", "c"]);
        server.evict_all();
        assert_eq!(server.run(&format!("DLOCK.BREAK {key} a")).int(), 1);
        assert_eq!(server.holders(key), ["c"]);
        server.evict_all();
        assert_eq!(server.run(&format!("DLOCK.BREAK {key}")).int(), 1);
        assert!(server.run(&format!("DLOCK.ACQUIRE {key} free 60000")).int() > third);
        assert_eq!(server.run(&format!("DLOCK.RELEASE {key} free")).int(), 1);
    }
    assert_eq!((server.node("leases").int(), server.run("DBSIZE").int()), (0, 0));
}

#[apply(on_one_server)]
fn no_more_permits_are_given_out_than_there_are(kind: Kind) {
    let server = Server::start(kind);
    for n in 0..3 {
        server.run(&format!("DLOCK.ACQUIRE pool t{n} 60000 LIMIT 4"));
        server.evict_all();
    }
    assert!(server.run("DLOCK.ACQUIRE pool t3 60000 LIMIT 4").int() > 0);
    server.evict_all();
    assert!(server.run("DLOCK.ACQUIRE pool t4 60000 LIMIT 4").is_null());
    assert_eq!(server.run("DLOCK.INSPECT pool").at("limit").int(), 4);
    assert_eq!(server.node("leases").int(), 4);
}

#[apply(on_two_servers)]
fn an_evicted_lease_ends_when_its_time_is_over(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 500").int();
    server.run("DLOCK.ACQUIRE book alice 500 SHARED");
    server.run("DLOCK.ACQUIRE book bob 60000 SHARED");
    server.evict_all();
    eventually("the leases end, though nobody asks", || server.node("leases").int() == 1);
    assert!(server.run("DLOCK.CHECK job alice").is_null());
    assert!(server.run("DLOCK.INSPECT job").is_null());
    assert_eq!(server.run("DLOCK.EXTEND job alice 1000").int(), 0);
    assert_eq!(server.holders("book"), ["bob"]);
    assert_eq!(server.info_number("dlock", "dlock_expiries"), 2);
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > fence);
}

#[apply(on_two_servers)]
fn what_is_tied_to_a_connection_ends_with_it_though_it_was_evicted(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    for request in ["job alice 60000", "book alice 60000 SHARED", "pool alice 60000 LIMIT 2"] {
        alice.run(&format!("DLOCK.ACQUIRE {request} EPHEMERAL"));
    }
    server.run("DLOCK.ACQUIRE book bob 60000 SHARED");
    server.evict_all();
    assert_eq!(server.node("leases").int(), 4);
    alice.close();
    eventually("its grants end", || server.node("leases").int() == 1);
    assert_eq!(server.holders("book"), ["bob"]);
    assert_eq!(server.info_number("dlock", "dlock_ephemeral_ends"), 3);
    assert!(server.run("DLOCK.ACQUIRE job carol 60000").int() > 0);
}

#[apply(on_two_servers)]
fn a_transaction_and_a_script_find_it_held(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let mut client = server.client();
    server.evict_all();
    client.run("MULTI");
    for request in ["DLOCK.CHECK job alice", "DLOCK.ACQUIRE job bob 1000", "EXISTS job"] {
        client.run(request);
    }
    let answers = client.run("EXEC");
    assert_eq!(answers.items()[0].int(), fence);
    assert!(answers.items()[1].is_null());
    assert_eq!(answers.items()[2].int(), 0);
    let script = "local held = redis.call('DLOCK.CHECK', KEYS[1], 'alice')
        local other = redis.call('DLOCK.ACQUIRE', KEYS[1], 'bob', 1000)
        redis.call('DLOCK.EXTEND', KEYS[1], 'alice', 60000)
        return {held, other and 1 or 0, redis.call('EXISTS', KEYS[1])}";
    let answers = client.run_args(&["EVAL", script, "1", "job"]);
    let answers: Vec<i64> = answers.items().iter().map(|answer| answer.int()).collect();
    assert_eq!(answers, [fence, 0, 1]);
}

/// Freed at once, or by another thread, which may be late.
#[apply(on_every_server)]
fn it_does_not_matter_how_the_server_frees_what_it_evicts(kind: Kind) {
    for lazy in ["yes", "no"] {
        let server = Server::build(kind).config(&format!("lazyfree-lazy-eviction {lazy}")).start();
        // Values that are worth another thread.
        for n in 0..70 {
            server.run(&format!("DLOCK.ACQUIRE book t{n} 60000 SHARED META {n}"));
        }
        let before = server.pictures();
        for n in 0..30 {
            server.evict_all();
            assert_eq!(server.node("leases").int(), 70 + n, "{lazy}");
            let granted = server.run(&format!("DLOCK.ACQUIRE book new{n} 60000 SHARED"));
            assert!(granted.int() > 0);
        }
        let after = server.pictures();
        assert_eq!(after["0/book"].holders.len(), 100);
        let old = &before["0/book"].holders;
        assert!(old.iter().all(|(token, holder)| after["0/book"].holders[token] == *holder));
    }
}

#[apply(on_every_server)]
fn an_eviction_in_another_database_leaves_clients_in_theirs(kind: Kind) {
    let server = Server::start(kind);
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (db, client) in clients.iter_mut().enumerate() {
        client.run(&format!("SELECT {db}"));
        client.run(&format!("DLOCK.ACQUIRE job t{db} 60000"));
    }
    for (db, client) in clients.iter_mut().enumerate() {
        // The client's own command makes the server evict.
        client.run("CONFIG SET maxmemory-policy allkeys-random");
        client.run("CONFIG SET maxmemory 1");
        assert_eq!(client.run("SET text any").code(), "OOM");
        client.run("CONFIG SET maxmemory 0");
        assert_eq!(client.run("SET here any").text(), "OK");
        let line = server.run("CLIENT LIST").text();
        let own = format!("id={} ", client.id());
        let line = line.lines().find(|line| line.starts_with(&own)).expect("it is connected");
        assert!(line.contains(&format!(" db={db} ")), "{line}");
        assert_eq!(client.run("EXISTS here").int(), 1);
        assert!(server.run("INFO keyspace").text().contains(&format!("db{db}:")));
        client.run("DEL here");
    }
    server.evict_all();
    for (db, client) in clients.iter_mut().enumerate() {
        assert!(client.run(&format!("DLOCK.CHECK job t{db}")).int() > 0, "{db}");
        let other = (db + 1) % 4;
        assert!(client.run(&format!("DLOCK.CHECK job t{other}")).is_null(), "{db}");
        assert_eq!(client.run(&format!("DLOCK.EXTEND job t{db} 60000")).int(), 1, "{db}");
        assert_eq!(client.run("EXISTS job").int(), 1, "{db}");
        assert_eq!(server.run("INFO keyspace").text().matches("keys=1").count(), db + 1);
    }
}
