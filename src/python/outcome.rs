//! Outcomes of work, on their way to Python.
//!
//! No code of Python runs while an outcome becomes a value: during its shutdown the interpreter exits each thread
//! that runs Python code. Such an exit must not pass through frames of Rust. Exceptions and named tuples are made by
//! functions in C.

use dlock_bindings::failure::Failure;
use dlock_bindings::value::Value;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors;
use crate::value::to_python;

/// The outcome of work, or an event. Dropping one with a lock releases the lock.
pub(crate) enum Outcome {
    /// A lock that is held, and makes its guard.
    Acquired(Make),
    Value(Value),
    /// A log line: its level in `logging`, and its text.
    Line(u32, String),
    Failed(Failure),
}

type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

impl Outcome {
    /// The value of Python.
    ///
    /// # Errors
    /// The exception of a failure.
    pub(crate) fn value(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Outcome::Acquired(make) => make(py),
            Outcome::Value(value) => to_python(py, &value),
            Outcome::Line(level, text) => (level, text).into_py_any(py),
            Outcome::Failed(failure) => Err(errors::raised(py, failure)),
        }
    }
}

impl<T> From<T> for Outcome
where
    Value: From<T>,
{
    fn from(value: T) -> Outcome {
        Outcome::Value(value.into())
    }
}
