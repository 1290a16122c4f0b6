//! What has come of work, as values and exceptions of Python.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors;
use crate::guard::Guard;
use crate::lease::Lease;
use crate::outcome::Outcome;
use crate::post::Post;

/// What has arrived for a loop: the number of each piece of work, and its value or exception.
#[pyfunction]
pub(crate) fn collect(py: Python<'_>, post: &Post) -> PyResult<Vec<(u64, Py<PyAny>)>> {
    let value = |outcome| match told(py, outcome) {
        Ok(value) => value,
        Err(error) => error.into_value(py).into_any(),
    };
    Ok(post.take()?.into_iter().map(|(ticket, outcome)| (ticket, value(outcome))).collect())
}

fn told(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    match outcome {
        Outcome::Acquired(guard, local) => Guard::new(guard, local).into_py_any(py),
        Outcome::Leased(unheard) => Lease::hear(unheard).into_py_any(py),
        Outcome::Done => Ok(py.None()),
        Outcome::Was(yes) => yes.into_py_any(py),
        Outcome::Length(length) => length.as_secs_f64().into_py_any(py),
        Outcome::Holders(holders) => holders.into_py_any(py),
        Outcome::Failed(error) => Err(errors::failed(py, &error)),
        Outcome::Panicked(words) => Err(errors::defect(py, &words)),
    }
}
