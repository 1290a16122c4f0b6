//! What a process has of a client.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dlock_bindings::connected::Connected;
use dlock_client::{Client, Error};
use futures_util::future::{Either, select};
use pyo3::prelude::*;
use tokio::sync::Notify;

use crate::errors;
use crate::runtime::{self, Runtime};
use crate::wait::wait;

/// What this process has of a client. A child of it has one of its own.
pub(crate) struct Local {
    pub(crate) connected: Arc<Connected>,
    pub(crate) runtime: Arc<Runtime>,
    /// The end of the interpreter.
    end: Arc<Notify>,
}

impl Local {
    pub(crate) fn make(
        py: Python<'_>,
        nodes: &[String],
        node_timeout: Option<Duration>,
    ) -> PyResult<Arc<Local>> {
        let runtime = runtime::current(py)?;
        let mut builder = Client::builder().nodes(nodes);
        if let Some(timeout) = node_timeout {
            builder = builder.node_timeout(timeout);
        }
        let _inside = runtime.handle.enter();
        let client = builder.connect_later().map_err(|error| errors::failed(py, &error))?;
        let connected = Arc::new(Connected::new(client, runtime.handle.clone()));
        Ok(Arc::new(Local { connected, runtime, end: Arc::default() }))
    }

    /// Does this work in the runtime, and waits for what comes of it.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> PyResult<T> {
        let connected = Arc::clone(&self.connected);
        let caught = async move { connected.caught(work).await };
        match wait(py, &self.runtime, caught)? {
            Ok(Ok(done)) => done.map_err(|error| errors::failed(py, &error)),
            Ok(Err(words)) => Err(errors::defect(py, &words)),
            Err(ended) => Err(errors::defect(py, &ended.to_string())),
        }
    }

    /// The same work, until the interpreter ends: then it is given up, and nobody hears of it.
    pub(crate) fn until_the_end<T: Send, W: Future<Output = T> + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = T> + Send + use<T, W> {
        let end = Arc::clone(&self.end).notified_owned();
        async move {
            let done = {
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

    /// Gives up what would last only as long as the interpreter.
    pub(crate) fn end(&self) {
        self.end.notify_waiters();
    }

    /// Waits until releases in the background are done, and closes what is not in use.
    pub(crate) fn closing(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let client = self.connected.client.clone();
        async move {
            client.close().await;
            Ok(())
        }
    }
}
