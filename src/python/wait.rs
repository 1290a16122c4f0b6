//! A thread of Python that waits for an outcome, without the GIL.

use std::future::Future;
use std::time::Duration;

use nix::unistd::{getpid, gettid};
use pyo3::prelude::*;
use tokio::time::timeout;

use crate::fork;
use crate::runtime::{Runtime, caught};

/// Does this work, and waits for its outcome, or for the words of a panic. A signal whose handler raises, as
/// that of Ctrl-C does, ends the work and the wait. An outcome that nobody takes is dropped; a guard in it is
/// released by that.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<Result<T, String>> {
    // What is driven here makes tokens here.
    fork::reseed()?;
    let mut task = runtime.handle.spawn(caught(work));
    let is_main = getpid() == gettid();
    loop {
        let done = py.detach(|| {
            let task = &mut task;
            runtime.drive(async move {
                if is_main { timeout(BETWEEN_SIGNALS, task).await.ok() } else { Some(task.await) }
            })
        });
        if let Some(done) = done {
            return Ok(done.unwrap_or_else(|ended| Err(ended.to_string())));
        }
        if let Err(raised) = py.check_signals() {
            task.abort();
            return Err(raised);
        }
    }
}

/// Handlers of signals run in the main thread of Python, as soon as that looks for them.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);
