//! A lock and its options.

use std::future::Future;
use std::sync::Arc;

use dlock_bindings::held;
use dlock_client::{Error, Key, LockOptions, Patience};
use futures_util::{FutureExt, TryFutureExt};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Name, span};
use crate::client::Client;
use crate::errors;
use crate::guard::Guard;
use crate::held::Held;
use crate::local::Local;
use crate::options::{self, patience};
use crate::outcome::Outcome;
use crate::outcome_queue::ReplyTo;
use crate::value::to_python;
use crate::work::carry_out;

/// A lock and its options. It can be acquired any number of times.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Lock {
    client: Py<Client>,
    key: Key,
    options: LockOptions,
}

/// The limit of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// The lock's own.
    OfLock,
    /// This limit.
    Given(Patience),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Wait {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Wait> {
        patience("wait", &given).map(Wait::Given)
    }
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (client, key, **options))]
    fn new(
        py: Python<'_>,
        client: Py<Client>,
        key: Name,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Lock> {
        let lock = Lock { client, key: key.0, options: options::read(py, options)? };
        let local = lock.client.get().local(py)?;
        lock.at(&local).check().map_err(|error| errors::raised(py, error))?;
        Ok(lock)
    }

    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_python(py, &(&self.key).into())
    }

    /// Checks a window for `run_once`.
    fn check_once(&self, py: Python<'_>, window: &Bound<'_, PyAny>) -> PyResult<()> {
        let (local, window) = (self.client.get().local(py)?, span("window", window)?);
        self.at(&local).check_once(window).map_err(|error| errors::raised(py, error))
    }

    /// Acquires the lock; `wait` replaces the lock's own.
    #[pyo3(signature = (to, wait = Wait::OfLock))]
    pub(crate) fn acquire(
        &self,
        py: Python<'_>,
        to: ReplyTo<'_>,
        wait: Wait,
    ) -> PyResult<Py<PyAny>> {
        let local = self.client.get().local(py)?;
        let lock = match wait {
            Wait::OfLock => self.at(&local),
            Wait::Given(wait) => self.at(&local).wait(wait),
        };
        // A box is small: the caller may have a small stack.
        let acquired = lock.acquire().boxed().map_ok(Some);
        carry_out(py, &local, to, acquiring(&local, acquired))
    }

    /// Acquires the lock if it is free; the outcome is `None` if it is not.
    pub(crate) fn try_acquire(&self, py: Python<'_>, to: ReplyTo<'_>) -> PyResult<Py<PyAny>> {
        let local = self.client.get().local(py)?;
        let acquired = held::try_acquire(self.at(&local));
        carry_out(py, &local, to, acquiring(&local, acquired))
    }
}

impl Lock {
    /// The library's lock. The client is another one after a fork.
    fn at(&self, local: &Local) -> dlock_client::Lock {
        local.client.lock(&self.key).options(self.options.clone())
    }
}

/// Acquires a lock until the end of the interpreter.
fn acquiring<A: Future<Output = Result<Option<dlock_client::Guard>, Error>> + Send + 'static>(
    local: &Arc<Local>,
    acquired: A,
) -> impl Future<Output = Result<Outcome, Error>> + Send + use<A> {
    let ours = Arc::clone(local);
    let held = |guard| {
        let held = Held { guard, local: ours };
        Outcome::Acquired(Box::new(|py| Guard::new(held).into_py_any(py)))
    };
    let work = async move { Ok(acquired.await?.map_or_else(|| ().into(), held)) };
    local.until_the_end(work.boxed())
}
