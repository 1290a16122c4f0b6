//! A client: its nodes, and the connections that this process has to them.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use pyo3::prelude::*;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::arguments::{Name, Span};
use crate::exit;
use crate::fork::Own;
use crate::lease;
use crate::lock::{Lock, Wanted};
use crate::outcome::{self, Outcome};
use crate::post::{Post, Ticket};
use crate::runtime::{self, Runtime, caught};
use crate::wait::wait;

/// A client of one or more nodes. It connects when it is first used, and once more in each child.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Client {
    nodes: Vec<String>,
    node_timeout: Option<Duration>,
    /// Locked only by who is attached to the interpreter, and never while detached.
    connected: Mutex<Own<Arc<Connected>>>,
}

/// What a process has of a client.
pub(crate) struct Connected {
    pub(crate) client: dlock_client::Client,
    pub(crate) runtime: Arc<Runtime>,
    /// Something in here has panicked, so nothing is certain any more.
    broken: AtomicBool,
    /// The end of the interpreter.
    end: Arc<Notify>,
}

#[pymethods]
impl Client {
    #[new]
    fn new(py: Python<'_>, nodes: Vec<String>, node_timeout: Option<Span>) -> PyResult<Client> {
        let node_timeout = node_timeout.map(|span| span.0);
        let connected = Own::new(Connected::make(py, &nodes, node_timeout)?);
        Ok(Client { nodes, node_timeout, connected: Mutex::new(connected) })
    }

    /// The addresses, without secrets.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let connected = self.connected(py)?;
        Ok(connected.client.nodes().map(|node| node.name().to_owned()).collect())
    }

    /// A lock that is wanted.
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn lock(
        slf: Bound<'_, Self>,
        key: Name,
        ttl: Span,
        shared: bool,
        limit: Option<u16>,
        ephemeral: bool,
        meta: String,
        max_hold: Option<Span>,
    ) -> Lock {
        let (ttl, max_hold) = (ttl.0, max_hold.map(|span| span.0));
        let wanted = Wanted { key: key.0, ttl, shared, limit, ephemeral, meta, max_hold };
        Lock { client: slf.unbind(), wanted }
    }

    /// Extends a lock by its token. Returns for how many seconds it is valid.
    fn extend(
        &self,
        py: Python<'_>,
        key: Name,
        token: &str,
        fence: u64,
        ttl: Span,
    ) -> PyResult<Py<PyAny>> {
        let connected = self.connected(py)?;
        let work = lease::extend(py, &connected, key.0, token, fence, ttl.0)?;
        connected.wait(py, work)
    }

    /// As `extend`, for a loop.
    #[expect(clippy::too_many_arguments, reason = "those of `extend`, and where to post")]
    fn extend_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        key: Name,
        token: &str,
        fence: u64,
        ttl: Span,
    ) -> PyResult<Ticket> {
        let connected = self.connected(py)?;
        let work = lease::extend(py, &connected, key.0, token, fence, ttl.0)?;
        connected.post(post, ticket, work).map(Ticket::new)
    }

    /// Releases a lock by its token. Returns whether the token held it.
    fn release(&self, py: Python<'_>, key: Name, token: &str) -> PyResult<Py<PyAny>> {
        let connected = self.connected(py)?;
        let work = lease::release(py, &connected, key.0, token)?;
        connected.wait(py, work)
    }

    /// As `release`, for a loop.
    fn release_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        key: Name,
        token: &str,
    ) -> PyResult<()> {
        let connected = self.connected(py)?;
        let work = lease::release(py, &connected, key.0, token)?;
        connected.post(post, ticket, work).map(drop)
    }

    /// Whether anybody holds a lock, and the fences of the holders.
    fn holders(&self, py: Python<'_>, key: Name) -> PyResult<Py<PyAny>> {
        let connected = self.connected(py)?;
        let work = lease::holders(&connected, key.0);
        connected.wait(py, work)
    }

    /// As `holders`, for a loop.
    fn holders_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        key: Name,
    ) -> PyResult<Ticket> {
        let connected = self.connected(py)?;
        connected.post(post, ticket, lease::holders(&connected, key.0)).map(Ticket::new)
    }

    /// Waits until releases in the background are done, and closes what is not in use.
    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.present() {
            Some(connected) => connected.clone().wait(py, connected.closing()),
            None => Ok(py.None()),
        }
    }

    /// As `close`, for a loop.
    fn close_later(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<()> {
        let connected = self.connected(py)?;
        drop(connected.post(post, ticket, connected.closing())?);
        Ok(())
    }

    /// For tests: what a panic in the library does.
    fn _panic(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.connected(py)?.wait(py, async { panic!("a panic for a test") })
    }
}

impl Client {
    /// What this process has of it.
    pub(crate) fn connected(&self, py: Python<'_>) -> PyResult<Arc<Connected>> {
        if let Some(connected) = self.present() {
            return Ok(connected);
        }
        let connected = Connected::make(py, &self.nodes, self.node_timeout)?;
        let mut place = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Own::new(Arc::clone(&connected));
        Ok(connected)
    }

    fn present(&self) -> Option<Arc<Connected>> {
        let connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        connected.get().map(Arc::clone)
    }
}

impl Connected {
    fn make(
        py: Python<'_>,
        nodes: &[String],
        node_timeout: Option<Duration>,
    ) -> PyResult<Arc<Connected>> {
        let runtime = runtime::current(py)?;
        let mut builder = dlock_client::Client::builder().nodes(nodes);
        if let Some(timeout) = node_timeout {
            builder = builder.node_timeout(timeout);
        }
        let _inside = runtime.handle.enter();
        let client = builder.connect_later().map_err(|error| outcome::failed(py, &error))?;
        let (broken, end) = (AtomicBool::new(false), Arc::default());
        let connected = Arc::new(Connected { client, runtime, broken, end });
        exit::remember_client(&connected);
        Ok(connected)
    }

    /// Whether something has panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Does this work in the runtime, and waits for its outcome.
    pub(crate) fn wait(
        self: Arc<Self>,
        py: Python<'_>,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let outcome = wait(py, &self.runtime, work)?;
        self.judge(outcome).into_python(py)
    }

    /// Does this work in the runtime, and posts its outcome.
    pub(crate) fn post(
        self: &Arc<Self>,
        post: &Post,
        ticket: u64,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) -> PyResult<AbortHandle> {
        let (letters, connected) = (post.letters()?, Arc::clone(self));
        let task = async move { letters.post(ticket, connected.judge(caught(work).await)) };
        Ok(self.runtime.handle.spawn(task).abort_handle())
    }

    /// After a panic nothing is certain.
    fn judge(&self, outcome: Result<Outcome, String>) -> Outcome {
        outcome.unwrap_or_else(|words| {
            self.broken.store(true, Ordering::Relaxed);
            Outcome::Panicked(words)
        })
    }

    /// The same work, until the interpreter ends: then it is given up, and nobody hears of it.
    pub(crate) fn until_the_end<T: Send>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
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

    pub(crate) fn closing(&self) -> impl Future<Output = Outcome> + Send + 'static {
        let client = self.client.clone();
        async move {
            client.close().await;
            Outcome::Done
        }
    }
}
