//! Work for Python: the runtime carries it out, and the caller waits for the outcome or finds it in a queue.

use std::future::Future;

use dlock_bindings::failure::Failure;
use dlock_client::Error;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tokio::task::JoinError;

use crate::local::Local;
use crate::outcome::Outcome;
use crate::outcome_queue::{ReplyTo, Task};
use crate::wait::wait;

/// Carries this work out, and waits for the outcome. If that is to go to a queue, this returns a [`Task`] at once.
pub(crate) fn carry_out<T: Into<Outcome> + Send>(
    py: Python<'_>,
    local: &Local,
    to: ReplyTo<'_>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let work = async { Failure::caught(work).await.map_or_else(Outcome::Failed, T::into) };
    let Some((queue, id)) = to else {
        let ended = |error: JoinError| Outcome::Failed(Failure::panic(&error.to_string()));
        return wait(py, &local.runtime, work)?.unwrap_or_else(ended).value(py);
    };
    let (outcomes, runtime) = (queue.get().outcomes()?, &local.runtime);
    let task = async move { outcomes.push(id, work.await) };
    let task = runtime.handle.spawn(task).abort_handle();
    Task::new(task, runtime.process).into_py_any(py)
}
