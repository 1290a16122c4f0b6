//! Values of the library as values of Python: records are the named tuples of `dlock._report`, lengths of time are
//! in seconds.

use dlock_bindings::value::{Record, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{IntoPyObjectExt, PyTypeInfo};

/// Converts a value.
pub(crate) fn to_python(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Nothing => Ok(py.None()),
        Value::Flag(flag) => flag.into_py_any(py),
        Value::Number(number) => number.into_py_any(py),
        Value::Span(length) => length.as_secs_f64().into_py_any(py),
        Value::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => text.into_py_any(py),
            Err(_) => PyBytes::new(py, bytes).into_py_any(py),
        },
        Value::List(all) => {
            let all: PyResult<Vec<_>> = all.iter().map(|each| tuple(py, each)).collect();
            PyTuple::new(py, all?)?.into_py_any(py)
        }
        Value::Record(record) => tuple(py, record),
    }
}

/// Makes a named tuple by `tuple.__new__`, a function in C: the class's own is in Python.
fn tuple(py: Python<'_>, Record { kind, fields }: &Record) -> PyResult<Py<PyAny>> {
    let class = py.import("dlock._report")?.getattr(*kind)?;
    let names: Vec<String> = class.getattr("_fields")?.extract()?;
    let given = names.iter().map(|name| match fields.iter().find(|(field, _)| field == name) {
        Some((_, value)) => to_python(py, value),
        None => Ok(py.None()),
    });
    let given: PyResult<Vec<_>> = given.collect();
    let new = PyTuple::type_object(py).getattr("__new__")?;
    new.call1((class, PyTuple::new(py, given?)?)).map(Bound::unbind)
}
