//! A lock that is held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_bindings::connected::Connected;
use dlock_bindings::held::{self, State};
use dlock_bindings::lease::Unheard;
use dlock_client::{Key, Loss, LossReason};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments::{self, span};
use crate::failure::{self, Failure};
use crate::outcome::Outcome;
use crate::post::{Letters, Place};

/// A lock that is held, and renewed until it is released. Collecting this object releases it.
#[napi]
pub struct Guard {
    key: Key,
    token: String,
    fence: u64,
    /// True once the owner of the token is responsible for the lock.
    is_detached: AtomicBool,
    place: Arc<Place>,
    connected: Arc<Connected>,
    letters: Arc<Letters>,
}

impl Guard {
    pub(crate) fn new(
        guard: dlock_client::Guard,
        connected: Arc<Connected>,
        letters: Arc<Letters>,
    ) -> Guard {
        let (key, token, fence) = (guard.key().clone(), guard.token().to_string(), guard.fence());
        let place = Arc::new(Mutex::new(Some(guard)));
        letters.remember(&place);
        let is_detached = AtomicBool::new(false);
        Guard { key, token, fence, is_detached, place, connected, letters }
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
        arguments::fence(self.fence)
    }

    /// Token by which the nodes know this holder.
    #[napi(getter)]
    pub fn token(&self) -> String {
        self.token.clone()
    }

    /// Length of the lease, in milliseconds.
    #[napi]
    pub fn ttl(&self) -> f64 {
        self.held().as_ref().map_or(0.0, |guard| arguments::millis(guard.ttl()))
    }

    /// Milliseconds for which the lock is certainly held without another renewal.
    #[napi]
    pub fn valid_for(&self) -> f64 {
        let held = self.held();
        held.as_ref()
            .map_or(0.0, |guard| arguments::millis(held::valid_for(guard, &self.connected)))
    }

    /// True if the lock is not released.
    #[napi]
    pub fn is_open(&self) -> bool {
        self.held().is_some()
    }

    /// The fence; an error if other holders have different ones at the same time.
    #[napi(catch_unwind)]
    pub fn exclusive_fence(&self) -> Either<f64, Failure> {
        match &*self.held() {
            None => Either::B(failure::lost(&self.released())),
            Some(guard) => match guard.exclusive_fence() {
                Ok(fence) => Either::A(arguments::fence(fence)),
                Err(error) => Either::B(failure::of(&error)),
            },
        }
    }

    /// The token, for the one node that has the lock; an error if there are several.
    #[napi(catch_unwind)]
    pub fn token_of_one_node(&self) -> Either<String, Failure> {
        match &*self.held() {
            None => Either::B(failure::lost(&self.released())),
            Some(guard) => match guard.token_of_one_node() {
                Ok(token) => Either::A(token.to_string()),
                Err(error) => Either::B(failure::of(&error)),
            },
        }
    }

    /// The loss; null while the lock is held.
    #[napi(catch_unwind)]
    pub fn loss(&self) -> Option<Failure> {
        let state = match &*self.held() {
            None => State::Lost(self.released()),
            Some(guard) => held::state(guard, &self.connected),
        };
        match state {
            State::Held => None,
            State::Lost(loss) => Some(failure::lost(&loss)),
            State::Broken => Some(failure::broken(&self.key, self.fence)),
        }
    }

    /// Renews the lease, now and from now on for at least this long.
    #[napi(catch_unwind)]
    pub fn extend(&self, ticket: u32, ttl: f64) {
        let asked = self.held().as_ref().map(|guard| guard.extend(span(ttl)));
        let released = self.released();
        self.letters.run(&self.connected, ticket, async move {
            asked.ok_or(released)?.await?;
            Ok(Outcome::Done)
        });
    }

    /// Releases the lock, and waits until a majority of the nodes has answered.
    #[napi(catch_unwind)]
    pub fn release(&self, ticket: u32) {
        let (guard, released) = (self.held().take(), self.released());
        // If the work is cancelled before it begins, the guard is dropped, which releases the lock.
        self.letters.run(&self.connected, ticket, async move {
            guard.ok_or(released)?.release().await?;
            Ok(Outcome::Done)
        });
    }

    /// Hands the lock over to the owner of its token. The outcome is the lease.
    #[napi(catch_unwind)]
    pub fn detach(&self, ticket: u32) {
        let (guard, released) = (self.held().take(), self.released());
        if guard.is_some() {
            self.is_detached.store(true, Ordering::Relaxed);
        }
        let connected = Arc::clone(&self.connected);
        self.letters.run(&self.connected, ticket, async move {
            Ok(Outcome::Detached(Unheard::detach(guard.ok_or(released)?, connected).await))
        });
    }

    /// Reports the loss of the lock.
    #[napi(catch_unwind)]
    pub fn watch(&self, ticket: u32) {
        let lost = self.held().as_ref().map(dlock_client::Guard::lost);
        let released = self.released();
        self.letters.run(&self.connected, ticket, async move {
            let loss = lost.ok_or(released)?.await;
            Err(loss.into())
        });
    }

    /// Releases the lock in the background.
    #[napi]
    pub fn drop(&self) {
        drop(self.held().take());
    }

    /// Ends the lock of a guard that was collected. Returns true if that releases it, in the background.
    #[napi]
    pub fn end(&self) -> bool {
        let Some(guard) = self.held().take() else { return false };
        let is_renewed = guard.is_renewed();
        held::end(guard);
        is_renewed
    }
}

impl Guard {
    fn held(&self) -> MutexGuard<'_, Option<dlock_client::Guard>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn released(&self) -> Loss {
        let why = match self.is_detached.load(Ordering::Relaxed) {
            true => LossReason::Detached,
            false => LossReason::Released,
        };
        Loss { key: self.key.clone(), fence: self.fence, why }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.letters.forget(&self.place);
        self.held().take().into_iter().for_each(held::end);
    }
}
