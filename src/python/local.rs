//! A client's state in one process.

use std::future::{Future, pending};
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use dlock_client::Client;
use futures_util::future::{Either, select};
use pyo3::prelude::*;
use tokio::sync::Notify;

use crate::errors;
use crate::events::Notices;
use crate::runtime::{self, Runtime, is_main_thread};

/// A client's state in this process. A child process has one of its own.
pub(crate) struct Local {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
    /// Notified at the end of the interpreter.
    end: Arc<Notify>,
}

/// All clients. Only threads attached to the interpreter lock it.
static CLIENTS: Mutex<Vec<Weak<Local>>> = Mutex::new(Vec::new());

/// The process with an ending interpreter.
static ENDING: AtomicU32 = AtomicU32::new(0);

impl Local {
    /// Makes a client. Its notices get this id.
    pub(crate) fn make(
        py: Python<'_>,
        nodes: &[String],
        node_timeout: Option<Duration>,
        notices: Option<u64>,
    ) -> PyResult<Arc<Local>> {
        let runtime = runtime::current(py)?;
        let mut builder = Client::builder().nodes(nodes);
        if let Some(timeout) = node_timeout {
            builder = builder.node_timeout(timeout);
        }
        if let Some(notices) = notices.map(Notices) {
            builder = builder.notify(move |notice| notices.send(notice));
        }
        let _inside = runtime.handle.enter();
        let client = builder.connect_later().map_err(|error| errors::raised(py, error))?;
        let local = Arc::new(Local { client, runtime: Arc::clone(&runtime), end: Arc::default() });
        let mut clients = clients();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(&local));
        Ok(local)
    }

    /// Limits work to the interpreter's lifetime: at its end the work is dropped, without an outcome. Daemon
    /// threads still run after that, and their work never begins.
    pub(crate) fn until_the_end<T: Send, W: Future<Output = T> + Send + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = T> + Send + use<T, W> {
        let end = Arc::clone(&self.end).notified_owned();
        let is_late = is_late();
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
}

/// True in a daemon thread that runs while the interpreter ends.
pub(crate) fn is_late() -> bool {
    ENDING.load(Ordering::Relaxed) == process::id() && !is_main_thread()
}

/// Gives up the work of this process that must not outlive the interpreter. Returns the clients of this process.
pub(crate) fn end(_: Python<'_>) -> Vec<Arc<Local>> {
    ENDING.store(process::id(), Ordering::Relaxed);
    let mut ours: Vec<Arc<Local>> = clients().iter().filter_map(Weak::upgrade).collect();
    ours.retain(|client| client.runtime.process == process::id());
    ours.iter().for_each(|client| client.end.notify_waiters());
    ours
}

fn clients() -> MutexGuard<'static, Vec<Weak<Local>>> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}
