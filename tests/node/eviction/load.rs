//! Servers that evict all the time while clients contend for locks. Every run differs.

use std::thread;
use std::time::{Duration, Instant};

use harness::{History, Kind, Server, Value, apply, eventually, on_two_servers, seed};

use crate::load::contenders::{Contenders, Plan};

/// Clients contend this long.
const WHILE: Duration = Duration::from_millis(1500);

#[apply(on_two_servers)]
fn evictions_under_load_break_no_promise(kind: Kind) {
    let mut rng = seed::rng();
    let mut server = Server::build(kind).config("maxmemory-policy allkeys-random").start();
    let history = History::default();
    let plan = Plan { ttls: 50..=450, leases_survive: true, evicts: true };
    let contenders = Contenders::new(server.port(), plan, &history);
    let mut lock_evictions = 0;
    thread::scope(|scope| {
        let stop = contenders.start(scope, &mut rng);
        lock_evictions = evict_for_a_while(&server, &history);
        drop(stop);
        // A client that waits for a lock ends with the server.
        server.kill();
    });
    println!("{} grants, and {lock_evictions} times a key was seen shut", history.len());
    history.assert_kept("evictions");
}

/// Writes keys that evict others, until enough has happened. Returns how often a key was shut.
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
        let shown = client.pipeline(["a", "b", "c", "d"].map(|key| format!("DLOCK.INSPECT {key}")));
        let shut = |lock: &Value| !lock.is_null() && lock.at("mode").text() == "evicted";
        seen += usize::from(shown.iter().any(shut));
        begun.elapsed() >= WHILE && seen > 5 && history.len() > 20
    });
    seen
}
