//! What can come out, as values and exceptions of Python.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, HolderInfo, Key, Loss, LossReason, Report};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::client::Connected;
use crate::guard::Guard;
use crate::lease::Unheard;

/// How work ended. Dropping one with a guard releases that.
pub(crate) enum Outcome {
    Acquired(dlock_client::Guard, Arc<Connected>),
    Done,
    Was(bool),
    Seconds(Duration),
    Leased(Unheard),
    /// Whether there are any, and their fences.
    Holders(bool, Vec<u64>),
    Failed(Error),
    Panicked(String),
}

impl Outcome {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Outcome::Acquired(guard, connected) => Guard::new(guard, connected).into_py_any(py),
            Outcome::Done => Ok(py.None()),
            Outcome::Was(yes) => yes.into_py_any(py),
            Outcome::Seconds(length) => length.as_secs_f64().into_py_any(py),
            Outcome::Leased(unheard) => unheard.tell().into_py_any(py),
            Outcome::Holders(is_held, fences) => (is_held, fences).into_py_any(py),
            Outcome::Failed(error) => Err(failed(py, &error)),
            Outcome::Panicked(words) => {
                let text = format!("a defect of dlock, please report it: {words}");
                Err(exception(py, "InternalError", &text, |_| Ok(())))
            }
        }
    }
}

/// The exception for an error of the library.
pub(crate) fn failed(py: Python<'_>, error: &Error) -> PyErr {
    let (class, key, nodes) = match error {
        Error::Lost(loss) => return lost(py, loss),
        Error::Held { key, nodes, .. } => ("Held", Some(key), nodes.as_slice()),
        Error::NoQuorum { key, nodes, .. } => ("NoQuorum", Some(key), nodes.as_slice()),
        Error::Refused { key, nodes } => ("Refused", Some(key), nodes.as_slice()),
        Error::Connect { nodes, .. } => ("NoQuorum", None, nodes.as_slice()),
        Error::Usage(_) | Error::Duplicate { .. } => ("UsageError", None, [].as_slice()),
        _ => ("Error", None, [].as_slice()),
    };
    exception(py, class, &error.to_string(), |made| {
        describe(made, key, nodes)?;
        made.setattr("retry_after", error.retry_after().map(|wait| wait.as_secs_f64()))?;
        match error {
            Error::Held { holder: Some(holder), .. } => made.setattr("holder", info(py, holder)?),
            _ => Ok(()),
        }
    })
}

/// The exception for a loss.
pub(crate) fn lost(py: Python<'_>, loss: &Loss) -> PyErr {
    let nodes = match &loss.why {
        LossReason::NotRenewed { nodes } | LossReason::Ended { nodes } => nodes.as_slice(),
        _ => &[],
    };
    loss_of(py, &loss.to_string(), &loss.key, loss.fence, loss.why.name(), nodes)
}

/// A child of the holder's process is not the holder.
pub(crate) fn forked(py: Python<'_>, key: &Key, fence: u64) -> PyErr {
    let text = format!(
        "lock {key:?} (fence {fence}) is not held by this process: its parent acquired it before the fork"
    );
    loss_of(py, &text, key, fence, "forked", &[])
}

/// After a panic nothing is certain.
pub(crate) fn broken(py: Python<'_>, key: &Key, fence: u64) -> PyErr {
    let text = format!("lock {key:?} (fence {fence}) counts as lost: its client has panicked");
    loss_of(py, &text, key, fence, "panicked", &[])
}

fn loss_of(
    py: Python<'_>,
    text: &str,
    key: &Key,
    fence: u64,
    why: &str,
    nodes: &[Report],
) -> PyErr {
    exception(py, "Lost", text, |made| {
        describe(made, Some(key), nodes)?;
        made.setattr("fence", fence)?;
        made.setattr("why", why)
    })
}

/// A key, as text where it is UTF-8.
pub(crate) fn key(py: Python<'_>, key: &Key) -> PyResult<Py<PyAny>> {
    match key.to_str() {
        Some(text) => text.into_py_any(py),
        None => Ok(PyBytes::new(py, key.as_bytes()).into_any().unbind()),
    }
}

/// An exception of `dlock._errors`, with its attributes. They are no arguments, so that each of these
/// exceptions can be pickled, as those of a task are.
fn exception(
    py: Python<'_>,
    class: &str,
    text: &str,
    describe: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>,
) -> PyErr {
    let made = py.import(ERRORS).and_then(|errors| errors.getattr(class)?.call1((text,)));
    match made.and_then(|made| describe(&made).map(|()| made)) {
        Ok(made) => PyErr::from_value(made),
        Err(error) => error,
    }
}

fn describe(made: &Bound<'_, PyAny>, of: Option<&Key>, nodes: &[Report]) -> PyResult<()> {
    let py = made.py();
    if let Some(of) = of {
        made.setattr("key", key(py, of)?)?;
    }
    let class = py.import(ERRORS)?.getattr("NodeReport")?;
    let reports: PyResult<Vec<_>> = nodes
        .iter()
        .map(|Report { node, state }| class.call1((node, state.name(), state.to_string())))
        .collect();
    made.setattr("nodes", PyTuple::new(py, reports?)?)
}

fn info(py: Python<'_>, holder: &HolderInfo) -> PyResult<Py<PyAny>> {
    let meta = match str::from_utf8(&holder.meta) {
        Ok(text) => text.into_py_any(py)?,
        Err(_) => PyBytes::new(py, &holder.meta).into_any().unbind(),
    };
    let (held, ttl) = (holder.held.as_secs_f64(), holder.ttl.as_secs_f64());
    let fields = (holder.fence, held, ttl, holder.address.as_deref(), holder.client, meta);
    py.import(ERRORS)?.getattr("Holder")?.call1(fields).map(Bound::unbind)
}

const ERRORS: &str = "dlock._errors";
