//! A client: its nodes, and the connections that this process has to them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlock_bindings::lease;
use futures_util::TryFutureExt;
use pyo3::prelude::*;

use crate::arguments::{Name, maybe_span, span};
use crate::exit;
use crate::holders::holders;
use crate::local::Local;
use crate::outcome::Outcome;
use crate::own::Own;
use crate::post::{Post, Ticket};

/// A client of one or more nodes. It connects when it is first used, and once more in each child.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Client {
    nodes: Vec<String>,
    node_timeout: Option<Duration>,
    /// Locked only by who is attached to the interpreter, and never while detached.
    local: Mutex<Own<Arc<Local>>>,
}

#[pymethods]
impl Client {
    #[new]
    fn new(
        py: Python<'_>,
        nodes: Vec<String>,
        node_timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Client> {
        let node_timeout = maybe_span("node_timeout", node_timeout)?;
        let local = Local::make(py, &nodes, node_timeout)?;
        exit::remember_client(&local);
        Ok(Client { nodes, node_timeout, local: Mutex::new(Own::new(local)) })
    }

    /// The addresses, without secrets.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let local = self.local(py)?;
        Ok(local.connected.client.nodes().map(|node| node.name().to_owned()).collect())
    }

    /// Extends a lock by its token. Returns for how many seconds it is valid.
    fn extend(
        &self,
        py: Python<'_>,
        key: Name,
        token: String,
        fence: u64,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<f64> {
        let local = self.local(py)?;
        let connected = Arc::clone(&local.connected);
        let ttl = span("ttl", ttl)?;
        let extended = local.wait(py, lease::extend(connected, key.0, token, fence, ttl))?;
        Ok(extended.as_secs_f64())
    }

    /// As `extend`, for a loop.
    #[expect(clippy::too_many_arguments, reason = "those of `extend`, and where to post")]
    fn extend_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        key: Name,
        token: String,
        fence: u64,
        ttl: &Bound<'_, PyAny>,
    ) -> PyResult<Ticket> {
        let local = self.local(py)?;
        let connected = Arc::clone(&local.connected);
        let extended = lease::extend(connected, key.0, token, fence, span("ttl", ttl)?);
        post.run(&local, ticket, extended.map_ok(Outcome::Length))
    }

    /// Releases a lock by its token. Returns whether the token held it.
    fn release(&self, py: Python<'_>, key: Name, token: String) -> PyResult<bool> {
        let local = self.local(py)?;
        local.wait(py, lease::release(Arc::clone(&local.connected), key.0, token))
    }

    /// As `release`, for a loop.
    fn release_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        key: Name,
        token: String,
    ) -> PyResult<()> {
        let local = self.local(py)?;
        let released = lease::release(Arc::clone(&local.connected), key.0, token);
        post.run(&local, ticket, released.map_ok(Outcome::Was)).map(drop)
    }

    /// Whether anybody holds a lock, and the fences of the holders.
    fn holders(&self, py: Python<'_>, key: Name) -> PyResult<(bool, Vec<u64>)> {
        let local = self.local(py)?;
        local.wait(py, holders(&local.connected.client, key.0))
    }

    /// As `holders`, for a loop.
    fn holders_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        key: Name,
    ) -> PyResult<Ticket> {
        let local = self.local(py)?;
        let seen = holders(&local.connected.client, key.0);
        post.run(&local, ticket, seen.map_ok(Outcome::Holders))
    }

    /// Waits until releases in the background are done, and closes what is not in use.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.present().map_or(Ok(()), |local| local.wait(py, local.closing()))
    }

    /// As `close`, for a loop.
    fn close_later(&self, py: Python<'_>, post: &Post, ticket: u64) -> PyResult<()> {
        let local = self.local(py)?;
        post.run(&local, ticket, local.closing().map_ok(|()| Outcome::Done)).map(drop)
    }

    /// For tests: what a panic in the library does.
    fn _panic(&self, py: Python<'_>) -> PyResult<()> {
        self.local(py)?.wait(py, async { panic!("a panic for a test") })
    }
}

impl Client {
    /// What this process has of it.
    pub(crate) fn local(&self, py: Python<'_>) -> PyResult<Arc<Local>> {
        if let Some(local) = self.present() {
            return Ok(local);
        }
        let local = Local::make(py, &self.nodes, self.node_timeout)?;
        exit::remember_client(&local);
        let mut place = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Own::new(Arc::clone(&local));
        Ok(local)
    }

    fn present(&self) -> Option<Arc<Local>> {
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local.get().map(Arc::clone)
    }
}
