//! A lock that is held.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_client::{Key, Loss, LossReason};
use futures_util::FutureExt;
use pyo3::prelude::*;

use crate::arguments::Span;
use crate::client::Connected;
use crate::exit;
use crate::fork::Own;
use crate::outcome::{self, Outcome};
use crate::post::{Post, Ticket};

/// A lock that is held, and renewed until it is released. If this object is collected, that releases it.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Guard {
    key: Key,
    fence: u64,
    place: Arc<Place>,
}

/// Where a lock is held. Locked only by who is attached to the interpreter, and never while detached.
pub(crate) type Place = Mutex<Own<Held>>;

pub(crate) struct Held {
    guard: dlock_client::Guard,
    connected: Arc<Connected>,
}

impl Guard {
    pub(crate) fn new(guard: dlock_client::Guard, connected: Arc<Connected>) -> Guard {
        let (key, fence) = (guard.key().clone(), guard.fence());
        let place = Arc::new(Mutex::new(Own::new(Held { guard, connected })));
        exit::remember(&place);
        Guard { key, fence, place }
    }
}

#[pymethods]
impl Guard {
    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        outcome::key(py, &self.key)
    }

    /// The number of this acquisition.
    #[getter]
    fn fence(&self) -> u64 {
        self.fence
    }

    /// The token, by which the nodes know this holder.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<String> {
        let token = self.with(|held| held.guard.token().to_string());
        token.ok_or_else(|| self.gone(py))
    }

    /// The lease, in seconds.
    #[getter]
    fn ttl(&self) -> f64 {
        self.held().get().map_or(0.0, |held| held.guard.ttl().as_secs_f64())
    }

    /// For how many more seconds the lock is certainly held without another renewal.
    fn valid_for(&self) -> f64 {
        match self.held().get() {
            Some(held) if !held.connected.is_broken() => held.guard.valid_for().as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Whether the lock is certainly held at this moment.
    fn is_valid(&self) -> bool {
        self.held().get().is_some_and(Held::is_valid)
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
        match self.state() {
            State::Held => None,
            State::Lost(loss) => Some(outcome::lost(py, &loss)),
            State::Broken => Some(outcome::broken(py, &self.key, self.fence)),
            State::Inherited => Some(outcome::forked(py, &self.key, self.fence)),
        }
    }

    /// Renews the lease, now and from now on for at least so long.
    fn extend(&self, py: Python<'_>, ttl: Span) -> PyResult<Py<PyAny>> {
        let (connected, work) = self.extending(py, ttl.0)?;
        connected.wait(py, work)
    }

    /// As `extend`, for a loop.
    fn extend_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        ttl: Span,
    ) -> PyResult<Ticket> {
        let (connected, work) = self.extending(py, ttl.0)?;
        connected.post(post, ticket, work).map(Ticket::new)
    }

    /// Releases the lock, and waits until a majority of the nodes has answered.
    fn release(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (connected, work) = self.releasing(py)?;
        connected.wait(py, work)
    }

    /// As `release`, for a loop.
    fn release_later(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<()> {
        let (connected, work) = self.releasing(py)?;
        connected.post(post, ticket, work).map(drop)
    }

    /// Posts the loss of the lock to a loop.
    fn watch(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<Ticket> {
        let watched = self.with(|held| (Arc::clone(&held.connected), held.guard.lost()));
        let (connected, lost) = watched.ok_or_else(|| self.gone(py))?;
        let work = lost.map(|loss| Outcome::Failed(loss.into()));
        connected.post(post, ticket, work).map(Ticket::new)
    }

    /// Releases the lock without waiting for that.
    fn drop(&self) {
        drop(self.held().take());
    }
}

type Work<F> = (Arc<Connected>, F);

/// How things stand with it.
enum State {
    Held,
    Lost(Loss),
    Broken,
    /// The parent of this process acquired it.
    Inherited,
}

impl Guard {
    /// What is locked here is never kept while Python runs: that may switch to another thread.
    fn held(&self) -> MutexGuard<'_, Own<Held>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, look: impl FnOnce(&Held) -> T) -> Option<T> {
        self.held().get().map(look)
    }

    fn take(&self, py: Python<'_>) -> PyResult<(Arc<Connected>, dlock_client::Guard)> {
        let held = self.held().take();
        let Held { guard, connected } = held.ok_or_else(|| self.gone(py))?;
        Ok((connected, guard))
    }

    fn state(&self) -> State {
        let held = self.held();
        if held.is_inherited() {
            return State::Inherited;
        }
        match held.get() {
            None => State::Lost(self.lost(LossReason::Released)),
            Some(held) if held.connected.is_broken() => State::Broken,
            Some(held) if held.guard.is_valid() => State::Held,
            Some(held) => {
                let _inside = held.connected.runtime.handle.enter();
                let known = held.guard.lost().now_or_never();
                let nodes = Vec::new();
                State::Lost(known.unwrap_or_else(|| self.lost(LossReason::NotRenewed { nodes })))
            }
        }
    }

    fn extending(
        &self,
        py: Python<'_>,
        ttl: Duration,
    ) -> PyResult<Work<impl Future<Output = Outcome> + Send + 'static>> {
        let asked = self.with(|held| (Arc::clone(&held.connected), held.guard.extend(ttl)));
        let (connected, extended) = asked.ok_or_else(|| self.gone(py))?;
        let work = extended.map(|done| done.map_or_else(Outcome::Failed, |()| Outcome::Done));
        Ok((connected, work))
    }

    fn releasing(
        &self,
        py: Python<'_>,
    ) -> PyResult<Work<impl Future<Output = Outcome> + Send + 'static>> {
        let (connected, guard) = self.take(py)?;
        let released = guard.release();
        let failed = |loss: Loss| Outcome::Failed(loss.into());
        Ok((connected, released.map(move |done| done.map_or_else(failed, |()| Outcome::Done))))
    }

    /// It was released, or it is a parent's.
    fn gone(&self, py: Python<'_>) -> PyErr {
        if self.is_inherited() {
            return outcome::forked(py, &self.key, self.fence);
        }
        outcome::lost(py, &self.lost(LossReason::Released))
    }

    fn lost(&self, why: LossReason) -> Loss {
        Loss { key: self.key.clone(), fence: self.fence, why }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        exit::forget(&self.place);
    }
}

impl Held {
    fn is_valid(&self) -> bool {
        !self.connected.is_broken() && self.guard.is_valid()
    }
}
