//! rslock, a Redlock for Rust with tokio, as its README shows it.
//!
//! Its defaults are kept: `acquire` waits without limit, in rounds of three attempts with random
//! pauses of up to 200 ms between them; a new round begins at once. A manager for each client, with
//! connections of its own, on tokio's usual runtime.

#[path = "../closed_loop.rs"]
mod closed_loop;

use std::time::Duration;

use closed_loop::Contender;
use rslock::{LockGuard, LockManager};

#[tokio::main]
async fn main() {
    closed_loop::run::<Rslock>(format!("rslock {}", version()), std::env::args().skip(1)).await;
}

struct Rslock(LockManager);

impl Contender for Rslock {
    type Held = LockGuard;

    async fn connect(nodes: &[String]) -> Rslock {
        Rslock(LockManager::new(nodes.iter().map(|node| format!("redis://{node}/")).collect()))
    }

    async fn acquire(&self, key: &str, ttl: Duration) -> Result<LockGuard, String> {
        self.0.acquire(key, ttl).await.map_err(|error| error.to_string())
    }

    async fn release(&self, held: LockGuard) -> Result<(), String> {
        // The library does not report a lost lock.
        held.release().await;
        Ok(())
    }
}

/// The library's version: the requirement is exact.
fn version() -> &'static str {
    let after = include_str!("Cargo.toml").split("version = \"=").nth(1);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("?")
}
