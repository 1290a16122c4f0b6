//! A client's state in one process.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dlock_bindings::connected::Connected;
use dlock_bindings::failure::Failure;
use dlock_client::{Client, Error};
use futures_util::future::{Either, select};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tokio::sync::{Notify, watch};

use crate::errors;
use crate::exit;
use crate::outcome::Outcome;
use crate::outcome_queue::{OutcomeQueue, ReplyTo};
use crate::runtime::{self, Runtime};
use crate::value::value;
use crate::wait::{is_main_thread, wait};

/// A client's state in this process. A child process has one of its own.
pub(crate) struct Local {
    pub(crate) connected: Arc<Connected>,
    pub(crate) runtime: Arc<Runtime>,
    /// Notified at the end of the interpreter.
    end: Arc<Notify>,
    acquisitions: Arc<watch::Sender<usize>>,
}

/// Counts as an acquisition until it has failed, or the end of the interpreter can find its lock.
pub(crate) struct UnderWay(Arc<watch::Sender<usize>>);

impl Local {
    pub(crate) fn make(
        py: Python<'_>,
        nodes: &[String],
        node_timeout: Option<Duration>,
        notify: Option<&Py<PyAny>>,
    ) -> PyResult<Arc<Local>> {
        let runtime = runtime::current(py)?;
        let mut builder = Client::builder().nodes(nodes);
        if let Some(timeout) = node_timeout {
            builder = builder.node_timeout(timeout);
        }
        if let Some(notify) = notify {
            let (queue, id): (Py<OutcomeQueue>, u64) = notify.call0(py)?.extract(py)?;
            let notices = queue.get().notices(id)?;
            builder = builder.notify(move |notice| notices.send(notice));
        }
        let _inside = runtime.handle.enter();
        let client = builder.connect_later().map_err(|error| errors::raised(py, error))?;
        let connected = Arc::new(Connected::new(client, runtime.handle.clone()));
        let acquisitions = Arc::new(watch::Sender::new(0));
        Ok(Arc::new(Local { connected, runtime, end: Arc::default(), acquisitions }))
    }

    /// Carries this work out in the runtime, and waits for the outcome.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> PyResult<T> {
        let connected = Arc::clone(&self.connected);
        let caught = async move { connected.caught(work).await };
        match wait(py, &self.runtime, caught)? {
            Ok(done) => done.map_err(|failure| errors::raised(py, failure)),
            Err(ended) => Err(errors::raised(py, Failure::panic(&ended.to_string()))),
        }
    }

    /// Carries this work out in the runtime, and waits for the outcome. If that is to go to a queue, this returns
    /// a [`Task`](crate::outcome_queue::Task) at once.
    pub(crate) fn carry_out(
        &self,
        py: Python<'_>,
        to: ReplyTo<'_>,
        work: impl Future<Output = Result<Outcome, Error>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        match to {
            Some((queue, id)) => queue.get().run(self, id, work)?.into_py_any(py),
            None => value(py, self.wait(py, work)?),
        }
    }

    /// Limits work to the interpreter's life: at its end the work is dropped, without an outcome. Daemon
    /// threads still run after that, and their work never begins.
    pub(crate) fn until_the_end<T: Send, W: Future<Output = T> + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = T> + Send + use<T, W> {
        let end = Arc::clone(&self.end).notified_owned();
        let is_late = exit::has_ended() && !is_main_thread();
        async move {
            let done = if is_late {
                drop(work);
                None
            } else {
                let (work, end) = (pin!(work), pin!(end));
                match select(work, end).await {
                    Either::Left((done, _)) => Some(done),
                    Either::Right(_) => None,
                }
            };
            match done {
                Some(done) => done,
                None => pending().await,
            }
        }
    }

    /// Counts a new acquisition.
    pub(crate) fn under_way(&self) -> UnderWay {
        self.acquisitions.send_modify(|count| *count += 1);
        UnderWay(Arc::clone(&self.acquisitions))
    }

    /// Resolves when no acquisition is under way.
    pub(crate) fn rests(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut acquisitions = self.acquisitions.subscribe();
        async move { drop(acquisitions.wait_for(|count| *count == 0).await) }
    }

    /// Gives up work that must not outlive the interpreter.
    pub(crate) fn end(&self) {
        self.end.notify_waiters();
    }

    /// Waits until releases in the background are done, and closes the idle connections.
    pub(crate) fn closing(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let client = self.connected.client.clone();
        async move {
            client.close().await;
            Ok(())
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
