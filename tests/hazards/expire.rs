//! SETNX, and then EXPIRE or PEXPIRE: a holder that crashes between the two leaves a lock for ever. With dlock
//! the lease is part of the grant: the lock is free when the lease is over, and an EPHEMERAL one at once.

use std::io;
use std::time::{Duration, Instant};

use harness::client::request;
use harness::{Client, Kind, Proxy, Server, Way, apply, eventually, on_one_server};

const KEY: &str = "import";
/// Locks are meant to last this long.
const MEANT: Duration = Duration::from_millis(300);

/// Two commands, one after the other.
struct SetThenExpire {
    client: Client,
    host: &'static str,
}

impl SetThenExpire {
    fn lock(&mut self) -> io::Result<bool> {
        if self.ask(&["SETNX", KEY, self.host])? == 0 {
            return Ok(false);
        }
        self.ask(&["PEXPIRE", KEY, &MEANT.as_millis().to_string()])?;
        Ok(true)
    }

    fn ask(&mut self, args: &[&str]) -> io::Result<i64> {
        self.client.try_send_raw(&request(args))?;
        Ok(self.client.try_recv()?.int())
    }
}

/// A client that loses its connection when the server has received this request: its process, its machine or
/// the network has crashed.
fn crashes_after(server: &Server, args: &[&str]) -> (Proxy, Client) {
    let network = Proxy::start(server.port());
    let client = Client::connect(network.port()).expect("it listens");
    network.cut_after(Way::Up, request(args).len() as u64);
    (network, client)
}

#[test]
fn a_crash_between_setnx_and_expire_leaves_a_lock_for_ever() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let (network, client) = crashes_after(&server, &["SETNX", KEY, "web-1"]);
    let asked = Instant::now();
    let mut alice = SetThenExpire { client, host: "web-1" };
    alice.lock().expect_err("her connection ends half-way");
    assert!(network.has_cut());
    eventually("alice has the lock", || server.run(&format!("EXISTS {KEY}")).int() == 1);

    let mut bob = SetThenExpire { client: server.client(), host: "web-2" };
    assert!(!bob.lock().expect("he is answered"));
    eventually("it was meant to be over long ago", || asked.elapsed() > 3 * MEANT);
    assert!(!bob.lock().expect("he is answered"));
    assert_eq!(server.run(&format!("GET {KEY}")).text(), "web-1");
    assert_eq!(server.run(&format!("TTL {KEY}")).int(), -1, "it lasts for ever");
}

#[apply(on_one_server)]
fn a_crash_right_after_an_acquire_leaves_a_lock_for_its_lease(kind: Kind) {
    let server = Server::start(kind);
    let words = format!("DLOCK.ACQUIRE {KEY} alice {}", MEANT.as_millis());
    let args: Vec<&str> = words.split(' ').collect();
    let (network, mut alice) = crashes_after(&server, &args);
    let asked = Instant::now();
    alice.send(&words);
    let granted = || server.info_number("dlock", "dlock_grants") == 1;
    eventually("alice has been given the lock", granted);
    assert!(network.has_cut());

    let mut bob = server.client();
    assert!(bob.run(&format!("DLOCK.ACQUIRE {KEY} bob 60000 WAIT 0")).int() > 0);
    let held = asked.elapsed();
    assert!(held >= MEANT, "free after {held:?}");
}

#[apply(on_one_server)]
fn a_crash_right_after_an_ephemeral_acquire_leaves_nothing(kind: Kind) {
    let server = Server::start(kind);
    let words = format!("DLOCK.ACQUIRE {KEY} alice 60000 EPHEMERAL");
    let args: Vec<&str> = words.split(' ').collect();
    let (network, mut alice) = crashes_after(&server, &args);
    alice.send(&words);
    let ended = || server.info_number("dlock", "dlock_ephemeral_ends") == 1;
    eventually("alice had the lock, and it is over", ended);
    assert!(network.has_cut());
    assert!(server.run(&format!("DLOCK.ACQUIRE {KEY} bob 60000")).int() > 0);
}
