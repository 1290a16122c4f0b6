//! The end of a program.

use std::time::Duration;

use dlock_client::Client;
use futures_util::future::join_all;
use tokio::task::yield_now;
use tokio::time::timeout;

/// Releases the locks of these clients at the end of a program, and waits a short time for the nodes' answers.
/// Acquisitions must have been aborted.
pub async fn end(clients: Vec<Client>) {
    // Aborted work ends at its next poll, which is now.
    yield_now().await;
    let _ = timeout(LONGEST_END, join_all(clients.iter().map(Client::end))).await;
}

/// Limit of the wait for the nodes' answers at the end of a program.
pub const LONGEST_END: Duration = Duration::from_secs(5);
