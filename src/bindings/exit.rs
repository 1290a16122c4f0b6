//! The end of a program.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use dlock_client::Client;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;

/// Releases the locks of these clients at the end of a program, and sends when the nodes have answered, or after a
/// short time. Acquisitions must have been aborted.
///
/// The thread that ends the program may have no thread-local variables left, so it must not drive the runtime.
pub fn end(runtime: &Handle, clients: Vec<Client>) -> Receiver<()> {
    let (done, is_done) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Aborted work ends at its next poll, which is now.
        yield_now().await;
        let _ = timeout(LONGEST_END, join_all(clients.iter().map(Client::end))).await;
        let _ = done.send(());
    });
    is_done
}

/// Limit of the wait for the nodes' answers at the end of a program.
pub const LONGEST_END: Duration = Duration::from_secs(5);
