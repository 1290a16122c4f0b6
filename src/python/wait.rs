//! A Python thread that waits for an outcome, without the GIL.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tokio::task::JoinError;
use tokio::time::timeout;

use crate::runtime::{Runtime, is_main_thread};

/// Carries this work out, and waits for the outcome. A signal handler that raises, as for Ctrl-C, ends the work
/// and the wait. An outcome that is not received is dropped, which releases a lock in it.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<Result<T, JoinError>> {
    // Work that this thread drives makes its tokens here.
    reseed(runtime.process)?;
    let mut task = runtime.handle.spawn(work);
    let is_main = is_main_thread();
    loop {
        let done = py.detach(|| {
            let task = &mut task;
            runtime.drive(async move {
                if is_main { timeout(BETWEEN_SIGNALS, task).await.ok() } else { Some(task.await) }
            })
        });
        if let Some(done) = done {
            return Ok(done);
        }
        if let Err(raised) = py.check_signals() {
            task.abort();
            return Err(raised);
        }
    }
}

/// A thread that forks goes on in the child, with its random number generator: parent and child would make
/// the same tokens. So the generator gets a new seed in a new process.
fn reseed(process: u32) -> PyResult<()> {
    thread_local! {
        static SEEDED: Cell<u32> = const { Cell::new(0) };
    }
    if SEEDED.get() != process {
        let none = |error| PyOSError::new_err(format!("no random numbers: {error}"));
        rand::rng().reseed().map_err(none)?;
        SEEDED.set(process);
    }
    Ok(())
}

/// Interval of checks for signals: Python runs their handlers in its main thread, when it checks for them.
pub(crate) const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);
