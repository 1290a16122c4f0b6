//! A lock that is handed on.

use std::sync::{Mutex, PoisonError};

use dlock_bindings::lease::Unheard;
use pyo3::prelude::*;

use crate::own::Own;
use crate::report;

/// A lease of which Python does not know yet. Its end releases it.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Detached(Mutex<Own<Unheard>>);

impl Detached {
    pub(crate) fn new(unheard: Unheard) -> Detached {
        Detached(Mutex::new(Own::new(unheard)))
    }
}

#[pymethods]
impl Detached {
    /// The lease: from now on it is the caller's.
    fn hear(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let unheard = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match unheard.and_then(Unheard::hear) {
            Some(lease) => report::lease(py, &lease),
            None => Ok(py.None()),
        }
    }
}
