//! Outcomes for an event loop, asyncio's for example. They stay here until the loop collects them; an
//! eventfd, which the loop watches like a socket, wakes it. Nothing waits for the GIL meanwhile.

use std::future::Future;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

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

/// The outcomes for one event loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Post(Own<Arc<Letters>>);

pub(crate) struct Letters {
    bell: EventFd,
    arrived: Mutex<Vec<(u64, Outcome)>>,
}

/// Sends a client's events to a post. Dropping it sends the end of events.
pub(crate) struct Events {
    letters: Arc<Letters>,
    ticket: u64,
}

impl Events {
    pub(crate) fn tell(&self, notice: &Notice) {
        self.letters.post(self.ticket, Outcome::Noticed(notice.clone()));
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.letters.post(self.ticket, Outcome::Done);
    }
}

/// Work under way for an event loop.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Ticket(Own<AbortHandle>);

#[pymethods]
impl Post {
    #[new]
    pub(crate) fn new() -> PyResult<Post> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_flags(flags).map_err(broken)?;
        let letters = Arc::new(Letters { bell, arrived: Mutex::default() });
        exit::remember_letters(&letters);
        Ok(Post(Own::new(letters)))
    }

    /// The eventfd that wakes the loop.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.letters()?.bell.as_fd().as_raw_fd())
    }
}

impl Post {
    /// Carries this work out in the runtime, and posts the outcome.
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

    /// Takes all outcomes.
    pub(crate) fn take(&self) -> PyResult<Vec<(u64, Outcome)>> {
        let letters = self.letters()?;
        match letters.bell.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(mem::take(&mut *letters.arrived())),
            Err(error) => Err(broken(error)),
        }
    }

    /// Opens a place for a client's events, with this ticket.
    pub(crate) fn events(&self, ticket: u64) -> PyResult<Events> {
        Ok(Events { letters: self.letters()?, ticket })
    }

    fn letters(&self) -> PyResult<Arc<Letters>> {
        self.0.get().map(Arc::clone).ok_or_else(inherited)
    }
}

impl Letters {
    fn post(&self, ticket: u64, outcome: Outcome) {
        self.arrived().push((ticket, outcome));
        // This fails only after 2^64 writes without a read.
        let _ = self.bell.write(1);
    }

    /// Releases the locks that were not collected when the interpreter ends.
    pub(crate) fn release(&self) {
        let ended = || Outcome::Failed(Error::Usage("the interpreter ends".to_owned()));
        let is_lock = |outcome: &Outcome| matches!(outcome, Outcome::Acquired(_));
        for (_, outcome) in self.arrived().iter_mut().filter(|(_, outcome)| is_lock(outcome)) {
            *outcome = ended();
        }
    }

    fn arrived(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Ticket {
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
