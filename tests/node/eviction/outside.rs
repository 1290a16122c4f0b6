//! Eviction and what takes locks away from outside: the server tells the two apart. A lock that
//! somebody removes is over, at once; one that is evicted ends only with what is put in its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Client, Kind, Server, apply, eventually, on_every_server, on_two_servers};

/// Commands that take away a lock that is a key.
const REMOVALS: [&str; 6] =
    ["DEL job", "UNLINK job", "RENAME job other", "SET job text", "MOVE job 1", "PEXPIRE job -1"];

/// A server that may evict any key, and has room.
fn may_evict(kind: Kind) -> Server {
    Server::build(kind).config("maxmemory 1gb").config("maxmemory-policy allkeys-random").start()
}

fn held_with_waiters(server: &Server) -> Vec<Client> {
    server.run("FLUSHALL");
    server.run("DLOCK.ACQUIRE job alice 60000");
    ["bob 60000 WAIT 0", "carol 60000 WAIT 0 SHARED"]
        .map(|words| server.waiter(&format!("DLOCK.ACQUIRE job {words}")))
        .into()
}

#[track_caller]
fn assert_over(server: &Server, waiters: &mut [Client], what: &str) {
    for waiter in waiters.iter_mut() {
        assert_eq!(waiter.recv().code(), "UNBLOCKED", "{what}");
    }
    assert!(server.run("DLOCK.CHECK job alice").is_null(), "{what}");
    assert_eq!(server.node("leases").int(), 0, "{what}");
    assert_eq!(server.node("waiters").int(), 0, "{what}");
}

#[apply(on_every_server)]
fn a_lock_that_is_removed_is_over_though_it_might_have_been_evicted(kind: Kind) {
    let server = may_evict(kind);
    for removal in REMOVALS {
        let mut waiters = held_with_waiters(&server);
        let removed = server.run(removal);
        assert!(!removed.is_error(), "{removal}: {removed:?}");
        assert_over(&server, &mut waiters, removal);

        // All in one go: nothing comes between the removal and the end.
        let mut waiters = held_with_waiters(&server);
        let mut client = server.client();
        client.run("MULTI");
        for words in ["SET before any", removal, "DLOCK.CHECK job alice", "SET after any"] {
            assert_eq!(client.run(words).text(), "QUEUED", "{words}");
        }
        assert!(client.run("EXEC").items()[2].is_null(), "{removal} in a transaction");
        assert_over(&server, &mut waiters, removal);
    }
}

