//! Outcomes as values and exceptions of Python.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors;
use crate::guard::Guard;
use crate::lease::Detached;
use crate::outcome::Outcome;
use crate::outcome_queue::OutcomeQueue;
use crate::report;

/// Returns all outcomes for an event loop: the id of each work, and its value or exception.
#[pyfunction]
pub(crate) fn collect(py: Python<'_>, queue: &OutcomeQueue) -> PyResult<Vec<(u64, Py<PyAny>)>> {
    let any = |outcome| value(py, outcome).unwrap_or_else(|error| error.into_value(py).into_any());
    Ok(queue.take()?.into_iter().map(|(id, outcome)| (id, any(outcome))).collect())
}

/// The value of an outcome, or its exception.
pub(crate) fn value(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    match outcome {
        Outcome::Acquired(acquired) => Guard::new(acquired).into_py_any(py),
        Outcome::Detached(lease) => Detached::new(lease).into_py_any(py),
        Outcome::Done => Ok(py.None()),
        Outcome::Flag(yes) => yes.into_py_any(py),
        Outcome::Lease(lease) => report::lease(py, &lease),
        Outcome::Inspected(answers) => report::inspections(py, &answers),
        Outcome::Broken(answers) => report::breaks(py, &answers),
        Outcome::Notice(notice) => report::notice(py, &notice),
        Outcome::Failed(failure) => Err(errors::raised(py, failure)),
    }
}
