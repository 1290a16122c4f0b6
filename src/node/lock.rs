//! A lock and its options.

use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_client::Patience;
use futures_util::FutureExt;
use napi_derive::napi;

use crate::arguments::span;
use crate::outcome::Outcome;
use crate::post::Letters;

/// A lock and its options. It can be acquired any number of times.
#[napi]
pub struct Lock {
    pub(crate) lock: dlock_client::Lock,
    pub(crate) connected: Arc<Connected>,
    pub(crate) letters: Arc<Letters>,
}

#[napi]
impl Lock {
    /// Acquires the lock; `wait` limits the wait, which has no limit without it.
    #[napi(catch_unwind)]
    pub fn acquire(&self, ticket: u32, wait: Option<f64>) {
        let connected = Arc::clone(&self.connected);
        let wait = wait.map_or(Patience::Forever, |wait| Patience::from(span(wait)));
        let acquired = self.lock.clone().wait(wait).acquire().boxed();
        self.letters.run(&self.connected, ticket, async move {
            Ok(Outcome::Acquired(acquired.await?, connected))
        });
    }
}
