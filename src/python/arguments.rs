//! Reads keys, tokens, lengths of time, texts and fences from Python.

use std::time::Duration;

use dlock_client::{Key, Token};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};

use crate::errors;

/// The name of a lock: `str` or `bytes`.
pub(crate) struct Name(pub(crate) Key);

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Name> {
        if given.is_instance_of::<PyString>() {
            return Ok(Name(given.extract::<String>()?.into()));
        }
        match given.cast::<PyBytes>() {
            Ok(bytes) => Ok(Name(bytes.as_bytes().into())),
            Err(_) => Err(wrong_type("a key is str or bytes", &given)),
        }
    }
}

/// Reads an argument of this name that is a length of time: seconds as a number, or a `timedelta`.
pub(crate) fn span(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let py = given.py();
    let seconds = match given.extract::<f64>() {
        // `True` would pass for a second.
        Ok(seconds) if !given.is_instance_of::<PyBool>() => seconds,
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => match given.lt(0)? {
            true => f64::NEG_INFINITY,
            false => f64::INFINITY,
        },
        _ => match given.call_method0("total_seconds") {
            Ok(seconds) => seconds.extract()?,
            Err(_) => {
                return Err(wrong_type(&format!("{name} is in seconds, or a timedelta"), given));
            }
        },
    };
    if seconds.is_nan() || seconds < 0.0 {
        let shown = if seconds.is_nan() { "nan".to_owned() } else { seconds.to_string() };
        return Err(errors::usage(py, format!("{name} cannot be {shown} seconds")));
    }
    // A length beyond the largest number means no limit.
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Reads a length of time, or `None`.
pub(crate) fn maybe_span(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    (!given.is_none()).then(|| span(name, given)).transpose()
}

/// Reads an argument of this name that is a text.
pub(crate) fn text(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    match given.cast::<PyString>() {
        Ok(text) => text.extract(),
        Err(_) => Err(wrong_type(&format!("{name} is a str"), given)),
    }
}

pub(crate) fn token(given: &Bound<'_, PyAny>) -> PyResult<Token> {
    let read = text("token", given)?.parse::<Token>();
    read.map_err(|error| errors::usage(given.py(), error.to_string()))
}

/// Reads a fence.
pub(crate) fn fence(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    if given.is_instance_of::<PyBool>() {
        return Err(wrong_type(FENCE, given));
    }
    given.extract().map_err(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(given.py()) {
            return wrong_type(FENCE, given);
        }
        let text = format!("a fence is a number from 0 to 2 ** 64 - 1, not {given}");
        errors::usage(given.py(), text)
    })
}

const FENCE: &str = "a fence is a whole number";

/// The exception for a value of a wrong type.
pub(crate) fn wrong_type(what: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let name = given.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{what}, not {name}"))
}
