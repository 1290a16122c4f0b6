//! Outcomes of work, on their way to Python.
//!
//! No code of Python runs while an outcome becomes a value: during its shutdown the interpreter exits each thread
//! that runs Python code. Such an exit must not pass through frames of Rust. Exceptions and named tuples are made by
//! functions in C.

use dlock_bindings::failure::Failure;
use dlock_client::{Inspection, Lease, Notice};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors;
use crate::report::{self, Answers};

/// A result of work. Dropping one with a lock releases the lock.
pub(crate) trait IntoValue: Send + Sized + 'static {
    /// True for a lock that Python has not received yet.
    const IS_LOCK: bool = false;

    /// Converts it to a value of Python.
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

/// The outcome of work, or an event.
pub(crate) struct Outcome {
    /// True for a lock that Python has not received yet.
    pub(crate) is_lock: bool,
    make: Make,
}

type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

impl Outcome {
    pub(crate) fn new(result: Result<impl IntoValue, Failure>) -> Outcome {
        fn is_lock<T: IntoValue>(_: &T) -> bool {
            T::IS_LOCK
        }
        Outcome {
            is_lock: result.as_ref().is_ok_and(is_lock),
            make: Box::new(|py| value(py, result)),
        }
    }

    /// The value, or the exception as a value.
    pub(crate) fn collect(self, py: Python<'_>) -> Py<PyAny> {
        (self.make)(py).unwrap_or_else(|error| error.into_value(py).into_any())
    }
}

/// The value of a result, or its exception.
pub(crate) fn value(
    py: Python<'_>,
    result: Result<impl IntoValue, Failure>,
) -> PyResult<Py<PyAny>> {
    result.map_err(|failure| errors::raised(py, failure))?.into_value(py)
}

impl IntoValue for () {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.None())
    }
}

impl IntoValue for bool {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_py_any(py)
    }
}

/// The loss of a lock, for a caller that waits for it.
impl IntoValue for Failure {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(errors::raised(py, self))
    }
}

impl IntoValue for Lease {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::lease(py, &self)
    }
}

impl IntoValue for Answers<Option<Inspection>> {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::inspections(py, &self)
    }
}

impl IntoValue for Answers<u64> {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::breaks(py, &self)
    }
}

impl IntoValue for Notice {
    fn into_value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::notice(py, &self)
    }
}
