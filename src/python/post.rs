//! Outcomes for a loop, asyncio's for example. They lie here until the loop collects them, and a bell,
//! which the loop waits for as it waits for a socket, tells it to: nobody waits for the GIL meanwhile.

use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::fork::Own;
use crate::outcome::Outcome;

/// The outcomes for one loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Post(Own<Arc<Letters>>);

pub(crate) struct Letters {
    bell: EventFd,
    arrived: Mutex<Vec<(u64, Outcome)>>,
}

/// Work that is under way for a loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Ticket(Own<AbortHandle>);

#[pymethods]
impl Post {
    #[new]
    fn new() -> PyResult<Post> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_flags(flags).map_err(broken)?;
        Ok(Post(Own::new(Arc::new(Letters { bell, arrived: Mutex::default() }))))
    }

    /// The bell.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.letters()?.bell.as_fd().as_raw_fd())
    }

    /// What has arrived: the number of each piece of work, and its value or exception.
    fn collect(&self, py: Python<'_>) -> PyResult<Vec<(u64, Py<PyAny>)>> {
        let letters = self.letters()?;
        match letters.bell.read() {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(error) => return Err(broken(error)),
        }
        let arrived = mem::take(&mut *letters.arrived());
        let value = |outcome: Outcome| match outcome.into_python(py) {
            Ok(value) => value,
            Err(error) => error.into_value(py).into_any(),
        };
        Ok(arrived.into_iter().map(|(ticket, outcome)| (ticket, value(outcome))).collect())
    }
}

impl Post {
    pub(crate) fn letters(&self) -> PyResult<Arc<Letters>> {
        self.0.get().map(Arc::clone).ok_or_else(|| {
            PyRuntimeError::new_err("a loop of the parent process does not run in this one")
        })
    }
}

impl Letters {
    pub(crate) fn post(&self, ticket: u64, outcome: Outcome) {
        self.arrived().push((ticket, outcome));
        // It fails only if it has been rung 2^64 times.
        let _ = self.bell.write(1);
    }

    fn arrived(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(crate) fn new(task: AbortHandle) -> Ticket {
        Ticket(Own::new(task))
    }
}

#[pymethods]
impl Ticket {
    /// Gives the work up. What it has acquired is released.
    fn cancel(&self) {
        if let Some(task) = self.0.get() {
            task.abort();
        }
    }
}

fn broken(error: Errno) -> PyErr {
    PyOSError::new_err(format!("the bell of a loop: {error}"))
}
