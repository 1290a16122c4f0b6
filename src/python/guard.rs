//! A lock that is held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_bindings::held::{self, State};
use dlock_client::{Error, Key, Loss, LossReason};
use futures_util::{FutureExt, TryFutureExt};
use pyo3::prelude::*;

use crate::arguments::span;
use crate::errors;
use crate::exit;
use crate::held::{Held, Place};
use crate::local::Local;
use crate::outcome::Outcome;
use crate::own::Own;
use crate::post::{Post, Ticket};

/// A lock that is held, and renewed until it is released. If this object is collected, that releases it.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Guard {
    key: Key,
    token: String,
    fence: u64,
    place: Arc<Place>,
}

impl Guard {
    pub(crate) fn new(guard: dlock_client::Guard, local: Arc<Local>) -> Guard {
        let (key, token, fence) = (guard.key().clone(), guard.token().to_string(), guard.fence());
        let process = local.runtime.process;
        let place = Arc::new(Mutex::new(Own::of(Held { guard, local }, process)));
        exit::remember(&place);
        Guard { key, token, fence, place }
    }
}

#[pymethods]
impl Guard {
    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        errors::key(py, &self.key)
    }

    /// The number of this acquisition.
    #[getter]
    fn fence(&self) -> u64 {
        self.fence
    }

    /// The token, by which the nodes know this holder.
    #[getter]
    fn token(&self) -> &str {
        &self.token
    }

    /// The fence, unless other holders have different ones at the same time.
    fn exclusive_fence(&self, py: Python<'_>) -> PyResult<u64> {
        let fence = self.with(|held| held.guard.exclusive_fence());
        fence.ok_or_else(|| self.gone(py))?.map_err(|error| errors::failed(py, &error))
    }

    /// The lease, in seconds.
    #[getter]
    fn ttl(&self) -> f64 {
        self.held().get().map_or(0.0, |held| held.guard.ttl().as_secs_f64())
    }

    /// For how many more seconds the lock is certainly held without another renewal.
    fn valid_for(&self) -> f64 {
        let valid = |held: &Held| held::valid_for(&held.guard, &held.local.connected);
        self.with(valid).map_or(0.0, |length| length.as_secs_f64())
    }

    /// Whether the lock is certainly held at this moment.
    fn is_valid(&self) -> bool {
        let is_valid = |held: &Held| !held.local.connected.is_broken() && held.guard.is_valid();
        self.with(is_valid).unwrap_or(false)
    }

    /// Whether it is neither released nor detached, nor the parent's of this process.
    fn is_open(&self) -> bool {
        self.held().get().is_some()
    }

    /// Whether the parent of this process acquired it.
    fn is_inherited(&self) -> bool {
        self.held().is_inherited()
    }

    /// Why it is not held any more, as an exception; `None` while it is.
    fn loss(&self, py: Python<'_>) -> Option<PyErr> {
        match self.with(|held| held::state(&held.guard, &held.local.connected)) {
            None => Some(self.gone(py)),
            Some(State::Held) => None,
            Some(State::Lost(loss)) => Some(errors::lost(py, &loss)),
            Some(State::Broken) => Some(errors::broken(py, &self.key, self.fence)),
        }
    }

    /// Renews the lease, now and from now on for at least so long.
    fn extend(&self, py: Python<'_>, ttl: &Bound<'_, PyAny>) -> PyResult<()> {
        let ttl = span("ttl", ttl)?;
        let asked = self.with(|held| (Arc::clone(&held.local), held.guard.extend(ttl)));
        let (local, extended) = asked.ok_or_else(|| self.gone(py))?;
        local.wait(py, extended)
    }

    /// As `extend`, for a loop.
    fn extend_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<Ticket> {
        let ttl = span("ttl", ttl)?;
        let asked = self.with(|held| (Arc::clone(&held.local), held.guard.extend(ttl)));
        let (local, extended) = asked.ok_or_else(|| self.gone(py))?;
        post.run(&local, ticket, extended.map_ok(|()| Outcome::Done))
    }

    /// Releases the lock, and waits until a majority of the nodes has answered.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let Held { guard, local } = self.take(py)?;
        local.wait(py, released(guard))
    }

    /// As `release`, for a loop.
    fn release_later(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<()> {
        let Held { guard, local } = self.take(py)?;
        post.run(&local, ticket, released(guard).map_ok(|()| Outcome::Done)).map(drop)
    }

    /// Posts the loss of the lock to a loop.
    fn watch(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<Ticket> {
        let watched = self.with(|held| (Arc::clone(&held.local), held.guard.lost()));
        let (local, lost) = watched.ok_or_else(|| self.gone(py))?;
        post.run(&local, ticket, lost.map(|loss| Err(loss.into())))
    }

    /// Releases the lock without waiting for that.
    fn drop(&self) {
        drop(self.held().take());
    }
}

impl Guard {
    /// What is locked here is never kept while Python runs: that may switch to another thread.
    fn held(&self) -> MutexGuard<'_, Own<Held>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, look: impl FnOnce(&Held) -> T) -> Option<T> {
        self.held().get().map(look)
    }

    fn take(&self, py: Python<'_>) -> PyResult<Held> {
        let held = self.held().take();
        held.ok_or_else(|| self.gone(py))
    }

    /// It was released, or it is a parent's.
    fn gone(&self, py: Python<'_>) -> PyErr {
        if self.is_inherited() {
            return errors::forked(py, &self.key, self.fence);
        }
        let (key, fence) = (self.key.clone(), self.fence);
        errors::lost(py, &Loss { key, fence, why: LossReason::Released })
    }
}

/// Begins in the runtime: what is sent to it from elsewhere has to wake it. If this is dropped before it begins, the
/// guard is, which releases the lock.
async fn released(guard: dlock_client::Guard) -> Result<(), Error> {
    Ok(guard.release().await?)
}

impl Drop for Guard {
    fn drop(&mut self) {
        exit::forget(&self.place);
    }
}
