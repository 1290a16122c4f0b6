//! The events of [`chaos`](crate::chaos) at the servers of any node.

use std::net::IpAddr;
use std::thread;

use harness::client::Client;
use harness::{Apart, Server, eventually};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::coordinator::ms;

/// Pauses a server for a moment.
pub fn stand_still(server: &Server, longest: u64, rng: &mut StdRng) {
    server.pause();
    thread::sleep(ms(rng.random_range(50..longest)));
    server.resume();
}

/// Breaks replication again and again, so that replicas lag.
pub fn break_replication(primary: &Server, rng: &mut StdRng) {
    for _ in 0..rng.random_range(5..40) {
        // Sentinels close connections, too, and also this one.
        let _ = Client::connect(primary.port()).and_then(|mut client| {
            client.try_send_raw(b"CLIENT KILL TYPE replica\r\n")?;
            client.try_recv()
        });
        thread::sleep(ms(rng.random_range(5..60)));
    }
}

/// Cuts replication until the replica is dropped and has missed more than the backlog keeps. Returns the
/// number of full synchronisations before.
pub fn cut_for_long(primary: &Server, network: &Apart, replica: IpAddr, filler: &str) -> i64 {
    let followers = |primary: &Server| primary.info_number("replication", "connected_slaves");
    let (followed, before) = (followers(primary), primary.info_number("stats", "sync_full"));
    network.front.swallow_from(replica);
    eventually("the replica is given up", || followers(primary) < followed);
    primary.run("CONFIG SET repl-backlog-size 16384");
    let missed = "x".repeat(100_000);
    assert_eq!(primary.run(&format!("SET {filler} {missed}")).text(), "OK");
    primary.run("CONFIG SET repl-backlog-size 1048576");
    before
}

/// Asserts that since then everything was sent to a replica once more.
pub fn assert_sent_anew(primary: &Server, before: i64) {
    let now = primary.info_number("stats", "sync_full");
    assert!(now > before, "a part was enough: {before}, {now}");
}
