//! The server runs out of memory and evicts a lock.
//!
//! The recipe: `SET NX PX` on a server that is also a cache. Its lock has a TTL and nobody reads
//! it, so `volatile-lru` and `allkeys-lru` evict it as they do an old page, while it is held, and
//! the next one takes it: two holders. dlock's locks have no TTL, so `volatile-*` does not touch
//! them; one that `allkeys-*` evicts is a key no more, but is held until its lease ends.

use harness::{Kind, Server, apply, on_every_server};

#[apply(on_every_server)]
fn volatile_lru_evicts_a_lock_that_is_held_but_none_of_dlock(kind: Kind) {
    let server = Server::start(kind);
    let fence = alice_takes_both(&server);
    server.cache_until("the lock is evicted", "volatile-lru", || !exists(&server, "old"));
    assert_eq!(server.run("SET old bob NX PX 60000").text(), "OK", "alice still works");
    assert!(exists(&server, "new"));
    assert!(server.run("DLOCK.ACQUIRE new bob 60000").is_null());
    assert_eq!(server.run("DLOCK.CHECK new alice").int(), fence);
}

#[apply(on_every_server)]
fn a_lock_of_dlock_that_allkeys_lru_evicts_is_held_all_the_same(kind: Kind) {
    let server = Server::start(kind);
    let fence = alice_takes_both(&server);
    server.cache_until("both locks are evicted", "allkeys-lru", || {
        !exists(&server, "old") && !exists(&server, "new")
    });
    assert_eq!(server.run("SET old bob NX PX 60000").text(), "OK", "alice still works");
    assert!(server.run("DLOCK.ACQUIRE new bob 60000").is_null());
    assert_eq!(server.run("DLOCK.CHECK new alice").int(), fence);

    let mut bob = server.waiter("DLOCK.ACQUIRE new bob 60000 WAIT 0");
    assert_eq!(server.run("DLOCK.RELEASE new alice").int(), 1);
    assert!(bob.recv().int() > fence);
}

/// Takes the same lock once as usual and once with dlock. Returns the fence.
fn alice_takes_both(server: &Server) -> i64 {
    assert_eq!(server.run("SET old alice NX PX 60000").text(), "OK");
    assert!(server.run("SET old bob NX PX 60000").is_null());
    server.run("DLOCK.ACQUIRE new alice 60000").int()
}

fn exists(server: &Server, key: &str) -> bool {
    server.run(&format!("EXISTS {key}")).int() == 1
}
