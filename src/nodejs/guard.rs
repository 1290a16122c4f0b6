//! A lock that is held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_bindings::held;
use dlock_client::{Client, Key, Loss, LossReason};
use napi::Env;
use napi::bindgen_prelude::{Buffer, Either, Object};
use napi_derive::napi;

use crate::arguments;
use crate::event_loop::EventLoop;
use crate::options::{Given, span, text};
use crate::outcome::Outcome;
use crate::value::failure;

/// A lock that is held, and renewed until it is released. Collecting this object does not release it: the work under
/// the lock may go on, as an `async` function that waits for ever is collected, too.
#[napi]
pub struct Guard {
    key: Key,
    token: String,
    fence: u64,
    /// The reason why the lock is not held here once `held` is empty.
    why: Arc<Mutex<LossReason>>,
    held: Mutex<Option<dlock_client::Guard>>,
    /// The end of the event loop finds it.
    client: Arc<Client>,
    event_loop: Arc<EventLoop>,
}

impl Guard {
    pub(crate) fn new(
        guard: dlock_client::Guard,
        client: Arc<Client>,
        event_loop: Arc<EventLoop>,
    ) -> Guard {
        let (key, token, fence) = (guard.key().clone(), guard.token().to_string(), guard.fence());
        let held = Mutex::new(Some(guard));
        let why = Arc::new(Mutex::new(LossReason::Released));
        Guard { key, token, fence, why, held, client, event_loop }
    }
}

#[napi]
impl Guard {
    /// The lock, as text where it is UTF-8.
    #[napi(getter)]
    pub fn key(&self) -> Either<String, Buffer> {
        arguments::shown(&self.key)
    }

    /// Fence of this acquisition.
    #[napi(getter)]
    pub fn fence(&self) -> f64 {
        arguments::number(self.fence)
    }

    /// Token of this holder at the nodes.
    #[napi(getter)]
    pub fn token(&self) -> String {
        self.token.clone()
    }

    /// Length of the lease, in milliseconds.
    #[napi]
    pub fn ttl(&self) -> f64 {
        self.held().as_ref().map_or(0.0, |guard| arguments::millis(guard.ttl()))
    }

    /// Milliseconds until the validity ends if no renewal succeeds.
    #[napi]
    pub fn valid_for(&self) -> f64 {
        let held = self.held();
        held.as_ref().map_or(0.0, |guard| arguments::millis(guard.valid_for()))
    }

    /// True if the lock is not released.
    #[napi]
    pub fn is_open(&self) -> bool {
        self.held().is_some()
    }

    /// Returns the loss; null while the lock is held.
    #[napi(catch_unwind)]
    pub fn loss<'env>(&self, env: &'env Env) -> napi::Result<Option<Object<'env>>> {
        let loss = match &*self.held() {
            None => Some(self.released()),
            Some(guard) => guard.check().err(),
        };
        loss.map(|loss| failure(env, loss)).transpose()
    }

    /// Renews the lease, now and from now on for at least this long.
    #[napi(catch_unwind)]
    pub fn extend(&self, id: u32, ttl: Given<'_, f64>) {
        let ttl = span("ttl", ttl);
        let asked = ttl.map(|ttl| self.held().as_ref().map(|guard| guard.extend(ttl)));
        let released = self.released();
        self.event_loop.run(id, async move { asked?.ok_or(released)?.await });
    }

    /// Leaves the lock done until `window` after it was acquired.
    #[napi(catch_unwind)]
    pub fn done(&self, id: u32, window: Given<'_, f64>, outcome: Given<'_, String>) {
        let wanted =
            span("window", window).and_then(|window| Ok((window, text("the outcome", outcome)?)));
        let asked = wanted
            .map(|(window, outcome)| self.held().as_ref().map(|guard| guard.done(window, outcome)));
        let released = self.released();
        self.event_loop.run(id, async move { asked?.ok_or(released)?.await });
    }

    /// Releases the lock, and waits until a majority of the nodes has answered.
    #[napi(catch_unwind)]
    pub fn release(&self, id: u32) {
        let (guard, released) = (self.held().take(), self.released());
        // If the work is cancelled before it begins, the guard is dropped, which releases the lock.
        self.event_loop.run(id, async move {
            guard.ok_or(released)?.release().await?;
            Ok(())
        });
    }

    /// Hands the lock over to the owner of its token. The outcome is the lease.
    #[napi(catch_unwind)]
    pub fn detach(&self, id: u32) {
        let (guard, released) = (self.held().take(), self.released());
        let why = Arc::clone(&self.why);
        if guard.is_some() {
            // So it is if the caller does not wait for the outcome.
            set(&why, LossReason::Detached);
        }
        // Begun here: the event loop may end before it runs this.
        let lease = guard.map(dlock_client::Guard::detach);
        self.event_loop.run(id, async move {
            let lease = lease.ok_or(released)?.await;
            Ok(lease.inspect_err(|loss| set(&why, loss.why.clone()))?)
        });
    }

    /// Reports the loss of the lock.
    #[napi(catch_unwind)]
    pub fn watch(&self, id: u32) {
        let lost = self.held().as_ref().map(|guard| guard.lost());
        let released = self.released();
        self.event_loop
            .run(id, async move { Ok(Outcome::Failed(lost.ok_or(released)?.await.into())) });
    }

    /// Releases the lock in the background.
    #[napi]
    pub fn drop(&self) {
        drop(self.held().take());
    }
}

impl Guard {
    fn held(&self) -> MutexGuard<'_, Option<dlock_client::Guard>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn released(&self) -> Loss {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Loss { key: self.key.clone(), fence: self.fence, why }
    }
}

fn set(why: &Mutex<LossReason>, is: LossReason) {
    *why.lock().unwrap_or_else(PoisonError::into_inner) = is;
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(guard) = self.held().take() else { return };
        if !guard.is_renewed() {
            return held::end(guard);
        }
        let client = Arc::clone(&self.client);
        self.event_loop.runtime.spawn(async move {
            guard.lost().await;
            drop((guard, client));
        });
    }
}
