//! A lock that is handed on.

use std::sync::{Mutex, PoisonError};

use dlock_bindings::lease::Unheard;
use pyo3::prelude::*;

use crate::own::Own;
use crate::report;

/// A lease that Python has not received yet. Dropping it releases the lock.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Detached(Mutex<Own<Unheard>>);

impl Detached {
    pub(crate) fn new(unheard: Unheard) -> Detached {
        Detached(Mutex::new(Own::new(unheard)))
    }
}

#[pymethods]
impl Detached {
    /// Hands the lease to the caller.
    fn hear(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let unheard = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match unheard.and_then(Unheard::hear) {
            Some(lease) => report::lease(py, &lease),
            None => Ok(py.None()),
        }
    }
}