/// Requests without a pause, most of which write, while the server evicts for nearly each.
#[apply(on_every_server)]
fn a_removal_is_noticed_promptly_at_a_busy_server(kind: Kind) {
    let server = may_evict(kind);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for busy in 0..2 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = server.client();
                let value = "x".repeat(2_000);
                while !is_over.load(Ordering::Relaxed) {
                    client.pipeline((0..200).map(|n| format!("SET busy{busy}-{n} {value}")));
                }
            });
        }
        let rounds = ["DEL job", "UNLINK job", "RENAME job other", "SET job text", "MOVE job 1"];
        for removal in rounds {
            let mut waiters = held_with_waiters(&server);
            assert!(!server.run(removal).is_error(), "{removal}");
            assert_over(&server, &mut waiters, removal);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Each write makes it evict some key, perhaps a lock, and between the writes somebody deletes one
/// lock after the other.
#[apply(on_every_server)]
fn deleted_and_evicted_locks_are_told_apart(kind: Kind) {
    const COUNT: usize = 60;
    let server = may_evict(kind);
    let mut client = server.client();
    let taken = client.pipeline((0..COUNT).map(|n| format!("DLOCK.ACQUIRE k{n} holder{n} 60000")));
    assert!(taken.iter().all(|fence| fence.int() > 0));
    let mut waiters = server.crowd(COUNT, |n| format!("DLOCK.ACQUIRE k{n} waiter 60000 WAIT 0"));
    let value = "x".repeat(300);
    client.pipeline((0..3000).map(|n| format!("SET text{n} {value}")));
    let most = server.info_number("memory", "used_memory") - 300_000;
    server.run(&format!("CONFIG SET maxmemory {most}"));
    let mut deleted = Vec::new();
    for n in 0..COUNT {
        client.run(&format!("SET fill{n} {value}"));
        deleted.push(client.run(&format!("DEL k{n}")).int() == 1);
    }
    server.run("CONFIG SET maxmemory 0");
    let evicted = deleted.iter().filter(|deleted| !**deleted).count();
    assert!((1..COUNT).contains(&evicted), "{evicted} of {COUNT} were evicted");
    for (n, waiter) in waiters.iter_mut().enumerate() {
        if deleted[n] {
            assert_eq!(waiter.recv().code(), "UNBLOCKED", "{n}");
        }
        let held = server.run(&format!("DLOCK.CHECK k{n} holder{n}"));
        assert_eq!(held.is_null(), deleted[n], "{n}");
        assert!(!waiter.has_answer(), "{n}");
    }
    assert_eq!(server.node("leases").int(), evicted as i64);
}

// --- evicted, and then ---------------------------------------------------------------------------

#[apply(on_every_server)]
fn a_flush_ends_evicted_locks_of_what_it_flushes(kind: Kind) {
    let server = may_evict(kind);
    let mut there = server.client();
    there.run("SELECT 1");
    for flush in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHALL SYNC", "FLUSHDB", "FLUSHDB ASYNC"] {
        let mut waiters = held_with_waiters(&server);
        let fence = there.run("DLOCK.ACQUIRE job eve 60000").int();
        server.evict_all();
        assert_eq!(server.run(flush).text(), "OK", "{flush}");
        for waiter in &mut waiters {
            assert_eq!(waiter.recv().code(), "UNBLOCKED", "{flush}");
        }
        assert!(server.run("DLOCK.CHECK job alice").is_null(), "{flush}");
        let elsewhere = there.run("DLOCK.CHECK job eve");
        if flush.starts_with("FLUSHALL") {
            assert!(elsewhere.is_null(), "{flush}");
        } else {
            assert_eq!(elsewhere.int(), fence, "{flush}");
            assert_eq!(there.run("DLOCK.RELEASE job eve").int(), 1);
        }
        assert_eq!(server.node("leases").int(), 0, "{flush}");
        assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > fence, "{flush}");
    }
}

#[apply(on_every_server)]
fn a_swap_of_databases_ends_evicted_locks_of_both(kind: Kind) {
    let server = may_evict(kind);
    let mut there = server.client();
    there.run("SELECT 1");
    let mut waiters = held_with_waiters(&server);
    let fence = there.run("DLOCK.ACQUIRE job eve 60000").int();
    server.evict_all();
    assert_eq!(server.run("SWAPDB 0 1").text(), "OK");
    for waiter in &mut waiters {
        assert_eq!(waiter.recv().code(), "UNBLOCKED");
    }
    for client in [&mut there, &mut server.client()] {
        for token in ["alice", "eve"] {
            assert!(client.run(&format!("DLOCK.CHECK job {token}")).is_null());
        }
        let next = client.run("DLOCK.ACQUIRE job dan 60000");
        assert!(next.int() > fence);
    }
    assert_eq!(server.node("leases").int(), 2);
}

#[apply(on_every_server)]
fn a_value_at_the_key_of_an_evicted_lock_ends_it(kind: Kind) {
    let server = may_evict(kind);
    for put in ["SET job text", "SET job text NX", "SETEX job 60 text", "RENAME source job"] {
        let waiters = held_with_waiters(&server);
        server.evict_all();
        server.run("SET source text");
        let done = server.run(put);
        assert!(!done.is_error() && !done.is_null(), "{put}: {done:?}");
        assert!(server.run("DLOCK.CHECK job alice").is_null(), "{put}");
        assert_eq!(server.run("DLOCK.EXTEND job alice 1000").int(), 0, "{put}");
        assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 0, "{put}");
        assert!(server.run("DLOCK.ACQUIRE job dan 1000").is_null(), "{put}");
        assert_eq!(server.run("DLOCK.INSPECT job").at("mode").text(), "foreign", "{put}");
        assert_eq!(server.node("leases").int(), 0, "{put}");
        assert_waited_behind_the_value(&server, waiters, put);
    }
    let mut waiters = held_with_waiters(&server);
    server.evict_all();
    assert_eq!(server.run("LPUSH job a").int(), 1);
    assert_eq!(server.run("DLOCK.CHECK job alice").code(), "WRONGTYPE");
    eventually("nothing is held", || server.node("leases").int() == 0);
    for waiter in &mut waiters {
        assert_eq!(waiter.recv().code(), "UNBLOCKED");
    }
}

