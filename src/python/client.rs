//! A client: its nodes, and this process's connections to them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlock_client::Address;
use pyo3::prelude::*;

use crate::arguments::{self, Name, fence, span};
use crate::errors;
use crate::local::{Local, is_late};
use crate::outcome_queue::ReplyTo;
use crate::own::Own;
use crate::work::carry_out;

/// A client of one or more nodes. It connects at its first use, and again in each child process.
///
/// Its methods wait for the outcome, or send it to a queue: see [`carry_out`].
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Client {
    nodes: Vec<String>,
    node_timeout: Option<Duration>,
    /// The id of its notices.
    notices: Option<u64>,
    /// Only threads attached to the interpreter lock it, and never while detached.
    local: Mutex<Own<Arc<Local>>>,
}

#[pymethods]
impl Client {
    /// Makes a client. `environment` is the value of `DLOCK_NODES`, used if no nodes are given.
    #[new]
    fn new(
        py: Python<'_>,
        nodes: Option<Vec<String>>,
        environment: Option<&str>,
        node_timeout: Option<&Bound<'_, PyAny>>,
        notices: Option<u64>,
    ) -> PyResult<Client> {
        let named = nodes.map_or_else(|| Address::of_environment(environment), Ok);
        let nodes = named.map_err(|error| errors::raised(py, error))?;
        let node_timeout = node_timeout.map(|given| span("node_timeout", given)).transpose()?;
        let local = Local::make(py, &nodes, node_timeout, notices)?;
        Ok(Client { nodes, node_timeout, notices, local: Mutex::new(Own::new(local)) })
    }

    /// The addresses, without secrets.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let local = self.local(py)?;
        Ok(local.client.nodes().map(|node| node.name().to_owned()).collect())
    }

    /// Extends a lock by its token and fence, from now on.
    fn extend(
        &self,
        py: Python<'_>,
        to: ReplyTo<'_>,
        key: Name,
        token: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        known: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (token, ttl, known) = (arguments::token(token)?, span("ttl", ttl)?, fence(known)?);
        let local = self.local(py)?;
        let client = local.client.clone();
        let extended = async move { client.extend(key.0, &token, known, ttl).await };
        carry_out(py, &local, to, extended)
    }

    /// Releases a lock by its token. Returns true if the token held it.
    fn release(
        &self,
        py: Python<'_>,
        to: ReplyTo<'_>,
        key: Name,
        token: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let token = arguments::token(token)?;
        let local = self.local(py)?;
        let released = local.client.release(key.0, &token);
        carry_out(py, &local, to, released)
    }

    /// Returns each node's report about a lock.
    fn inspect(&self, py: Python<'_>, to: ReplyTo<'_>, key: Name) -> PyResult<Py<PyAny>> {
        let local = self.local(py)?;
        let client = local.client.clone();
        let inspected = async move { client.inspect(key.0).await };
        carry_out(py, &local, to, inspected)
    }

    /// Waits until releases in the background are done, and closes the idle connections.
    fn close(&self, py: Python<'_>, to: ReplyTo<'_>) -> PyResult<Py<PyAny>> {
        let local = match self.present() {
            Some(local) => local,
            // A child process that has not used the client has no connection to close.
            None if to.is_none() => return Ok(py.None()),
            None => self.local(py)?,
        };
        let client = local.client.clone();
        let closed = async move {
            client.close().await;
            Ok(())
        };
        carry_out(py, &local, to, closed)
    }

    /// Panics, for tests.
    fn _panic(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let panics = async { panic!("a panic for a test") };
        carry_out::<()>(py, &*self.local(py)?, None, panics)
    }
}

impl Client {
    /// Returns the client's state in this process, and makes it if there is none.
    pub(crate) fn local(&self, py: Python<'_>) -> PyResult<Arc<Local>> {
        if let Some(local) = self.present() {
            return Ok(local);
        }
        // A child process starts its thread for notices and log lines.
        if !is_late() {
            py.import("dlock._hooks")?.call_method0("follow")?;
        }
        // Another thread may have made the state meanwhile.
        if let Some(local) = self.present() {
            return Ok(local);
        }
        let local = Local::make(py, &self.nodes, self.node_timeout, self.notices)?;
        let mut place = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Own::new(Arc::clone(&local));
        Ok(local)
    }

    fn present(&self) -> Option<Arc<Local>> {
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local.get().map(Arc::clone)
    }
}
