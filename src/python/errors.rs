//! Errors as exceptions of `dlock._errors`.

use dlock_bindings::failure::Failure;
use dlock_client::Key;
use pyo3::prelude::*;

use crate::report;

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

/// Makes an exception, and sets its attributes. They are no arguments, so that the exception can be pickled, as
/// those of a task are.
fn exception<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyAny>> {
    let Failure { code, message, key, nodes, retry_after, holder, left, done, fence, why } =
        failure;
    let class = py.import("dlock._errors")?.getattr("class_of")?.call1((code,))?;
    let made = class.call1((message,))?;
    made.setattr("nodes", report::nodes(py, nodes)?)?;
    made.setattr("retry_after", retry_after.map(|wait| wait.as_secs_f64()))?;
    if let Some(key) = key {
        made.setattr("key", report::key(py, key)?)?;
    }
    if let Some(holder) = holder {
        made.setattr("holder", report::holder(py, holder)?)?;
    }
    if let Some(left) = left {
        made.setattr("left", left.as_secs_f64())?;
    }
    if let Some(done) = done {
        made.setattr("by", report::done(py, done)?)?;
    }
    if let Some(fence) = fence {
        made.setattr("fence", fence)?;
    }
    if let Some(why) = why {
        made.setattr("why", why)?;
    }
    Ok(made)
}
