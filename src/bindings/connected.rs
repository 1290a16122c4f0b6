//! A client with its runtime, and the flag of a panic in it.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use dlock_client::{Client, Error};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::failure::Failure;

/// A client and its runtime.
pub struct Connected {
    /// The client.
    pub client: Client,
    /// Runtime of all its work.
    pub runtime: Handle,
    /// True after a panic: the state of locks is unknown.
    broken: watch::Sender<bool>,
}

impl Connected {
    /// Joins a client and its runtime.
    #[must_use]
    pub fn new(client: Client, runtime: Handle) -> Connected {
        Connected { client, runtime, broken: watch::Sender::default() }
    }

    /// True after a panic.
    pub fn is_broken(&self) -> bool {
        *self.broken.borrow()
    }

    /// Resolves after a panic.
    pub(crate) async fn breaks(&self) {
        // `self` has the sender, so the wait cannot fail.
        let _ = self.broken.subscribe().wait_for(|is_broken| *is_broken).await;
    }

    /// Returns the outcome of this work, or the error of a panic.
    pub async fn caught<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(done) => Ok(done?),
            Err(panic) => {
                self.broken.send_replace(true);
                Err(Failure::panic(&message(&*panic)))
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// Releases the locks of these clients at the end of a program, and waits a short time for the nodes' answers.
/// Acquisitions must have been aborted.
pub async fn end(clients: Vec<Client>) {
    // Aborted work ends at its next poll, which is now.
    yield_now().await;
    let _ = timeout(LONGEST_END, join_all(clients.iter().map(Client::end))).await;
}

/// Limit of the wait for the nodes' answers at the end of a program.
pub const LONGEST_END: Duration = Duration::from_secs(5);
