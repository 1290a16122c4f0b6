//! Errors as exceptions of `dlock._errors`.

use dlock_bindings::failure::Failure;
use dlock_client::Key;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::value::to_python;

/// The exception for an error of the library.
pub(crate) fn raised(py: Python<'_>, failure: impl Into<Failure>) -> PyErr {
    exception(py, &failure.into()).map_or_else(|error| error, PyErr::from_value)
}

/// The exception for a request that is not valid.
pub(crate) fn usage(py: Python<'_>, text: String) -> PyErr {
    raised(py, Failure::usage(text))
}

/// The loss of a lock that the parent of this process acquired.
pub(crate) fn forked(key: &Key, fence: u64) -> Failure {
    let text = "is not held by this process: its parent acquired it before the fork";
    Failure::lost(key, fence, "forked", text)
}

/// True for the loss of a lock.
pub(crate) fn is_lost(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    error.value(py).is_instance(class_of(py, "lost")?.as_any())
}

/// Makes an exception, and sets its attributes. They are not arguments, because pickle, used by Celery for
/// exceptions of tasks, would have to pass them again.
fn exception<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyAny>> {
    let Failure { code, message, details } = failure;
    let made = class_of(py, code)?.call1((message,))?;
    for (name, value) in details {
        made.setattr(*name, to_python(py, value)?)?;
    }
    Ok(made)
}

/// Returns the class of the exceptions with this code.
fn class_of<'py>(py: Python<'py>, code: &str) -> PyResult<Bound<'py, PyType>> {
    let classes = py.import("dlock._errors")?.getattr("CLASSES")?;
    let class = classes.get_item(code).or_else(|_| classes.get_item("internal"))?;
    Ok(class.cast_into()?)
}
