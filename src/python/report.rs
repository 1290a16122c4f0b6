//! Reports of the nodes, as the named tuples of `dlock._report`.

use dlock_client::{
    DoneInfo, HolderInfo, Inspection, Key, Lease, NodeError, Notice, Report, WaiterInfo,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use pyo3::{IntoPyObjectExt, PyTypeInfo};

/// Each node's answer or error.
pub(crate) type Answers<T> = Vec<(String, Result<T, NodeError>)>;

/// A key, as text where it is UTF-8.
pub(crate) fn key(py: Python<'_>, key: &Key) -> PyResult<Py<PyAny>> {
    bytes(py, key.as_bytes())
}

/// The states of nodes.
pub(crate) fn nodes(py: Python<'_>, nodes: &[Report]) -> PyResult<Py<PyAny>> {
    all(py, nodes, |report| node(py, report))
}

/// The holder of a lock.
pub(crate) fn holder(py: Python<'_>, holder: &HolderInfo) -> PyResult<Py<PyAny>> {
    let (held, ttl) = (holder.held.as_secs_f64(), holder.ttl.as_secs_f64());
    let HolderInfo { fence, address, client, meta, id, ephemeral, away, .. } = holder;
    let meta = bytes(py, meta)?;
    make(py, "Holder", (fence, held, ttl, address.as_deref(), client, meta, id, ephemeral, away))
}

/// The holder that has left a lock done.
pub(crate) fn done(py: Python<'_>, done: &DoneInfo) -> PyResult<Py<PyAny>> {
    let DoneInfo { id, fence, since, outcome, .. } = done;
    make(py, "Done", (id, fence, since.as_secs_f64(), bytes(py, outcome)?))
}

/// A lock without renewal here.
pub(crate) fn lease(py: Python<'_>, lease: &Lease) -> PyResult<Py<PyAny>> {
    let Lease { token, fence, valid_for, .. } = lease;
    let fields = (key(py, &lease.key)?, token.as_str(), fence, valid_for.as_secs_f64());
    make(py, "Lease", fields)
}

/// Each node's report about a lock.
pub(crate) fn inspections(
    py: Python<'_>,
    answers: &Answers<Option<Inspection>>,
) -> PyResult<Py<PyAny>> {
    of_nodes(py, "NodeInspection", answers, |lock| match lock {
        Some(lock) => inspection(py, lock),
        None => Ok(py.None()),
    })
}

/// The number of leases that each node ended.
pub(crate) fn breaks(py: Python<'_>, answers: &Answers<u64>) -> PyResult<Py<PyAny>> {
    of_nodes(py, "NodeBreak", answers, |ended| ended.into_py_any(py))
}

/// A notice for an operator.
pub(crate) fn notice<'py>(py: Python<'py>, notice: &Notice) -> PyResult<Py<PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("event", notice.name())?;
    fields.set_item("message", notice.to_string())?;
    match notice {
        Notice::Stranger { node, before, now } => {
            fields.set_item("node", node)?;
            fields.set_item("before", before)?;
            fields.set_item("now", now)?;
        }
        Notice::Promoted { node, server, quarantine } => {
            fields.set_item("node", node)?;
            fields.set_item("server", server)?;
            fields.set_item("quarantine", quarantine.as_secs_f64())?;
        }
        Notice::Outage { key: lock, needed, nodes: said } => {
            fields.set_item("key", key(py, lock)?)?;
            fields.set_item("needed", needed)?;
            fields.set_item("nodes", nodes(py, said)?)?;
        }
        Notice::NotReleased { key: lock, needed, of, left, within } => {
            fields.set_item("key", key(py, lock)?)?;
            fields.set_item("needed", needed)?;
            fields.set_item("of", of)?;
            fields.set_item("left", nodes(py, left)?)?;
            fields.set_item("within", within.as_secs_f64())?;
        }
        Notice::Back { key: lock } => fields.set_item("key", key(py, lock)?)?,
        _ => {}
    }
    let class = class(py, "Notice")?;
    let defaults = class.getattr(intern!(py, "_field_defaults"))?.cast_into::<PyDict>()?;
    let names = class.getattr(intern!(py, "_fields"))?.cast_into::<PyTuple>()?;
    let field = |name: Bound<'py, PyAny>| match fields.get_item(&name)? {
        Some(given) => Ok(Some(given)),
        None => defaults.get_item(name),
    };
    let given: PyResult<Vec<_>> = names.iter().map(field).collect();
    tuple(py, &class, PyTuple::new(py, given?)?)
}

fn inspection(py: Python<'_>, lock: &Inspection) -> PyResult<Py<PyAny>> {
    let holders = all(py, &lock.holders, |each| holder(py, each))?;
    let waiters = all(py, &lock.waiters, |each| waiter(py, each))?;
    let expires = lock.expires.map(|left| left.as_secs_f64());
    let by = lock.done.as_ref().map(|by| done(py, by)).transpose()?;
    let Inspection { mode, limit, holding, waiting, .. } = lock;
    make(py, "Inspection", (mode, limit, holding, holders, expires, by, waiting, waiters))
}

fn waiter(py: Python<'_>, waiter: &WaiterInfo) -> PyResult<Py<PyAny>> {
    let (waited, left) = (waiter.waited.as_secs_f64(), waiter.left.map(|left| left.as_secs_f64()));
    let WaiterInfo { id, mode, client, meta, away, .. } = waiter;
    make(py, "Waiter", (id, mode, waited, left, client, bytes(py, meta)?, away))
}

fn of_nodes<T>(
    py: Python<'_>,
    class: &str,
    answers: &Answers<T>,
    value: impl Fn(&T) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    all(py, answers, |(name, answer)| {
        let (value, error) = match answer {
            Ok(answer) => (value(answer)?, py.None()),
            Err(error) => {
                let report = Report { node: name.clone(), state: error.clone().into() };
                (py.None(), node(py, &report)?)
            }
        };
        make(py, class, (name, value, error))
    })
}

fn node(py: Python<'_>, Report { node, state }: &Report) -> PyResult<Py<PyAny>> {
    make(py, "NodeReport", (node, state.name(), state.to_string()))
}

/// Bytes that are mostly text.
fn bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    match str::from_utf8(bytes) {
        Ok(text) => text.into_py_any(py),
        Err(_) => Ok(PyBytes::new(py, bytes).into_any().unbind()),
    }
}

fn all<T>(
    py: Python<'_>,
    list: &[T],
    made: impl Fn(&T) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let made: PyResult<Vec<_>> = list.iter().map(made).collect();
    Ok(PyTuple::new(py, made?)?.into_any().unbind())
}

fn make<'py>(
    py: Python<'py>,
    name: &str,
    fields: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Py<PyAny>> {
    tuple(py, &class(py, name)?, fields.into_pyobject(py)?)
}

/// Makes a named tuple by `tuple.__new__`, a function in C: the class's own is in Python.
fn tuple<'py>(
    py: Python<'py>,
    class: &Bound<'py, PyAny>,
    fields: Bound<'py, PyTuple>,
) -> PyResult<Py<PyAny>> {
    let new = PyTuple::type_object(py).getattr(intern!(py, "__new__"))?;
    new.call1((class, fields)).map(Bound::unbind)
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    CLASSES.import(py, "dlock._report", "__dict__")?.as_any().get_item(name)
}
