//! A job that must not run twice at a time: `cargo run -p dlock-redis --example job`, with nodes in
//! DLOCK_NODES.

use std::env;
use std::error::Error;
use std::time::Duration;

use dlock_redis::{Client, Guard};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&env::var("DLOCK_NODES")?).await?;
    let fences = jobs(&client).await;
    // After an error, too: the releases of dropped guards need the runtime.
    client.close().await;
    println!("it ran twice, with the fences {:?}", fences?);
    Ok(())
}

/// Runs the job in both possible ways, and returns its fences.
pub async fn jobs(client: &Client) -> Result<[u64; 2], Box<dyn Error>> {
    // A guard; `select!` watches for its loss while the work goes on.
    let lock = client.lock("example:job").ttl(Duration::from_secs(10)).meta("an example");
    let guard = lock.acquire_within(Duration::from_secs(5)).await?;
    let first = guard.fence();
    tokio::select! {
        () = work(&guard) => {}
        loss = guard.lost() => return Err(loss.into()),
    }
    guard.release().await?;

    // The same in one call: it drops the work if the lock is lost, and releases the lock at the end.
    let second = client
        .lock("example:job")
        .run(async |guard: &Guard| {
            work(guard).await;
            guard.fence()
        })
        .await?;

    Ok([first, second])
}

/// Work that passes the fence on to its storage.
async fn work(guard: &Guard) {
    tokio::time::sleep(Duration::from_millis(10)).await;
    println!("written with fence {}, valid for {:?} more", guard.fence(), guard.valid_for());
}
