//! The primary crashes before its replica has received a lock. The promoted replica grants it to a second
//! client while the first one's lock runs. With dlock the promoted node is in quarantine for the lease bound
//! that the primary last sent. The second client gets QUARANTINE, or waits: it holds only when the first
//! one's lease is over, with a larger fence. A lease longer than all before it is not covered if its primary
//! crashes with it; `dlock.quarantine` is for that.

use std::time::{Duration, Instant};

use harness::Builder;
use harness::quarantine::{PROMOTED, Refusal};
use harness::wait::PATIENCE;
use harness::{Client, Kind, Proxy, Server, Way, apply, eventually, on_one_server};

use crate::recipe::{Dlock, Party, SetNx, Waiting};

const KEY: &str = "leader";
/// The length of a lock that runs when the test ends.
const LONG: u64 = 600_000;

/// A primary, and a replica behind a network that can be slow.
struct Pair {
    primary: Server,
    replica: Server,
    network: Proxy,
}

impl Pair {
    fn start(builder: Builder) -> Pair {
        let primary = builder.clone().start();
        let network = Proxy::start(primary.port());
        let replica = builder.config(&format!("replicaof 127.0.0.1 {}", network.port())).start();
        primary.until_streaming_to(&replica);
        Pair { primary, replica, network }
    }

    /// Starts a pair with the module. A lock with leases of the same length was in use before, so the replica
    /// has their bound.
    fn start_with_dlock(kind: Kind, ttl: u64) -> Pair {
        let pair = Pair::start(Server::build(kind));
        let mut earlier = Dlock::connect(pair.primary.port());
        assert!(earlier.try_lock(KEY, ttl) && earlier.unlock(KEY));
        let bound = || pair.primary.node("lease-bound-ms").int();
        eventually("the replica knows how long leases are", || {
            pair.replica.node("lease-bound-ms").int() >= bound()
        });
        pair
    }

    /// A client takes the lock, and gets the reply. The primary crashes before its replica has received it.
    /// Returns the holder and the time of its request.
    fn lose_a_lock<P: Party>(&mut self, ttl: u64) -> (P, Instant) {
        let mut alice = P::connect(self.primary.port());
        self.network.keep_back(Way::Down);
        let asked = Instant::now();
        assert!(alice.try_lock(KEY, ttl));
        eventually("it is on its way to the replica", || self.network.has_kept_back(Way::Down));
        self.primary.kill();
        self.network.refuse();
        (alice, asked)
    }
}

/// Asserts that a second holder comes while the lock of the first one runs.
#[track_caller]
fn assert_two_hold<P: Waiting>(port: u16) {
    let mut bob = P::connect(port);
    assert!(bob.lock_within(KEY, LONG, PATIENCE), "nobody has it, it seems");
}

/// Asserts that no client holds before the lease of the first one is over.
#[track_caller]
fn assert_one_holds(port: u16, alice: &Dlock, asked: Instant, ttl: u64) {
    let mut bob = Client::connect(port).expect("the new primary listens");
    assert!(bob.run(&format!("DLOCK.INSPECT {KEY}")).is_null(), "it has not heard of alice");
    let refused = Refusal::read(&bob.run(&format!("DLOCK.ACQUIRE {KEY} bob {ttl}")));
    assert_eq!(refused.reason, PROMOTED);
    let fence = bob.run(&format!("DLOCK.ACQUIRE {KEY} bob {ttl} WAIT 0")).int();
    let held = asked.elapsed();
    assert!(held >= Duration::from_millis(ttl), "bob holds {held:?} after alice has asked");
    assert!(Some(fence) > alice.fence(), "{fence} after {:?}", alice.fence());
}

/// The length of alice's lease, where bob waits for its end and the promotion takes no time.
const SHORT: u64 = 8_000;

fn promote(replica: &Server) -> u16 {
    assert_eq!(replica.run("REPLICAOF NO ONE").text(), "OK");
    replica.port()
}

#[apply(on_one_server)]
fn a_promoted_replica_gives_a_lock_to_a_second_holder(kind: Kind) {
    let mut pair = Pair::start(Server::build(kind).without_module());
    pair.lose_a_lock::<SetNx>(LONG);
    assert_two_hold::<SetNx>(promote(&pair.replica));
}

#[apply(on_one_server)]
fn a_promoted_replica_with_dlock_waits_for_a_lease_that_it_never_heard_of(kind: Kind) {
    let mut pair = Pair::start_with_dlock(kind, SHORT);
    let (alice, asked) = pair.lose_a_lock::<Dlock>(SHORT);
    assert_one_holds(promote(&pair.replica), &alice, asked, SHORT);
}

// --- a lease longer than all before it -----------------------------------------------------------

/// The length of the leases before.
const USUAL: u64 = 4_000;

/// The limit. The replica waits for leases of the usual length, for it has received no other bound.
#[test]
fn a_promoted_replica_does_not_wait_for_a_lease_longer_than_all_before_it() {
    let mut pair = Pair::start_with_dlock(Kind::Redis82, USUAL);
    pair.lose_a_lock::<Dlock>(LONG);
    let port = promote(&pair.replica);
    assert!(pair.replica.assert_in_quarantine(PROMOTED) < SHORT as i64);
    assert_two_hold::<Dlock>(port);
}

#[test]
fn a_quarantine_set_to_the_longest_lease_covers_one_longer_than_all_before_it() {
    let mut pair = Pair::start_with_dlock(Kind::Redis82, USUAL);
    pair.replica.run(&format!("CONFIG SET dlock.quarantine {SHORT}"));
    let (alice, asked) = pair.lose_a_lock::<Dlock>(SHORT);
    assert_one_holds(promote(&pair.replica), &alice, asked, SHORT);
}
