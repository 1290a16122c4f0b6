//! A lock and its options.

use std::sync::Arc;

use dlock_bindings::held;
use dlock_client::Client;
use futures_util::FutureExt;
use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

use crate::event_loop::EventLoop;
use crate::options::{Given, option, span};
use crate::outcome::Outcome;
use crate::value::failure;

/// A lock and its options. It can be acquired any number of times.
#[napi]
pub struct Lock {
    pub(crate) lock: dlock_client::Lock,
    pub(crate) client: Arc<Client>,
    pub(crate) event_loop: Arc<EventLoop>,
}

#[napi]
impl Lock {
    /// Acquires the lock; the property `wait` replaces the lock's own.
    #[napi(catch_unwind)]
    pub fn acquire(&self, id: u32, given: Object<'_>) {
        let (lock, client) = (self.lock.clone(), Arc::clone(&self.client));
        let wait = option(&given, "wait", span);
        self.event_loop.run(id, async move {
            let lock = match wait? {
                Some(wait) => lock.wait(wait),
                None => lock,
            };
            Ok(Outcome::Acquired(lock.acquire().boxed().await?, client))
        });
    }

    /// Acquires the lock if it is free; the outcome is nothing if it is not.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self, id: u32) {
        let (lock, client) = (self.lock.clone(), Arc::clone(&self.client));
        self.event_loop.run(id, async move {
            let acquired = held::try_acquire(lock).await?;
            Ok(acquired.map_or(().into(), |guard| Outcome::Acquired(guard, client)))
        });
    }

    /// Checks a window for `runOnce`.
    #[napi(catch_unwind)]
    pub fn check_once<'env>(
        &self,
        env: &'env Env,
        window: Given<'_, f64>,
    ) -> napi::Result<Option<Object<'env>>> {
        let checked = span("window", window).and_then(|window| self.lock.check_once(window));
        checked.err().map(|error| failure(env, error)).transpose()
    }
}
