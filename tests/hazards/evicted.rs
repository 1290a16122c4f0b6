//! The server runs out of memory and evicts a lock.
//!
//! The recipe: `SET NX PX` on a server that is also a cache. Its lock has a TTL and is never read, so
//! `volatile-lru` and `allkeys-lru` evict it like an old page while it is held. The next client takes it: two
//! holders. dlock's locks have no TTL, so `volatile-*` does not touch them. A lock that `allkeys-*` evicts is
//! lost to its holder, and no other client gets it before its lease would have ended.

use std::time::{Duration, Instant};

use harness::{Kind, Server, apply, on_two_servers};

#[apply(on_two_servers)]
fn volatile_lru_evicts_a_lock_that_is_held_but_none_of_dlock(kind: Kind) {
    let server = Server::start(kind);
    let fence = alice_takes_both(&server, 60_000);
    server.cache_until("the lock is evicted", "volatile-lru", || !exists(&server, "old"));
    assert_eq!(server.run("SET old bob NX PX 60000").text(), "OK", "alice still works");
    assert!(exists(&server, "new"));
    assert!(server.run("DLOCK.ACQUIRE new bob 60000").is_null());
    assert_eq!(server.run("DLOCK.CHECK new alice").int(), fence);
}

#[apply(on_two_servers)]
fn a_lock_of_dlock_that_allkeys_lru_evicts_is_not_granted_before_its_end(kind: Kind) {
    let server = Server::start(kind);
    let sent = Instant::now();
    let fence = alice_takes_both(&server, 3000);
    server.cache_until("both locks are evicted", "allkeys-lru", || {
        !exists(&server, "old") && !exists(&server, "new")
    });
    assert_eq!(server.run("SET old bob NX PX 60000").text(), "OK", "alice still works");
    // Alice learns it at her next request.
    assert_eq!(server.run("DLOCK.EXTEND new alice 3000").int(), 0);
    let next = server.client().run("DLOCK.ACQUIRE new bob 60000 WAIT 0").int();
    assert!(next > fence && sent.elapsed() >= Duration::from_millis(3000));
}

/// Takes the same lock with the recipe and with dlock, each for this many milliseconds. Returns the fence.
fn alice_takes_both(server: &Server, lease: u64) -> i64 {
    assert_eq!(server.run("SET old alice NX PX 60000").text(), "OK");
    assert!(server.run("SET old bob NX PX 60000").is_null());
    server.run(&format!("DLOCK.ACQUIRE new alice {lease}")).int()
}

fn exists(server: &Server, key: &str) -> bool {
    server.run(&format!("EXISTS {key}")).int() == 1
}