/// Waiters are told, or wait for the value's end as for any that an old client has set.
#[track_caller]
fn assert_waited_behind_the_value(server: &Server, mut waiters: Vec<Client>, put: &str) {
    if waiters[0].has_answer() {
        return assert_over(server, &mut waiters, put);
    }
    assert_eq!(server.run("DEL job").int(), 1, "{put}");
    for (waiter, token) in waiters.iter_mut().zip(["bob", "carol"]) {
        assert!(waiter.recv().int() > 0, "{put}: {token} is not served");
        assert_eq!(server.run(&format!("DLOCK.RELEASE job {token}")).int(), 1, "{put}");
    }
}

/// Though nobody asks for the lock after that.
#[apply(on_two_servers)]
fn a_value_at_the_key_is_found_when_the_lease_would_end(kind: Kind) {
    let server = may_evict(kind);
    server.run("DLOCK.ACQUIRE job alice 400");
    server.evict_all();
    assert_eq!(server.run("SET job text").text(), "OK");
    eventually("nothing is held", || server.node("leases").int() == 0);
    assert_eq!(server.run("GET job").text(), "text");
}

#[apply(on_two_servers)]
fn a_lock_that_arrives_at_the_key_of_an_evicted_one_ends_it(kind: Kind) {
    let server = may_evict(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.evict_all();
    server.run("DLOCK.ACQUIRE other eve 60000");
    assert_eq!(server.run("RENAME other job").text(), "OK");
    for token in ["alice", "eve"] {
        assert!(server.run(&format!("DLOCK.CHECK job {token}")).is_null(), "{token}");
    }
    assert!(server.run("DLOCK.ACQUIRE job dan 60000").int() > 0);
    assert_eq!(server.node("leases").int(), 1);
    assert_eq!(server.holders("job"), ["dan"]);
}

#[apply(on_two_servers)]
fn a_lock_that_came_back_can_be_removed_like_any(kind: Kind) {
    let server = may_evict(kind);
    for removal in REMOVALS {
        let mut waiters = held_with_waiters(&server);
        server.evict_all();
        assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 1);
        assert!(!server.run(removal).is_error(), "{removal}");
        assert_over(&server, &mut waiters, removal);
    }
}

/// There is nothing to delete.
#[apply(on_every_server)]
fn an_evicted_lock_cannot_be_deleted_and_stays_held(kind: Kind) {
    let server = may_evict(kind);
    let mut waiters = held_with_waiters(&server);
    server.evict_all();
    for words in ["DEL job", "UNLINK job", "PERSIST job", "PEXPIRE job 10", "MOVE job 1"] {
        assert_eq!(server.run(words).int(), 0, "{words}");
    }
    server.run("RENAME job other").assert_error("ERR", "no such key");
    assert!(server.run("DLOCK.CHECK job alice").int() > 0);
    assert!(!waiters.iter_mut().any(Client::has_answer));
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert!(waiters[0].recv().int() > 0);
}

/// Valkey 8.1 tells no module that a key is deleted: docs/operating.md.
#[apply(on_every_server)]
fn an_evicted_lock_is_over_when_something_else_was_at_its_key(kind: Kind) {
    if kind == Kind::Valkey81 {
        return;
    }
    let server = Server::start(kind);
    for (set, delete) in [
        ("SET job text", "DEL job"),
        ("SET job text", "UNLINK job"),
        ("RPUSH job one", "LPOP job"),
        ("SET job text", "RENAME job other"),
        ("SET job text", "PEXPIRE job -1"),
    ] {
        let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
        server.evict_all();
        assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
        assert!(!server.run(set).is_error());
        assert!(!server.run(delete).is_error());
        assert!(server.run("DLOCK.CHECK job alice").is_null(), "{set}, {delete}");
        let next = server.run("DLOCK.ACQUIRE job bob 60000").int();
        assert!(next > fence, "{set}, {delete}");
        server.run("DLOCK.RELEASE job bob");
        assert_eq!(server.node("leases").int(), 0);
    }
}
