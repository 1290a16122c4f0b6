//! A lock that is handed on.

use std::sync::{Mutex, PoisonError};

use dlock_bindings::lease::PendingLease;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::outcome::IntoValue;
use crate::own::Own;

/// A lease that Python has not received yet. Dropping it releases the lock.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Detached(Mutex<Own<PendingLease>>);

impl IntoValue for PendingLease {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Detached(Mutex::new(Own::new(self))).into_py_any(py)
    }
}

#[pymethods]
impl Detached {
    /// Hands the lease to the caller.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match pending.and_then(PendingLease::take) {
            Some(lease) => lease.into_value(py),
            None => Ok(py.None()),
        }
    }
}
