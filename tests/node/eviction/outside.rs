//! Eviction, and removal from outside: the server tells the two apart. A removed lock is over at once; an
//! evicted one shuts its key.

use harness::{Client, Kind, Server, apply, on_every_server, on_two_servers};

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

        // In one transaction: nothing comes between the removal and the end.
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

/// Each write makes the server evict some key, perhaps a lock. Between the writes a client deletes one lock
/// after the other.
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
        assert!(server.run(&format!("DLOCK.CHECK k{n} holder{n}")).is_null(), "{n}");
        assert!(!waiter.has_answer(), "{n}");
    }
    assert_eq!((server.node("leases").int(), server.node("waiters").int()), (0, evicted as i64));
}

#[apply(on_two_servers)]
fn only_flushall_opens_the_key_of_an_evicted_lock(kind: Kind) {
    let server = may_evict(kind);
    let mut there = server.client();
    there.run("SELECT 1");
    let mut waiters = held_with_waiters(&server);
    server.evict_all();
    for words in ["DEL job", "UNLINK job", "PERSIST job", "PEXPIRE job 10", "DLOCK.BREAK job"] {
        assert_eq!(server.run(words).int(), 0, "{words}");
    }
    assert!(!waiters.iter_mut().any(Client::has_answer));
    // Other values, and locks that are over, come and go, also by another name or database. One of these
    // names may have the same hash.
    let take = |name: &&str| server.run(&format!("DLOCK.ACQUIRE {name} eve 60000")).is_int();
    let other = ["other1", "other2", "other3"].into_iter().find(take).expect("a free key");
    let rename = format!("RENAME {other} job");
    for words in ["SET job text", "DEL job", &rename, "FLUSHDB", "SWAPDB 0 1"] {
        assert!(!server.run(words).is_error(), "{words}");
        assert!(server.run("DLOCK.ACQUIRE job dan 60000").is_null(), "{words}");
        assert!(there.run("DLOCK.ACQUIRE job dan 60000").is_null(), "{words}");
    }
    for flush in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHALL SYNC"] {
        let mut waiter = server.waiter("DLOCK.ACQUIRE job fay 60000 WAIT 0");
        assert_eq!(server.run(flush).text(), "OK");
        assert_eq!(waiter.recv().code(), "UNBLOCKED", "{flush}");
        assert!(server.run("DLOCK.ACQUIRE job dan 60000").int() > 0, "{flush}");
        server.evict_all();
    }
}
