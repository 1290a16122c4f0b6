//! The options of a lock, from the keywords of a call.

use dlock_bindings::options::{Options, Slot};
use dlock_client::{LockOptions, Patience};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::arguments::{maybe_span, span, text, wrong_type};
use crate::errors;

pub(crate) fn read(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<LockOptions> {
    let mut options = Options::default();
    let mut slots = options.slots();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        match slots.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => set(slot, &name, &value)?,
            None => {
                let known = slots.map(|(known, _)| known).join(", ");
                let text = format!("there is no option {name}; there are {known}");
                return Err(PyTypeError::new_err(text));
            }
        }
    }
    options.finish().map_err(|error| errors::raised(py, error))
}

fn set(slot: &mut Slot<'_>, name: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
    match slot {
        Slot::Span(length) => **length = span(name, given)?,
        Slot::MaybeSpan(length) => **length = maybe_span(name, given)?,
        Slot::Wait(limit) => **limit = patience(name, given)?,
        Slot::Flag(flag) => {
            let wrong = |_| wrong_type(&format!("{name} is True or False"), given);
            **flag = given.extract().map_err(wrong)?;
        }
        Slot::Permits(permits) => **permits = maybe_permits(name, given)?,
        Slot::Text(to) => **to = text(name, given)?,
    }
    Ok(())
}

/// Reads the limit of a wait; `None` is a wait without limit.
pub(crate) fn patience(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Patience> {
    Ok(maybe_span(name, given)?.map_or(Patience::Forever, Patience::from))
}

fn maybe_permits(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<u16>> {
    let wrong = || wrong_type(&format!("{name} is a whole number of holders"), given);
    if given.is_instance_of::<PyBool>() {
        return Err(wrong());
    }
    given.extract().map_err(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(given.py()) {
            return wrong();
        }
        errors::usage(given.py(), format!("{name} is from 1 to {}, not {given}", u16::MAX))
    })
}
