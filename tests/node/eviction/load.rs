//! Servers that evict all the time while clients contend for locks, and lives full of accidents with
//! evictions in between. Every run is another one.

use std::thread;
use std::time::{Duration, Instant};

use harness::{History, Kind, Server, apply, eventually, on_two_servers, seed};

use crate::load::contenders::{Contenders, Plan};
use crate::load::workload::Workload;

/// Clients contend this long.
const WHILE: Duration = Duration::from_millis(1500);

#[apply(on_two_servers)]
fn evictions_under_load_break_no_promise(kind: Kind) {
    let mut rng = seed::rng();
    let mut server = Server::build(kind).config("maxmemory-policy allkeys-random").start();
    let history = History::default();
    let plan = Plan { ttls: 50..=450, leases_survive: true };
    let contenders = Contenders::new(server.port(), plan, &history);
    let mut lock_evictions = 0;
    thread::scope(|scope| {
        let stop = StopAtTheEnd(&contenders);
        contenders.start(scope, &mut rng);
        lock_evictions = evict_for_a_while(&server, &history);
        drop(stop);
        // A client that waits for a lock ends with the server.
        server.kill();
    });
    println!("{} grants, and {lock_evictions} times a lock was seen evicted", history.len());
    history.assert_kept("evictions");
}

/// Writes keys for which others have to go, until enough has happened, and gives how often a lock
/// was held and no key.
fn evict_for_a_while(server: &Server, history: &History) -> usize {
    let most = server.info_number("memory", "used_memory") + 3_000_000;
    server.run(&format!("CONFIG SET maxmemory {most}"));
    let mut client = server.client();
    let value = "x".repeat(10_000);
    let begun = Instant::now();
    let (mut number, mut seen) = (0, 0);
    eventually("there are grants and evictions for a while", || {
        client.pipeline((0..40).map(|n| format!("SET fill{} {value}", number + n)));
        number += 40;
        let keys = client.run("EXISTS a b c d").int();
        let held: i64 = ["a", "b", "c", "d"]
            .map(|key| i64::from(!client.run(&format!("DLOCK.INSPECT {key}")).is_null()))
            .iter()
            .sum();
        seen += usize::from(held > keys);
        begun.elapsed() >= WHILE && seen > 5 && history.len() > 20
    });
    seen
}

/// Without it a test that fails would wait for its clients for ever.
struct StopAtTheEnd<'c>(&'c Contenders<'c>);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[apply(on_two_servers)]
fn a_random_life_with_evictions_is_the_same_on_replicas_and_in_their_files(kind: Kind) {
    let mut rng = seed::rng();
    let mut primary = Server::build(kind)
        .append_only()
        .config("maxmemory-policy allkeys-random")
        .config("maxmemory-samples 10")
        .start();
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    let mut workload = Workload::new(&primary);
    for _ in 0..3 {
        for _ in 0..8 {
            workload.run(&mut rng, 40);
            primary.evict_all();
        }
        workload.settle();
        primary.assert_agrees_with(&replica);
        assert_no_lease_is_missing(&primary);
    }
    drop(workload);
    // Ephemeral leases of the workload's clients end now.
    eventually("connections have closed", || {
        primary.info_number("clients", "connected_clients") == 1
    });
    primary.run("DLOCK.ACQUIRE clock any 50");
    eventually("what is over has ended", || primary.run("EXISTS clock").int() == 0);
    primary.assert_agrees_with(&replica);
    let digest = primary.digest();
    primary.kill();
    primary.start_again();
    assert_eq!(primary.digest(), digest);
}

/// The server counts the leases that anybody can see, of which some are evicted.
#[track_caller]
fn assert_no_lease_is_missing(server: &Server) {
    let mut client = server.client();
    let mut seen = 0;
    for db in 0..16 {
        client.run(&format!("SELECT {db}"));
        for key in ["a", "b", "c", "d", "e", "f"] {
            let lock = client.run(&format!("DLOCK.INSPECT {key}"));
            if !lock.is_null() && !lock.is_error() {
                seen += lock.at("holders").items().len() as i64;
            }
        }
    }
    assert_eq!(server.node("leases").int(), seen);
}
