//! Outcomes for an event loop, asyncio's for example. They stay here until the loop collects them; an
//! eventfd, which the loop watches like a socket, wakes it. Nothing waits for the GIL meanwhile.

use std::future::Future;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_bindings::failure::Failure;
use dlock_client::{Error, Notice};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::exit;
use crate::local::Local;
use crate::outcome::Outcome;
use crate::own::Own;

/// The queue of outcomes for one event loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct OutcomeQueue(Own<Arc<Outcomes>>);

/// The destination of an outcome: a queue, and the id of the work there. With none the caller waits for it.
pub(crate) type ReplyTo<'py> = Option<(Bound<'py, OutcomeQueue>, u64)>;

pub(crate) struct Outcomes {
    wake_up: EventFd,
    arrived: Mutex<Vec<(u64, Outcome)>>,
}

/// Sends a client's notices to a queue. Dropping it sends the end of notices.
pub(crate) struct Notices {
    outcomes: Arc<Outcomes>,
    id: u64,
}

impl Notices {
    pub(crate) fn send(&self, notice: &Notice) {
        self.outcomes.push(self.id, Outcome::Notice(notice.clone()));
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.outcomes.push(self.id, Outcome::Done);
    }
}

/// Work under way for an event loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Task(Own<AbortHandle>);

#[pymethods]
impl OutcomeQueue {
    #[new]
    pub(crate) fn new() -> PyResult<OutcomeQueue> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake_up = EventFd::from_flags(flags).map_err(broken)?;
        let outcomes = Arc::new(Outcomes { wake_up, arrived: Mutex::default() });
        exit::remember_outcomes(&outcomes);
        Ok(OutcomeQueue(Own::new(outcomes)))
    }

    /// The eventfd that wakes the loop.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.outcomes()?.wake_up.as_fd().as_raw_fd())
    }
}

impl OutcomeQueue {
    /// Carries this work out in the runtime, and queues the outcome.
    pub(crate) fn run(
        &self,
        local: &Local,
        id: u64,
        work: impl Future<Output = Result<Outcome, Error>> + Send + 'static,
    ) -> PyResult<Task> {
        let process = local.runtime.process;
        let outcomes = self.0.get_in(process).map(Arc::clone).ok_or_else(inherited)?;
        let connected = Arc::clone(&local.connected);
        let task = async move {
            let outcome = connected.caught(work).await.unwrap_or_else(Outcome::Failed);
            outcomes.push(id, outcome);
        };
        Ok(Task(Own::of(local.runtime.handle.spawn(task).abort_handle(), process)))
    }

    /// Takes all outcomes.
    pub(crate) fn take(&self) -> PyResult<Vec<(u64, Outcome)>> {
        let outcomes = self.outcomes()?;
        match outcomes.wake_up.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(mem::take(&mut *outcomes.arrived())),
            Err(error) => Err(broken(error)),
        }
    }

    /// The sender of a client's notices, which arrive here with this id.
    pub(crate) fn notices(&self, id: u64) -> PyResult<Notices> {
        Ok(Notices { outcomes: self.outcomes()?, id })
    }

    fn outcomes(&self) -> PyResult<Arc<Outcomes>> {
        self.0.get().map(Arc::clone).ok_or_else(inherited)
    }
}

impl Outcomes {
    fn push(&self, id: u64, outcome: Outcome) {
        self.arrived().push((id, outcome));
        // This fails only after 2^64 writes without a read.
        let _ = self.wake_up.write(1);
    }

    /// Releases the locks that were not collected when the interpreter ends.
    pub(crate) fn release(&self) {
        for (_, outcome) in self.arrived().iter_mut() {
            if matches!(outcome, Outcome::Acquired(_)) {
                *outcome = Outcome::Failed(Failure::usage("the interpreter ends".to_owned()));
            }
        }
    }

    fn arrived(&self) -> MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Task {
    /// Cancels the work. A lock that it has acquired is released.
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
    PyOSError::new_err(format!("the event loop's wake-up: {error}"))
}
