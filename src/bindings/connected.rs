//! A client with its runtime, and a mark if something in it has panicked.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use dlock_client::{Client, Error};
use futures_util::FutureExt;
use tokio::runtime::Handle;

use crate::failure::Failure;

/// A client and its runtime.
pub struct Connected {
    /// The client.
    pub client: Client,
    /// Runtime of all its work.
    pub runtime: Handle,
    /// True after a panic: nothing is certain any more.
    broken: AtomicBool,
}

impl Connected {
    /// Joins a client and its runtime.
    #[must_use]
    pub fn new(client: Client, runtime: Handle) -> Connected {
        Connected { client, runtime, broken: AtomicBool::new(false) }
    }

    /// True if something has panicked.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Returns the outcome of this work. After a panic nothing is certain.
    pub async fn caught<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(done) => Ok(done?),
            Err(panic) => {
                self.broken.store(true, Ordering::Relaxed);
                Err(Failure::panic(&message(&*panic)))
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
