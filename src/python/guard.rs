//! A lock that is held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_bindings::held::{self, State};
use dlock_bindings::lease::Unheard;
use dlock_client::{Error, Key, Loss, LossReason, Token};
use futures_util::{FutureExt, TryFutureExt};
use pyo3::prelude::*;

use crate::arguments::span;
use crate::errors;
use crate::exit;
use crate::held::{Held, Place};
use crate::outcome::{Acquired, Outcome};
use crate::own::Own;
use crate::post::{Post, Ticket};
use crate::report;

/// A lock that is held, and renewed until it is released. If this object is collected, that releases it.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Guard {
    key: Key,
    token: String,
    fence: u64,
    is_renewed: bool,
    place: Arc<Place>,
    /// Whether somebody was given it.
    is_given: AtomicBool,
    /// Whoever has its token minds it.
    is_detached: AtomicBool,
}

impl Guard {
    pub(crate) fn new(acquired: Acquired) -> Guard {
        let Acquired { guard, local, under_way } = acquired;
        let (key, token, fence) = (guard.key().clone(), guard.token().to_string(), guard.fence());
        let (is_renewed, process) = (guard.is_renewed(), local.runtime.process);
        let place = Arc::new(Mutex::new(Own::of(Held { guard, local }, process)));
        exit::remember(&place);
        // From here on the end of the interpreter finds it.
        drop(under_way);
        let (is_given, is_detached) = (AtomicBool::new(false), AtomicBool::new(false));
        Guard { key, token, fence, is_renewed, place, is_given, is_detached }
    }
}

#[pymethods]
impl Guard {
    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::key(py, &self.key)
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

    /// The token, for the one node that has the lock.
    fn token_of_one_node(&self, py: Python<'_>) -> PyResult<String> {
        let token = self.with(|held| held.guard.token_of_one_node().map(Token::to_string));
        token.ok_or_else(|| self.gone(py))?.map_err(|error| errors::failed(py, &error))
    }

    /// Whether the lease is renewed.
    fn is_renewed(&self) -> bool {
        self.is_renewed
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
    pub(crate) fn is_open(&self) -> bool {
        self.held().get().is_some()
    }

    /// Whether the parent of this process acquired it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.held().is_inherited()
    }

    /// Why it is not held any more, as an exception; `None` while it is.
    pub(crate) fn loss(&self, py: Python<'_>) -> Option<PyErr> {
        match self.with(|held| held::state(&held.guard, &held.local.connected)) {
            None => Some(self.gone(py)),
            Some(State::Held) => None,
            Some(State::Lost(loss)) => Some(errors::lost(py, &loss)),
            Some(State::Broken) => Some(errors::broken(py, &self.key, self.fence)),
        }
    }

    /// Renews the lease, now and from now on for at least so long.
    fn extend(
        &self,
        py: Python<'_>,
        post: Option<&Bound<'_, Post>>,
        ticket: u64,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let ttl = span("ttl", ttl)?;
        let asked = self.with(|held| (Arc::clone(&held.local), held.guard.extend(ttl)));
        let (local, extended) = asked.ok_or_else(|| self.gone(py))?;
        local.carry_out(py, post, ticket, extended.map_ok(|()| Outcome::Done))
    }

    /// Releases the lock, and waits until a majority of the nodes has answered.
    fn release(
        &self,
        py: Python<'_>,
        post: Option<&Bound<'_, Post>>,
        ticket: u64,
    ) -> PyResult<Py<PyAny>> {
        let Held { guard, local } = self.take(py)?;
        local.carry_out(py, post, ticket, released(guard).map_ok(|()| Outcome::Done))
    }

    /// Hands the lock over to whoever has its token. Nobody here renews or releases it any more.
    fn detach(
        &self,
        py: Python<'_>,
        post: Option<&Bound<'_, Post>>,
        ticket: u64,
    ) -> PyResult<Py<PyAny>> {
        let Held { guard, local } = self.take(py)?;
        self.is_detached.store(true, Ordering::Relaxed);
        let detached = Unheard::detach(guard, Arc::clone(&local.connected));
        local.carry_out(py, post, ticket, detached.map(|unheard| Ok(Outcome::Detached(unheard))))
    }

    /// Posts the loss of the lock to a loop.
    fn watch(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<Ticket> {
        let watched = self.with(|held| (Arc::clone(&held.local), held.guard.lost()));
        let (local, lost) = watched.ok_or_else(|| self.gone(py))?;
        post.run(&local, ticket, lost.map(|loss| Err(loss.into())))
    }

    /// Somebody has it from now on, who is to keep it: if it is collected while the lock is held, the log says so.
    pub(crate) fn give(&self) {
        self.is_given.store(true, Ordering::Relaxed);
    }

    /// Releases the lock without waiting for that.
    pub(crate) fn drop(&self) {
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

    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Held> {
        let held = self.held().take();
        held.ok_or_else(|| self.gone(py))
    }

    /// It was released, or it is a parent's.
    fn gone(&self, py: Python<'_>) -> PyErr {
        if self.is_inherited() {
            return errors::forked(py, &self.key, self.fence);
        }
        let why = match self.is_detached.load(Ordering::Relaxed) {
            true => LossReason::Detached,
            false => LossReason::Released,
        };
        let (key, fence) = (self.key.clone(), self.fence);
        errors::lost(py, &Loss { key, fence, why })
    }
}

/// Begins in the runtime: what is sent to it from elsewhere has to wake it. If this is dropped before it begins, the
/// guard is, which releases the lock.
pub(crate) async fn released(guard: dlock_client::Guard) -> Result<(), Error> {
    guard.release().await?;
    Ok(())
}

// In place of `__del__`: an exception that a signal's handler raises there is ignored, so Ctrl-C would be.
impl Drop for Guard {
    fn drop(&mut self) {
        exit::forget(&self.place);
        let is_given = *self.is_given.get_mut();
        let held = self.held().take();
        match held {
            Some(held) if is_given && !self.is_renewed => held.end(),
            Some(held) if is_given => {
                drop(held);
                Python::try_attach(|py| collected(py, &self.key));
            }
            _ => {}
        }
    }
}

/// Says that nobody kept a guard.
fn collected(py: Python<'_>, key: &Key) {
    // It may be collected while an exception is on its way.
    let under_way = PyErr::take(py);
    let say = || py.import("dlock._guard")?.call_method1("collected", (report::key(py, key)?,));
    if let Err(error) = say() {
        error.write_unraisable(py, None);
    }
    if let Some(error) = under_way {
        error.restore(py);
    }
}
