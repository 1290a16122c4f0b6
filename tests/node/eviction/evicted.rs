//! Locks that a server without memory evicts: lost to their holders, and free only when their leases would
//! have ended.

use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

#[apply(on_two_servers)]
fn a_lock_that_is_evicted_by_any_policy_is_lost_and_its_key_is_shut(kind: Kind) {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let server = Server::start(kind);
        server.run("DLOCK.ACQUIRE job alice 600000 META m");
        server.write_until_evicted("job", policy);
        assert!(server.run("DLOCK.CHECK job alice").is_null(), "{policy}");
        for lost in ["DLOCK.EXTEND job alice 60000", "DLOCK.RELEASE job alice", "DLOCK.BREAK job"] {
            assert_eq!(server.run(lost).int(), 0, "{policy}");
        }
        for ask in ["alice 1000", "bob 1000", "bob 1000 SHARED", "bob 1000 LIMIT 3 WAIT 10"] {
            assert!(server.run(&format!("DLOCK.ACQUIRE job {ask}")).is_null(), "{policy}");
        }
        let shown = server.run("DLOCK.INSPECT job");
        assert_eq!(shown.at("mode").text(), "evicted", "{policy}");
        assert!((60_000..600_000).contains(&shown.at("ttl-ms").int()), "{policy}");
        assert_eq!((server.run("EXISTS job").int(), server.node("leases").int()), (0, 0));
        assert_eq!(server.info_number("dlock", "dlock_memory"), 0, "{policy}");
    }
}

/// A user could shut the keys of others, if the node stored the ends of leases that he lets it evict.
#[apply(on_two_servers)]
fn a_lock_with_an_expiry_that_is_evicted_leaves_its_key_free(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 600000").int();
    server.run("PEXPIRE job 600000");
    server.run("CONFIG SET maxmemory-policy volatile-ttl");
    server.run("CONFIG SET maxmemory 1");
    eventually("it is evicted", || server.run("EXISTS job").int() == 0);
    server.run("CONFIG SET maxmemory 0");
    assert!(server.run("DLOCK.ACQUIRE job bob 1000").int() > fence);
}

/// For the server a lock has no expiry.
#[apply(on_two_servers)]
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

/// Includes ephemeral locks, and readers: the last reader's lease counts.
#[apply(on_two_servers)]
fn waiters_wait_on_and_are_served_in_order_when_the_lease_would_have_ended(kind: Kind) {
    let server = Server::start(kind);
    for options in ["", "EPHEMERAL", "SHARED"] {
        let mut holder = server.client();
        let sent = Instant::now();
        let fence = holder.run(&format!("DLOCK.ACQUIRE job alice 1000 {options}")).int();
        if options == "SHARED" {
            holder.run("DLOCK.ACQUIRE job early 50 SHARED");
        }
        // Also shorter: on a busy machine it may be his lease that is evicted.
        let mut bob = server.waiter("DLOCK.ACQUIRE job bob 1000 WAIT 0");
        server.evict_all();
        holder.close();
        let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
        let next = bob.recv().int();
        let waited = sent.elapsed();
        assert!(next > fence && waited >= Duration::from_millis(1000), "{options}: {waited:?}");
        server.run("DLOCK.RELEASE job bob");
        assert!(carol.recv().int() > next);
        assert_eq!(server.run("DLOCK.RELEASE job carol").int(), 1);
    }
}

/// The server frees memory at once, or in another thread, which may be late.
#[apply(on_two_servers)]
fn it_does_not_matter_how_the_server_frees_what_it_evicts(kind: Kind) {
    for lazy in ["yes", "no"] {
        let server = Server::build(kind).config(&format!("lazyfree-lazy-eviction {lazy}")).start();
        let mut client = server.client();
        for round in 0..10 {
            // Values large enough for the other thread.
            let ask = |n| format!("DLOCK.ACQUIRE book{round} t{n} 60000 SHARED META {n}");
            client.pipeline((0..70).map(ask));
            server.evict_all();
            assert_eq!(server.node("leases").int(), 0, "{lazy}");
            assert!(server.run(&format!("DLOCK.ACQUIRE book{round} new 60000 SHARED")).is_null());
        }
    }
}

#[apply(on_two_servers)]
fn an_eviction_in_another_database_leaves_clients_in_theirs(kind: Kind) {
    let server = Server::start(kind);
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    for (db, client) in clients.iter_mut().enumerate() {
        client.run(&format!("SELECT {db}"));
        client.run(&format!("DLOCK.ACQUIRE job{db} t 60000"));
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
        assert!(client.run(&format!("DLOCK.ACQUIRE job{db} other 60000")).is_null());
        client.run("DEL here");
    }
}

#[apply(on_one_server)]
fn ten_thousand_evictions_leave_no_memory_behind(kind: Kind) {
    let server = Server::start(kind);
    server.run("CONFIG SET slowlog-log-slower-than -1");
    let mut client = server.client();
    let mut round = || {
        let take = |n| match n % 3 {
            0 => format!("DLOCK.ACQUIRE k{n} t 600000 META {n} EPHEMERAL"),
            1 => format!("DLOCK.ACQUIRE k{n} t 600000 SHARED"),
            _ => format!("DLOCK.ACQUIRE k{n} t 600000 LIMIT 3"),
        };
        let taken = client.pipeline((0..1000).map(take));
        assert!(taken.iter().all(|fence| fence.int() > 0));
        server.evict_all();
        assert!(client.pipeline((0..1000).map(take)).iter().all(|answer| answer.is_null()));
        client.run("FLUSHALL SYNC");
    };
    round();
    round();
    let before = server.settled_memory();
    (0..10).for_each(|_| round());
    server.assert_memory_falls_back_to(before);
}
