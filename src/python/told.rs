//! Outcomes as values and exceptions of Python.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors;
use crate::guard::Guard;
use crate::lease::Detached;
use crate::outcome::Outcome;
use crate::post::Post;
use crate::report;

/// Returns all outcomes for an event loop: the ticket of each work, and its value or exception.
#[pyfunction]
pub(crate) fn collect(py: Python<'_>, post: &Post) -> PyResult<Vec<(u64, Py<PyAny>)>> {
    let value = |outcome| match told(py, outcome) {
        Ok(value) => value,
        Err(error) => error.into_value(py).into_any(),
    };
    Ok(post.take()?.into_iter().map(|(ticket, outcome)| (ticket, value(outcome))).collect())
}

/// The value of an outcome, or its exception.
pub(crate) fn told(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    match outcome {
        Outcome::Acquired(acquired) => Guard::new(acquired).into_py_any(py),
        Outcome::Detached(unheard) => Detached::new(unheard).into_py_any(py),
        Outcome::Done => Ok(py.None()),
        Outcome::Was(yes) => yes.into_py_any(py),
        Outcome::Told(lease) => report::lease(py, &lease),
        Outcome::Inspected(answers) => report::inspections(py, &answers),
        Outcome::Broken(answers) => report::breaks(py, &answers),
        Outcome::Noticed(notice) => report::notice(py, &notice),
        Outcome::Failed(error) => Err(errors::failed(py, &error)),
        Outcome::Panicked(words) => Err(errors::defect(py, &words)),
    }
}
