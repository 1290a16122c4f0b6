//! Errors as exceptions of `dlock._errors`.

use dlock_bindings::words;
use dlock_client::{Error, Key, Loss, Report};
use pyo3::prelude::*;

use crate::report;

/// The exception for an error of the library.
pub(crate) fn failed(py: Python<'_>, error: &Error) -> PyErr {
    if let Error::Lost(loss) = error {
        return lost(py, loss);
    }
    let class = match error.code() {
        "held" => "HeldError",
        "no_quorum" => "NoQuorumError",
        "refused" => "RefusedError",
        "usage" => "UsageError",
        _ => "InternalError",
    };
    exception(py, class, &error.to_string(), |made| {
        describe(made, error.key(), error.nodes())?;
        made.setattr("retry_after", error.retry_after().map(|wait| wait.as_secs_f64()))?;
        match error {
            Error::Held { holder: Some(holder), .. } => {
                made.setattr("holder", report::holder(py, holder)?)
            }
            _ => Ok(()),
        }
    })
}

/// The exception for a request that is not valid.
pub(crate) fn usage(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "UsageError", text, |_| Ok(()))
}

/// The exception for a panic.
pub(crate) fn defect(py: Python<'_>, words: &str) -> PyErr {
    exception(py, "InternalError", &words::defect(words), |_| Ok(()))
}

/// The exception for a loss.
pub(crate) fn lost(py: Python<'_>, loss: &Loss) -> PyErr {
    let (text, why) = (loss.to_string(), loss.why.name());
    loss_of(py, &text, &loss.key, loss.fence, why, loss.why.nodes())
}

/// The exception for a child of the holder's process, which is not the holder.
pub(crate) fn forked(py: Python<'_>, key: &Key, fence: u64) -> PyErr {
    let text = format!(
        "lock {key:?} (fence {fence}) is not held by this process: its parent acquired it before the fork"
    );
    loss_of(py, &text, key, fence, "forked", &[])
}

/// The exception for a lock whose client has panicked.
pub(crate) fn broken(py: Python<'_>, key: &Key, fence: u64) -> PyErr {
    loss_of(py, &words::broken(key, fence), key, fence, "panicked", &[])
}

fn loss_of(
    py: Python<'_>,
    text: &str,
    key: &Key,
    fence: u64,
    why: &str,
    nodes: &[Report],
) -> PyErr {
    exception(py, "LostError", text, |made| {
        describe(made, Some(key), nodes)?;
        made.setattr("fence", fence)?;
        made.setattr("why", why)
    })
}

/// Makes an exception of `dlock._errors`, and sets its attributes. They are no arguments, so that the
/// exception can be pickled, as those of a task are.
fn exception(
    py: Python<'_>,
    class: &str,
    text: &str,
    describe: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>,
) -> PyErr {
    let made = py.import("dlock._errors").and_then(|errors| errors.getattr(class)?.call1((text,)));
    match made.and_then(|made| describe(&made).map(|()| made)) {
        Ok(made) => PyErr::from_value(made),
        Err(error) => error,
    }
}

fn describe(made: &Bound<'_, PyAny>, of: Option<&Key>, nodes: &[Report]) -> PyResult<()> {
    let py = made.py();
    if let Some(of) = of {
        made.setattr("key", report::key(py, of)?)?;
    }
    made.setattr("nodes", report::nodes(py, nodes)?)
}
