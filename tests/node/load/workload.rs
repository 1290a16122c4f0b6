//! A long random life of a few locks: every command, and every option. Clients wait, leave and are killed,
//! leases run out, and keys are removed, moved and overwritten.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::{Client, Server, eventually};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const TOKENS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const OPTIONS: [&str; 8] =
    ["", "", "EPHEMERAL", "SHARED", "SHARED EPHEMERAL", "LIMIT 2", "LIMIT 3 META m", "META text"];
/// Short leases end while a test goes on, long ones never do.
const TTLS: [u32; 5] = [1, 10, 40, 600_000, 700_000];
const WAITS: [&str; 4] = ["", "WAIT 0", "WAIT 5", "WAIT 30"];

/// Clients of one server. Each may be waiting.
pub struct Workload<'s> {
    server: &'s Server,
    clients: Vec<(Client, bool)>,
}

impl<'s> Workload<'s> {
    pub fn new(server: &'s Server) -> Workload<'s> {
        let clients = (0..12).map(|_| (server.client(), false)).collect();
        Workload { server, clients }
    }

    /// Takes this many random steps.
    pub fn run(&mut self, rng: &mut StdRng, steps: u32) {
        for _ in 0..steps {
            let chosen = rng.random_range(0..self.clients.len());
            if self.is_waiting(chosen) || rng.random_ratio(1, 40) {
                if rng.random_ratio(1, 4) {
                    self.leave(rng, chosen);
                }
                continue;
            }
            let words = step(rng);
            let client = &mut self.clients[chosen];
            client.0.send(&words);
            // A script or a transaction never waits.
            client.1 = words.contains("WAIT") && !words.starts_with("EVAL");
            if !client.1 {
                client.0.recv();
            }
        }
    }

    /// Waits until no client waits any more, and every short lease has ended.
    #[track_caller]
    pub fn settle(&mut self) {
        for chosen in 0..self.clients.len() {
            if self.is_waiting(chosen) {
                self.clients[chosen] = (self.server.client(), false);
            }
        }
        let server = self.server;
        eventually("nobody waits", || server.info_number("dlock", "dlock_waiters") == 0);
        server.run("DLOCK.ACQUIRE clock any 100");
        eventually("short leases have ended", || server.run("EXISTS clock").int() == 0);
        eventually("what was moved is gone", || {
            let mut client = server.client();
            (0..2).all(|db| {
                client.run(&format!("SELECT {db}"));
                KEYS.iter().all(|key| {
                    client.run(&format!("TYPE {key}")).text() != "dlock-key"
                        || !client.run(&format!("DLOCK.INSPECT {key}")).is_null()
                })
            })
        });
    }

    fn is_waiting(&mut self, chosen: usize) -> bool {
        let (client, waiting) = &mut self.clients[chosen];
        if *waiting && client.has_answer() {
            client.recv();
            *waiting = false;
        }
        *waiting
    }

    fn leave(&mut self, rng: &mut StdRng, chosen: usize) {
        let fresh = self.server.client();
        let (client, _) = std::mem::replace(&mut self.clients[chosen], (fresh, false));
        if rng.random() {
            client.close();
        } else {
            drop(client);
        }
    }
}

fn step(rng: &mut StdRng) -> String {
    let mut pick = |from: &[&str]| from.choose(rng).map_or_else(String::new, ToString::to_string);
    let (key, other, token, options) = (pick(&KEYS), pick(&KEYS), pick(&TOKENS), pick(&OPTIONS));
    let (wait, ttl) = (pick(&WAITS), TTLS.choose(rng).copied().unwrap_or(1));
    let ahead = unix_micros() + rng.random_range(0..1_000_000);
    match rng.random_range(0..100) {
        0..45 => {
            let fence =
                if rng.random_ratio(1, 8) { format!("FENCE {ahead}") } else { String::new() };
            format!("DLOCK.ACQUIRE {key} {token} {ttl} {options} {fence} {wait}")
        }
        45..50 => {
            let call = "return(redis.call('DLOCK.ACQUIRE',KEYS[1],ARGV[1],ARGV[2],'WAIT','0'))";
            format!("EVAL {call} 1 {key} {token} {ttl}")
        }
        50..65 => format!("DLOCK.RELEASE {key} {token}"),
        65..72 => format!("DLOCK.EXTEND {key} {token} {ttl}"),
        72..75 => format!("DLOCK.EXTEND {key} {token} {ttl} FENCE {ahead}"),
        75..79 => format!("DLOCK.BREAK {key}"),
        79..82 => format!("DLOCK.BREAK {key} {token}"),
        82..84 => format!("RENAME {key} {other}"),
        84..86 => format!("DEL {key}"),
        86..88 => format!("SET {key} {token} PX 20"),
        88..90 => format!("SET {key} {token}"),
        90 => "SWAPDB 0 1".into(),
        91 => format!("MOVE {key} 1"),
        92 => format!("PEXPIRE {key} 10"),
        93 => format!("UNLINK {key} {other}"),
        94 => format!("PERSIST {key}"),
        95 => format!("SELECT {}", ahead % 2),
        96 => "FLUSHDB ASYNC".into(),
        _ => format!("DLOCK.CHECK {key} {token}"),
    }
}

/// The wall clock, near which fences are.
fn unix_micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}
