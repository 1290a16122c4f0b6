//! The end of the interpreter: releases held locks, and gives up waits.

use std::process;
use std::sync::mpsc::RecvTimeoutError;

use dlock_bindings::exit;
use pyo3::prelude::*;

use crate::local;
use crate::runtime;
use crate::wait::BETWEEN_SIGNALS;

/// Releases all locks of this process, gives up waits, and waits a short time for the nodes' answers.
#[pyfunction]
pub(crate) fn release_all(py: Python<'_>) -> PyResult<()> {
    let Some(runtime) = runtime::last(py).filter(|runtime| runtime.process == process::id()) else {
        return Ok(());
    };
    let clients = local::end(py);
    let clients = clients.iter().map(|local| local.client.clone()).collect();
    let mut is_done = exit::end(&runtime.handle, clients);
    loop {
        let is_done = &mut is_done;
        let waited = py.detach(move || is_done.recv_timeout(BETWEEN_SIGNALS));
        if waited != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
        py.check_signals()?;
    }
}
