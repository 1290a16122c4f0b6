//! etcd's own lock, by the client library for Rust: `Lock` of etcd's API waits in the server, first
//! come, first served.
//!
//! Each client has connections of its own to all members, among which the library chooses, and one
//! lease, as a session of etcd's own clients has: renewed every third of its time, it goes along with
//! every lock, so that a lock costs no second request.

#[path = "../closed_loop.rs"]
mod closed_loop;

use std::time::Duration;

use closed_loop::Contender;
use etcd_client::{Client, LockOptions};
use tokio::sync::OnceCell;

#[tokio::main]
async fn main() {
    closed_loop::run::<Etcd>(format!("etcd-client {}", version()), std::env::args().skip(1)).await;
}

struct Etcd {
    client: Client,
    lease: OnceCell<i64>,
}

impl Contender for Etcd {
    /// The key that stands for this client in the queue.
    type Held = Vec<u8>;

    async fn connect(nodes: &[String]) -> Etcd {
        let client = Client::connect(nodes, None).await.expect("the members are there");
        Etcd { client, lease: OnceCell::new() }
    }

    async fn acquire(&self, key: &str, ttl: Duration) -> Result<Vec<u8>, String> {
        let lease = self.lease.get_or_try_init(|| lease(self.client.clone(), ttl)).await?;
        let options = LockOptions::new().with_lease(*lease);
        let held = self.client.lock_client().lock(key, Some(options)).await;
        held.map(|held| held.key().to_vec()).map_err(|error| error.to_string())
    }

    async fn release(&self, held: Vec<u8>) -> Result<(), String> {
        let released = self.client.lock_client().unlock(held).await;
        released.map(drop).map_err(|error| error.to_string())
    }
}

/// A lease that is renewed for as long as the process lives.
async fn lease(mut client: Client, ttl: Duration) -> Result<i64, String> {
    let seconds = ttl.as_secs() as i64;
    let lease = client.lease_grant(seconds, None).await.map_err(|error| error.to_string())?.id();
    let kept = client.lease_keep_alive(lease).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        let (mut keeper, mut answers) = kept;
        loop {
            tokio::time::sleep(ttl / 3).await;
            if keeper.keep_alive().await.is_err() || !matches!(answers.message().await, Ok(Some(_)))
            {
                eprintln!("the lease was not renewed");
                return;
            }
        }
    });
    Ok(lease)
}

/// The library's version: the requirement is exact.
fn version() -> &'static str {
    let after = include_str!("Cargo.toml").split("etcd-client = \"=").nth(1);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("?")
}
