//! DEL as unlock, delayed in the network until the lock's time is over and another client has it: it deletes
//! that client's lock, and a third one takes it. A RELEASE as late finds that its token holds nothing, and
//! the holder keeps the lock.

use std::thread;

use harness::{Client, Kind, Proxy, Server, Way, apply, eventually, on_one_server};

use crate::recipe::{Dlock, Party, SetNx, has_value, random, set_nx};

const KEY: &str = "report";
/// Alice's lock is over while her unlock is on its way.
const ALICES: u64 = 300;
/// The other clients' locks outlast the test.
const OTHERS: u64 = 60_000;

/// `SET key host NX PX ttl`, and `DEL key`, which deletes any client's lock.
struct SetAndDel {
    client: Client,
    host: String,
}

impl Party for SetAndDel {
    fn connect(port: u16) -> SetAndDel {
        let client = Client::connect(port).expect("it listens");
        SetAndDel { client, host: random() }
    }

    fn try_lock(&mut self, key: &str, ttl: u64) -> bool {
        set_nx(&mut self.client, key, &self.host, ttl)
    }

    fn unlock(&mut self, key: &str) -> bool {
        self.client.run(&format!("DEL {key}")).int() == 1
    }

    fn holds(&mut self, key: &str) -> bool {
        has_value(&mut self.client, key, &self.host)
    }

    fn fence(&self) -> Option<i64> {
        None
    }
}

/// The result of a late unlock.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// A lock was taken away.
    removed: bool,
    /// Bob still has the lock after it.
    bob_has_it: bool,
    /// A third client gets the lock while bob works.
    carol_gets_it: bool,
}

const BOB_KEEPS_IT: Outcome = Outcome { removed: false, bob_has_it: true, carol_gets_it: false };

/// Alice releases her lock in time, but the request arrives only when bob has it.
fn a_late_unlock<P: Party>(server: &Server) -> Outcome {
    let network = Proxy::start(server.port());
    let mut alice = P::connect(network.port());
    let (mut bob, mut carol) = (P::connect(server.port()), P::connect(server.port()));
    assert!(alice.try_lock(KEY, ALICES));
    network.keep_back(Way::Up);
    thread::scope(|scope| {
        let unlocking = scope.spawn(|| alice.unlock(KEY));
        eventually("alice's unlock is on its way", || network.has_kept_back(Way::Up));
        eventually("her time is over, and bob has the lock", || bob.try_lock(KEY, OTHERS));
        assert!(bob.holds(KEY));
        network.pass();
        let removed = unlocking.join().expect("it is answered");
        let bob_has_it = bob.holds(KEY);
        let carol_gets_it = carol.try_lock(KEY, OTHERS);
        Outcome { removed, bob_has_it, carol_gets_it }
    })
}

#[test]
fn a_late_del_takes_the_lock_from_its_next_holder() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let outcome = a_late_unlock::<SetAndDel>(&server);
    assert_eq!(outcome, Outcome { removed: true, bob_has_it: false, carol_gets_it: true });
}

/// The better recipe's random value is for this: it survives the same timeline.
#[test]
fn a_late_compare_and_delete_does_not() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let outcome = a_late_unlock::<SetNx>(&server);
    assert_eq!(outcome, BOB_KEEPS_IT);
}

#[apply(on_one_server)]
fn a_late_release_does_not(kind: Kind) {
    let server = Server::start(kind);
    let outcome = a_late_unlock::<Dlock>(&server);
    assert_eq!(outcome, BOB_KEEPS_IT);
}
