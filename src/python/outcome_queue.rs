//! Outcomes for an event loop, asyncio's for example. They stay here until the loop collects them; an eventfd,
//! which the loop watches like a socket, wakes it. No thread waits for the GIL meanwhile.

use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use tokio::task::AbortHandle;

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
        Ok(OutcomeQueue(Own::new(outcomes)))
    }

    /// The eventfd that wakes the loop.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.outcomes()?.wake_up.as_fd().as_raw_fd())
    }

    /// Wakes the loop without an outcome.
    fn wake(&self) -> PyResult<()> {
        self.outcomes()?.wake();
        Ok(())
    }

    /// Takes all outcomes: the id of each work, and its value, or its exception as a value.
    fn collect(&self, py: Python<'_>) -> PyResult<Vec<(u64, Py<PyAny>)>> {
        let outcomes = self.outcomes()?;
        match outcomes.wake_up.read() {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(error) => return Err(broken(error)),
        }
        let arrived = mem::take(&mut *outcomes.arrived());
        let value = |outcome: Outcome| {
            outcome.value(py).unwrap_or_else(|error| error.into_value(py).into_any())
        };
        Ok(arrived.into_iter().map(|(id, outcome)| (id, value(outcome))).collect())
    }
}

impl OutcomeQueue {
    pub(crate) fn outcomes(&self) -> PyResult<Arc<Outcomes>> {
        let inherited =
            || PyRuntimeError::new_err("a loop of the parent process does not run in this one");
        self.0.get().map(Arc::clone).ok_or_else(inherited)
    }
}

impl Outcomes {
    pub(crate) fn push(&self, id: u64, outcome: Outcome) {
        self.arrived().push((id, outcome));
        self.wake();
    }

    /// Queues an event. Events beyond the limit are lost.
    pub(crate) fn push_within(&self, limit: usize, id: u64, event: Outcome) {
        let mut arrived = self.arrived();
        if arrived.len() < limit {
            arrived.push((id, event));
            drop(arrived);
            self.wake();
        }
    }

    fn wake(&self) {
        // This fails only after 2^64 writes without a read.
        let _ = self.wake_up.write(1);
    }

    fn arrived(&self) -> MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    pub(crate) fn new(task: AbortHandle, process: u32) -> Task {
        Task(Own::of(task, process))
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

fn broken(error: Errno) -> PyErr {
    PyOSError::new_err(format!("the event loop's wake-up: {error}"))
}
