//! SETNX with the expiry time as the value; a client that finds the time over takes the lock with GETSET. All
//! depends on the clocks of the clients. A client with a clock that is ahead takes a lock that is still good.
//! The GETSET of a loser moves the end of the winner's lock. A release that looks at the clock first leaves
//! its lock behind, or deletes the next holder's. dlock asks no client for the time: the server measures
//! leases, and compares tokens.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::{Client, Kind, Server, Value, apply, eventually, on_one_server};

const KEY: &str = "settle";
/// Locks are meant to last this long.
const TTL: i64 = 40_000;
/// The difference between clocks here.
const SKEW: i64 = 50_000;
const HOUR: i64 = 3_600_000;

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

    /// The other way: delete it only if it has the value that was set. True if a lock was removed.
    fn unlock_if_unchanged(&mut self) -> bool {
        let value = self.client.run(&format!("GET {KEY}"));
        let unchanged = !value.is_null() && time(&value.text()) == self.expires;
        unchanged && self.client.run(&format!("DEL {KEY}")).int() == 1
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

// --- two clients that find an expired lock -------------------------------------------------------

/// A client took the lock an hour ago, and crashed.
fn left_behind(server: &Server) {
    assert!(GetSet::new(server, -HOUR).try_lock(TTL));
}

/// Alice and bob find in the same moment that the lock is over, and alice is quicker. Bob loses, but the lock
/// has his time from now on.
fn a_race(alice: &mut GetSet, bob: &mut GetSet) {
    let seen = [alice.sees_one_that_is_over(), bob.sees_one_that_is_over()];
    let [Some(by_alice), Some(by_bob)] = seen else { panic!("it is over: {seen:?}") };
    assert!(alice.swap(by_alice, TTL));
    // Not in the same millisecond: both would have set the same time.
    thread::sleep(Duration::from_millis(5));
    assert!(!bob.swap(by_bob, TTL));
    let value = bob.client.run(&format!("GET {KEY}"));
    assert_eq!(time(&value.text()), bob.expires);
}

#[apply(on_one_server)]
fn the_getset_of_a_loser_keeps_a_lock_that_its_winner_gives_back(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let [mut alice, mut bob, mut carol] = [0, 0, 0].map(|ahead| GetSet::new(&server, ahead));
    left_behind(&server);
    a_race(&mut alice, &mut bob);
    assert!(!alice.unlock_if_unchanged(), "it is not hers, it seems");
    assert!(!carol.try_lock(TTL), "nobody is in, and nobody comes in before its time is over");
    assert!(!bob.try_lock(TTL));
}

#[apply(on_one_server)]
fn the_getset_of_a_loser_ends_the_lock_of_the_winner(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let [mut alice, mut bob, mut carol] = [0, -SKEW, 0].map(|ahead| GetSet::new(&server, ahead));
    left_behind(&server);
    a_race(&mut alice, &mut bob);
    assert!(carol.try_lock(TTL));
    assert!(alice.left() > 0 && carol.left() > 0, "both are in");
}

#[apply(on_one_server)]
fn the_loser_of_a_race_for_dlock_changes_nothing(kind: Kind) {
    let server = Server::start(kind);
    assert!(server.run(&format!("DLOCK.ACQUIRE {KEY} crashed 50")).int() > 0);
    let mut clients = ["alice", "bob"].map(|who| (who, server.client()));
    for (_, client) in &mut clients {
        eventually("it is over", || client.run(&format!("DLOCK.INSPECT {KEY}")).is_null());
    }
    let [alices, bobs] =
        clients.map(|(who, mut client)| client.run(&format!("DLOCK.ACQUIRE {KEY} {who} {TTL}")));
    assert!(alices.is_int() && bobs.is_null());
    let holder = server.holder(KEY);
    let end = holder["held-ms"].int() + holder["ttl-ms"].int();
    // Both are rounded.
    assert!((TTL - 1..=TTL + 1).contains(&end), "her lease lasts {end} ms");
    assert!(acquire(&server, "carol", 0).is_null());
    assert_eq!(server.run(&format!("DLOCK.RELEASE {KEY} alice")).int(), 1);
    assert!(acquire(&server, "carol", 0).int() > alices.int());
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
fn a_release_with_a_buffer_and_a_late_clock_deletes_the_next_holders_lock(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let [mut alice, mut bob, mut carol] = [-SKEW, 0, 0].map(|ahead| GetSet::new(&server, ahead));
    assert!(alice.try_lock(TTL));
    assert!(bob.try_lock(TTL));
    assert!(alice.left() > 0 && bob.left() > 0, "both are in");
    assert!(alice.unlock_with_a_buffer(BUFFER));
    assert!(carol.try_lock(TTL));
    assert!(bob.left() > 0 && carol.left() > 0, "both are in");
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
