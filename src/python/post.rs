//! Outcomes for a loop, asyncio's for example. They lie here until the loop collects them, and a bell,
//! which the loop waits for as it waits for a socket, tells it to: nobody waits for the GIL meanwhile.

use std::future::Future;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use dlock_client::Error;
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::local::Local;
use crate::outcome::Outcome;
use crate::own::Own;

/// The outcomes for one loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Post(Own<Arc<Letters>>);

struct Letters {
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
}

impl Post {
    /// Does this work in the runtime, and posts what comes of it.
    pub(crate) fn run(
        &self,
        local: &Local,
        ticket: u64,
        work: impl Future<Output = Result<Outcome, Error>> + Send + 'static,
    ) -> PyResult<Ticket> {
        let process = local.runtime.process;
        let letters = self.0.get_in(process).map(Arc::clone).ok_or_else(inherited)?;
        let connected = Arc::clone(&local.connected);
        let task = async move {
            let outcome = match connected.caught(work).await {
                Ok(done) => done.unwrap_or_else(Outcome::Failed),
                Err(words) => Outcome::Panicked(words),
            };
            letters.post(ticket, outcome);
        };
        Ok(Ticket(Own::of(local.runtime.handle.spawn(task).abort_handle(), process)))
    }

    /// Takes what has arrived.
    pub(crate) fn take(&self) -> PyResult<Vec<(u64, Outcome)>> {
        let letters = self.letters()?;
        match letters.bell.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(mem::take(&mut *letters.arrived())),
            Err(error) => Err(broken(error)),
        }
    }

    fn letters(&self) -> PyResult<Arc<Letters>> {
        self.0.get().map(Arc::clone).ok_or_else(inherited)
    }
}

impl Letters {
    fn post(&self, ticket: u64, outcome: Outcome) {
        self.arrived().push((ticket, outcome));
        // It fails only if it has been rung 2^64 times.
        let _ = self.bell.write(1);
    }

    fn arrived(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
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

fn inherited() -> PyErr {
    PyRuntimeError::new_err("a loop of the parent process does not run in this one")
}

fn broken(error: Errno) -> PyErr {
    PyOSError::new_err(format!("the bell of a loop: {error}"))
}
