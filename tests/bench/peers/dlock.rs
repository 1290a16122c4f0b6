//! dlock's own library in the comparison: `bench as-a-peer …`, a process of its own like the others.
//!
//! Only the lease is set, as for all: `acquire` waits without limit.

use std::time::Duration;

use dlock_client::{Client, Guard};

use super::closed_loop::{self, Contender};

/// The first word of a command line that asks for this.
pub const WORD: &str = "as-a-peer";

/// Does what the rest of the command line asks for. The function ends the process.
pub fn run(words: impl Iterator<Item = String>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let library = format!("dlock {}", env!("CARGO_PKG_VERSION"));
    runtime.block_on(closed_loop::run::<Dlock>(library, words));
}

struct Dlock(Client);

impl Contender for Dlock {
    type Held = Guard;

    async fn connect(nodes: &[String]) -> Dlock {
        let urls: Vec<String> = nodes.iter().map(|node| format!("redis://{node}")).collect();
        Dlock(Client::connect(&urls.join(",")).await.expect("the nodes are there"))
    }

    async fn acquire(&self, key: &str, ttl: Duration) -> Result<Guard, String> {
        self.0.lock(key).ttl(ttl).acquire().await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: Guard) -> Result<(), String> {
        held.release().await.map(drop).map_err(|loss| loss.to_string())
    }
}
