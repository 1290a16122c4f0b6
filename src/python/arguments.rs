//! Keys, lengths of time and numbers of holders, as Python writes them.

use std::time::Duration;

use dlock_client::Key;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors;

/// The name of a lock: `str` or `bytes`.
pub(crate) struct Name(pub(crate) Key);

/// A length of time: seconds, as a number, or a `timedelta`.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) Duration);

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Name> {
        if given.is_instance_of::<PyString>() {
            return Ok(Name(given.extract::<String>()?.into()));
        }
        match given.cast::<PyBytes>() {
            Ok(bytes) => Ok(Name(bytes.as_bytes().into())),
            Err(_) => Err(wrong_type("a key is str or bytes", given)),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Span {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Span> {
        let seconds = match given.extract::<f64>() {
            Ok(seconds) => seconds,
            Err(_) => match given.call_method0(intern!(given.py(), "total_seconds")) {
                Ok(seconds) => seconds.extract()?,
                Err(_) => return Err(wrong_type("a time is in seconds, or a timedelta", given)),
            },
        };
        // More than a number of this size can hold is without end, for all that is done with it.
        if seconds.is_nan() || seconds < 0.0 {
            return Err(errors::usage(
                given.py(),
                &format!("a time cannot be {seconds} seconds long"),
            ));
        }
        Ok(Span(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
    }
}

/// How many may hold a semaphore.
pub(crate) struct Permits(pub(crate) u16);

impl<'a, 'py> FromPyObject<'a, 'py> for Permits {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Permits> {
        given.extract().map(Permits).map_err(|error: PyErr| {
            if !error.is_instance_of::<PyOverflowError>(given.py()) {
                return wrong_type("limit is a whole number of holders", given);
            }
            let (given, most) = (given.to_owned(), u16::MAX);
            errors::usage(given.py(), &format!("limit is from 1 to {most}, not {given}"))
        })
    }
}

fn wrong_type(what: &str, given: Borrowed<'_, '_, PyAny>) -> PyErr {
    let name = given.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{what}, not {name}"))
}
