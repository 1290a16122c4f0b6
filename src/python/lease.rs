//! A lock that is handed on.

use std::sync::{Mutex, PoisonError};

use dlock_bindings::lease::PendingLease;
use pyo3::prelude::*;

use crate::own::Own;
use crate::value::to_python;

/// A lease that Python has not received yet. Dropping it releases the lock.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Detached(Mutex<Own<PendingLease>>);

impl Detached {
    pub(crate) fn new(lease: PendingLease) -> Detached {
        Detached(Mutex::new(Own::new(lease)))
    }
}

#[pymethods]
impl Detached {
    /// Hands the lease to the caller.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        to_python(py, &pending.and_then(PendingLease::take).into())
    }
}
