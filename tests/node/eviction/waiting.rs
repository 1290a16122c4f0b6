//! Waiters for a lock that is evicted: they notice nothing of it, and have it when it is free.

use std::time::{Duration, Instant};

use harness::{
    Client, Kind, Server, apply, eventually, on_every_server, on_one_server, on_two_servers,
};

/// A lock of this length, evicted while three wait for it.
fn evicted(server: &Server, ttl: u32, options: &str) -> Vec<Client> {
    let mut holder = server.client();
    holder.run(&format!("DLOCK.ACQUIRE job alice {ttl} {options}"));
    let wait = |token| server.waiter(&format!("DLOCK.ACQUIRE job {token} 60000 WAIT 0"));
    let mut waiters: Vec<Client> = ["bob", "carol", "dan"].map(wait).into();
    server.evict_all();
    assert!(!waiters.iter_mut().any(Client::has_answer), "nobody is told");
    assert_eq!(server.waiters("job"), ["bob", "carol", "dan"]);
    if options == "EPHEMERAL" {
        holder.close();
    }
    waiters
}

/// Asserts that the waiters get the lock one after the other.
#[track_caller]
fn assert_served(server: &Server, waiters: &mut [Client], mut last: i64) {
    for (waiter, token) in waiters.iter_mut().zip(["bob", "carol", "dan"]) {
        let fence = waiter.recv().int();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        assert_eq!(server.holders("job"), [token]);
        assert_eq!(server.run("EXISTS job").int(), 1, "a new grant is a key again");
        server.evict_all();
        assert_eq!(server.run(&format!("DLOCK.RELEASE job {token}")).int(), 1);
    }
    assert_eq!((server.node("leases").int(), server.node("waiters").int()), (0, 0));
    assert_eq!(server.run("DBSIZE").int(), 0);
}

#[apply(on_one_server)]
fn they_are_served_when_it_is_released_or_broken(kind: Kind) {
    let server = Server::start(kind);
    for end in ["DLOCK.RELEASE job alice", "DLOCK.BREAK job", "DLOCK.BREAK job alice"] {
        let mut waiters = evicted(&server, 60_000, "");
        let fence = server.run("DLOCK.CHECK job alice").int();
        assert_eq!(server.run(end).int(), 1);
        assert_served(&server, &mut waiters, fence);
    }
}

#[apply(on_two_servers)]
fn they_are_served_when_its_time_is_over(kind: Kind) {
    let server = Server::start(kind);
    let sent = Instant::now();
    let mut waiters = evicted(&server, 600, "");
    let fence = server.node("fence").int();
    eventually("somebody is served", || server.node("waiters").int() == 2);
    let waited = sent.elapsed();
    assert!(waited >= Duration::from_millis(600), "{waited:?}");
    assert_served(&server, &mut waiters, fence);
}

#[apply(on_two_servers)]
fn they_are_served_when_the_holder_disconnects(kind: Kind) {
    let server = Server::start(kind);
    let mut waiters = evicted(&server, 60_000, "EPHEMERAL");
    assert_served(&server, &mut waiters, 0);
}

#[apply(on_two_servers)]
fn they_are_served_after_it_came_back(kind: Kind) {
    let server = Server::start(kind);
    let mut waiters = evicted(&server, 60_000, "");
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    assert_eq!(server.run("EXISTS job").int(), 1);
    assert!(!waiters.iter_mut().any(Client::has_answer));
    assert_eq!(server.waiters("job").len(), 3);
    assert_eq!(server.run("DLOCK.EXTEND job alice 60000").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert_served(&server, &mut waiters, fence);
}

#[apply(on_one_server)]
fn one_can_begin_to_wait_for_an_evicted_lock(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("DLOCK.ACQUIRE book alice 60000 SHARED");
    server.run("DLOCK.ACQUIRE pool alice 60000 LIMIT 1");
    server.evict_all();
    let mut waiters: Vec<Client> = ["job bob 60000", "book bob 60000", "pool bob 60000 LIMIT 1"]
        .map(|words| server.waiter(&format!("DLOCK.ACQUIRE {words} WAIT 0")))
        .into();
    assert!(server.run("DLOCK.ACQUIRE book reader 1000 SHARED").is_null(), "a writer waits");
    let mut hasty = server.client();
    assert!(hasty.run("DLOCK.ACQUIRE job hasty 60000 WAIT 50").is_null());
    for key in ["job", "book", "pool"] {
        assert_eq!(server.run(&format!("DLOCK.RELEASE {key} alice")).int(), 1, "{key}");
    }
    assert!(waiters.iter_mut().all(|waiter| waiter.recv().int() > 0));
    assert_eq!(server.run("DBSIZE").int(), 3);
}

#[apply(on_one_server)]
fn a_waiter_that_gives_up_or_leaves_an_evicted_lock_gets_nothing(kind: Kind) {
    let server = Server::start(kind);
    let mut waiters = evicted(&server, 60_000, "");
    waiters.remove(1).close();
    eventually("carol has left", || server.waiters("job") == ["bob", "dan"]);
    assert_eq!(server.run("DLOCK.RELEASE job bob").int(), 0);
    assert!(waiters[0].recv().is_null());
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert!(waiters[1].recv().int() > 0);
    assert_eq!(server.holders("job"), ["dan"]);
}

/// The server is full the whole time, so that a granted lock is evicted soon.
#[apply(on_every_server)]
fn a_queue_passes_a_lock_on_at_a_server_that_evicts_all_the_time(kind: Kind) {
    const COUNT: usize = 50;
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job first 60000");
    let mut line = server.line(COUNT, |n| format!("DLOCK.ACQUIRE job t{n} 60000 WAIT 0"));
    server.run("CONFIG SET maxmemory-policy allkeys-lru");
    server.run("CONFIG SET maxmemory 1");
    let mut last = server.run("DLOCK.CHECK job first").int();
    server.run("DLOCK.RELEASE job first");
    for (number, client) in line.iter_mut().enumerate() {
        let fence = client.recv().int();
        assert!(fence > last, "{number}");
        last = fence;
        let token = format!("t{number}");
        if number % 3 == 0 {
            assert_eq!(server.run(&format!("DLOCK.EXTEND job {token} 60000")).int(), 1);
        }
        assert_eq!(server.run(&format!("DLOCK.CHECK job {token}")).int(), fence);
        assert_eq!(server.run(&format!("DLOCK.RELEASE job {token}")).int(), 1);
    }
    assert_eq!((server.node("leases").int(), server.node("waiters").int()), (0, 0));
}
