//! A lock that is held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_client::{Error, Key, Loss, LossReason};
use futures_util::FutureExt;
use pyo3::prelude::*;

use crate::arguments::{span, text};
use crate::errors;
use crate::events;
use crate::held::Held;
use crate::outcome::Outcome;
use crate::outcome_queue::ReplyTo;
use crate::own::Own;
use crate::value::to_python;
use crate::work::carry_out;

/// A lock that is held, and renewed until it is released. Collecting this object releases it.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Guard {
    key: Key,
    token: String,
    fence: u64,
    is_renewed: bool,
    /// This mutex is never held while Python runs: Python may switch to another thread.
    held: Mutex<Own<Held>>,
    /// The reason why the lock is not held here once `held` is empty.
    why: Arc<Mutex<LossReason>>,
}

#[pymethods]
impl Guard {
    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &(&self.key).into())
    }

    /// Fence of this acquisition.
    #[getter]
    fn fence(&self) -> u64 {
        self.fence
    }

    /// Token of this holder at the nodes.
    #[getter]
    fn token(&self) -> &str {
        &self.token
    }

    /// The lease, in seconds.
    #[getter]
    fn ttl(&self) -> f64 {
        self.held().get().map_or(0.0, |held| held.guard.ttl().as_secs_f64())
    }

    /// Seconds until the validity ends if no renewal succeeds.
    fn valid_for(&self) -> f64 {
        self.with(|held| held.guard.valid_for()).map_or(0.0, |length| length.as_secs_f64())
    }

    /// True if the lock is valid now.
    fn is_valid(&self) -> bool {
        self.with(|held| held.guard.is_valid()).unwrap_or(false)
    }

    /// True unless the lock is released, detached, or the parent process's.
    pub(crate) fn is_open(&self) -> bool {
        self.held().get().is_some()
    }

    /// True if the parent of this process acquired it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.held().is_inherited()
    }

    /// Returns the loss as an exception; `None` while the lock is held.
    pub(crate) fn loss(&self, py: Python<'_>) -> Option<PyErr> {
        match self.with(|held| held.guard.check()) {
            None => Some(self.gone(py)),
            Some(checked) => checked.err().map(|loss| errors::raised(py, loss)),
        }
    }

    /// Renews the lease, now and from now on for at least this long.
    fn extend(
        &self,
        py: Python<'_>,
        to: ReplyTo<'_>,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let ttl = span("ttl", ttl)?;
        let asked = self.with(|held| (Arc::clone(&held.local), held.guard.extend(ttl)));
        let (local, extended) = asked.ok_or_else(|| self.gone(py))?;
        carry_out(py, &local, to, extended)
    }

    /// Leaves the lock done until `window` after it was acquired.
    fn done(
        &self,
        py: Python<'_>,
        to: ReplyTo<'_>,
        window: &Bound<'_, PyAny>,
        outcome: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (window, outcome) = (span("window", window)?, text("outcome", outcome)?);
        let asked = self.with(|held| (Arc::clone(&held.local), held.guard.done(window, outcome)));
        let (local, done) = asked.ok_or_else(|| self.gone(py))?;
        carry_out(py, &local, to, done)
    }

    /// Releases the lock, and waits until a majority of the nodes has answered. Returns true if the lock is free
    /// now; nodes without an answer are asked again in the background.
    fn release(&self, py: Python<'_>, to: ReplyTo<'_>) -> PyResult<Py<PyAny>> {
        let Held { guard, local } = self.take(py)?;
        carry_out(py, &local, to, released(guard))
    }

    /// Hands the lock over to the owner of its token. This process stops renewing it, and does not release it.
    fn detach(&self, py: Python<'_>, to: ReplyTo<'_>) -> PyResult<Py<PyAny>> {
        let Held { guard, local } = self.take(py)?;
        let why = Arc::clone(&self.why);
        // So it is if the caller does not wait for the outcome.
        set(&why, LossReason::Detached);
        let detached = guard.detach();
        let detached =
            detached.map(move |lease| Ok(lease.inspect_err(|loss| set(&why, loss.why.clone()))?));
        carry_out(py, &local, to, detached)
    }

    /// Waits for the loss of the lock, which is the outcome.
    fn watch(&self, py: Python<'_>, to: ReplyTo<'_>) -> PyResult<Py<PyAny>> {
        let watched = self.with(|held| (Arc::clone(&held.local), held.guard.lost()));
        let (local, lost) = watched.ok_or_else(|| self.gone(py))?;
        carry_out(py, &local, to, lost.map(|loss| Ok(Outcome::Failed(loss.into()))))
    }

    /// Releases the lock in the background.
    pub(crate) fn drop(&self) {
        drop(self.held().take());
    }
}

impl Guard {
    pub(crate) fn new(held: Held) -> Guard {
        let (guard, process) = (&held.guard, held.local.runtime.process);
        let (key, token, fence) = (guard.key().clone(), guard.token().to_string(), guard.fence());
        let (is_renewed, why) = (guard.is_renewed(), Arc::new(Mutex::new(LossReason::Released)));
        let held = Mutex::new(Own::of(held, process));
        Guard { key, token, fence, is_renewed, held, why }
    }

    fn held(&self) -> MutexGuard<'_, Own<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, look: impl FnOnce(&Held) -> T) -> Option<T> {
        self.held().get().map(look)
    }

    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Held> {
        let held = self.held().take();
        held.ok_or_else(|| self.gone(py))
    }

    /// The loss of a lock that was released, or is the parent process's.
    fn gone(&self, py: Python<'_>) -> PyErr {
        if self.is_inherited() {
            return errors::raised(py, errors::forked(&self.key, self.fence));
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (key, fence) = (self.key.clone(), self.fence);
        errors::raised(py, Loss { key, fence, why })
    }
}

fn set(why: &Mutex<LossReason>, is: LossReason) {
    *why.lock().unwrap_or_else(PoisonError::into_inner) = is;
}

/// Releases a guard in the runtime: work from another thread must wake it. Dropping this future before its
/// first poll drops the guard, which releases the lock as well. Returns true if the lock is free.
pub(crate) async fn released(guard: dlock_client::Guard) -> Result<bool, Error> {
    match guard.release().await {
        Ok(release) => Ok(release.is_free),
        // The end of the interpreter has released it.
        Err(Loss { why: LossReason::Released, .. }) => Ok(true),
        Err(loss) => Err(loss.into()),
    }
}

// Replaces `__del__`: Python ignores an exception that a signal's handler raises there, so it would ignore
// Ctrl-C.
impl Drop for Guard {
    fn drop(&mut self) {
        let Some(held) = self.held().take() else { return };
        if held.guard.is_valid() && self.is_renewed {
            let key = &self.key;
            events::warn(format!(
                "the guard of lock {key:?} was collected, and the lock released: keep the guard"
            ));
        }
        held.end();
    }
}
