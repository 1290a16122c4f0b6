//! SETNX with the expiry time as the value; a client that finds the time over takes the lock with GETSET. All
//! depends on the clocks of the clients. A client with a clock that is ahead takes a lock that is still good.
//! A release that looks at the clock first leaves its lock behind. dlock asks no client for the time: the server measures
//! leases, and compares tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::{Client, Kind, Server, Value, apply, eventually, on_one_server};

const KEY: &str = "settle";
/// Locks are meant to last this long.
const TTL: i64 = 40_000;
/// The difference between clocks here.
const SKEW: i64 = 50_000;

/// A client of the recipe, as the documentation of SETNX had it for years.
struct GetSet {
    client: Client,
    /// The lead of its clock, in milliseconds.
    ahead: i64,
    /// The end of the lock that it has, or asked for, by its clock.
    expires: i64,
}

impl GetSet {
    fn new(server: &Server, ahead: i64) -> GetSet {
        GetSet { client: server.client(), ahead, expires: 0 }
    }

    fn try_lock(&mut self, ttl: i64) -> bool {
        self.set_if_absent(ttl)
            || self.sees_one_that_is_over().is_some_and(|old| self.swap(old, ttl))
    }

    fn set_if_absent(&mut self, ttl: i64) -> bool {
        self.expires = self.now() + ttl + 1;
        self.client.run(&format!("SETNX {KEY} {}", self.expires)).int() == 1
    }

    /// The value of a lock that is over by this client's clock.
    fn sees_one_that_is_over(&mut self) -> Option<i64> {
        let value = self.client.run(&format!("GET {KEY}"));
        let expires = (!value.is_null()).then(|| time(&value.text()))?;
        (expires < self.now()).then_some(expires)
    }

    /// Replaces the time of an expired lock by its own. If another client was quicker, the lock is that
    /// client's.
    fn swap(&mut self, old: i64, ttl: i64) -> bool {
        self.expires = self.now() + ttl + 1;
        let before = self.client.run(&format!("GETSET {KEY} {}", self.expires));
        !before.is_null() && time(&before.text()) == old
    }

    /// The remaining time of the lock, in its view.
    fn left(&self) -> i64 {
        self.expires - self.now()
    }

    /// "Delete only what is surely still yours": with enough time left that no other client can have taken
    /// it. True if a lock was removed.
    fn unlock_with_a_buffer(&mut self, buffer: i64) -> bool {
        self.left() > buffer && self.client.run(&format!("DEL {KEY}")).int() == 1
    }

    fn now(&self) -> i64 {
        now(self.ahead)
    }
}

/// The time on a clock that is this many milliseconds ahead.
fn now(ahead: i64) -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    since.as_millis() as i64 + ahead
}

fn time(text: &str) -> i64 {
    text.parse().expect("the value is a time")
}

/// A dlock request by a client with a clock this far ahead. The only time that the client sends is in a
/// proposed fence.
fn acquire(server: &Server, who: &str, ahead: i64) -> Value {
    let proposal = now(ahead) * 1_000;
    server.run(&format!("DLOCK.ACQUIRE {KEY} {who} {TTL} FENCE {proposal}"))
}

// --- clocks that differ --------------------------------------------------------------------------

#[apply(on_one_server)]
fn a_client_whose_clock_is_ahead_takes_a_lock_that_is_still_good(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let (mut alice, mut bob) = (GetSet::new(&server, 0), GetSet::new(&server, SKEW));
    assert!(alice.try_lock(TTL));
    assert!(bob.try_lock(TTL));
    assert!(alice.left() > 0 && bob.left() > 0, "both are in");
}

#[apply(on_one_server)]
fn a_client_whose_clock_is_ahead_takes_nothing_from_a_holder_of_dlock(kind: Kind) {
    let server = Server::start(kind);
    let fence = acquire(&server, "alice", 0).int();
    assert!(acquire(&server, "bob", SKEW).is_null());
    assert_eq!(server.run(&format!("DLOCK.CHECK {KEY} alice")).int(), fence);
    assert_eq!(server.run(&format!("DLOCK.RELEASE {KEY} alice")).int(), 1);
    // A clock that is behind does not give a later client a smaller fence.
    let bobs = acquire(&server, "bob", SKEW).int();
    server.run(&format!("DLOCK.RELEASE {KEY} bob"));
    assert!(bobs > fence && acquire(&server, "carol", -SKEW).int() > bobs);
}

// --- a release that looks at the clock -----------------------------------------------------------

/// Alice deletes her lock only with this much time left.
const BUFFER: i64 = 500;

#[test]
fn a_release_with_a_buffer_leaves_a_lock_without_a_holder() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let (mut alice, mut bob) = (GetSet::new(&server, 0), GetSet::new(&server, 0));
    assert!(alice.try_lock(4 * BUFFER));
    eventually("alice works until little is left", || alice.left() < BUFFER);
    assert!(!alice.unlock_with_a_buffer(BUFFER));
    assert!(!bob.set_if_absent(TTL), "nobody is in");
    assert_eq!(server.run(&format!("TTL {KEY}")).int(), -1, "the server will not end it either");
}

#[apply(on_one_server)]
fn a_release_of_dlock_frees_nothing_when_its_lease_is_over(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run(&format!("DLOCK.ACQUIRE {KEY} alice 100")).int();
    let mut bobs = Value::Null;
    eventually("alice's lease is over, and bob has the lock", || {
        bobs = acquire(&server, "bob", 0);
        bobs.is_int()
    });
    assert!(bobs.int() > fence);
    assert_eq!(server.run(&format!("DLOCK.RELEASE {KEY} alice")).int(), 0);
    assert!(acquire(&server, "carol", 0).is_null());
    assert_eq!(server.run(&format!("DLOCK.CHECK {KEY} bob")), bobs);
}
