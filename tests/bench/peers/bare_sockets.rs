//! No library at all: the two commands over blocking sockets, one write for each node and then one read for
//! each node, by `bench bare-sockets …`. No lock takes less on this machine: nothing is retried, counted or
//! watched.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use harness::client::request;

use super::closed_loop::{self, Contender};
use crate::load::Random;

/// The first word of a command line that asks for this.
pub const WORD: &str = "bare-sockets";

/// Does what the rest of the command line asks for. The function ends the process.
pub fn run(words: impl Iterator<Item = String>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(closed_loop::run::<Sockets>("bare sockets".to_owned(), words));
}

struct Sockets {
    nodes: Mutex<Vec<TcpStream>>,
    tokens: Mutex<Random>,
}

struct Held {
    key: String,
    token: String,
}

impl Contender for Sockets {
    type Held = Held;

    async fn connect(nodes: &[String]) -> Sockets {
        let connected = |node: &String| {
            let stream = TcpStream::connect(node).expect("the nodes are there");
            stream.set_nodelay(true).expect("a socket takes options");
            stream
        };
        let nodes = Mutex::new(nodes.iter().map(connected).collect());
        Sockets { nodes, tokens: Mutex::new(Random::new(1)) }
    }

    async fn acquire(&self, key: &str, ttl: Duration) -> Result<Held, String> {
        let token = unpoisoned(&self.tokens).token();
        let ttl = ttl.as_millis().to_string();
        self.ask_all(&request(&["DLOCK.ACQUIRE", key, &token, &ttl]))?;
        Ok(Held { key: key.to_owned(), token })
    }

    async fn release(&self, held: Held) -> Result<(), String> {
        self.ask_all(&request(&["DLOCK.RELEASE", &held.key, &held.token]))
    }
}

impl Sockets {
    /// All nodes work at the same time, while the answers are awaited one after the other.
    fn ask_all(&self, request: &[u8]) -> Result<(), String> {
        let mut nodes = unpoisoned(&self.nodes);
        for node in nodes.iter_mut() {
            node.write_all(request).map_err(|error| error.to_string())?;
        }
        for node in nodes.iter_mut() {
            // A number, which comes in one piece.
            let mut answer = [0; 64];
            let length = node.read(&mut answer).map_err(|error| error.to_string())?;
            let answer = &answer[..length];
            if !(answer.starts_with(b":") && answer.ends_with(b"\n")) {
                return Err(format!("not granted: {}", answer.escape_ascii()));
            }
        }
        Ok(())
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic in it")
}
