//! A lock that is wanted.

use std::future::Future;
use std::sync::Arc;

use dlock_bindings::lease::Unheard;
use dlock_bindings::wanted::Wanted;
use dlock_client::Error;
use futures_util::TryFutureExt;
use pyo3::prelude::*;

use crate::arguments::{Name, Permits, Span};
use crate::client::Client;
use crate::guard::Guard;
use crate::lease::Lease;
use crate::local::Local;
use crate::outcome::Outcome;
use crate::post::{Post, Ticket};

/// A lock that is wanted, with its options. It can be acquired any number of times.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Lock {
    client: Py<Client>,
    wanted: Wanted,
}

#[pymethods]
impl Lock {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn new(
        client: Py<Client>,
        key: Name,
        ttl: Span,
        shared: bool,
        limit: Option<Permits>,
        ephemeral: bool,
        meta: String,
        max_hold: Option<Span>,
    ) -> Lock {
        let (ttl, max_hold) = (ttl.0, max_hold.map(|span| span.0));
        let limit = limit.map(|limit| limit.0);
        let wanted = Wanted { key: key.0, ttl, shared, limit, ephemeral, meta, max_hold };
        Lock { client, wanted }
    }

    /// Acquires it; `wait` is how long to wait, without limit by default.
    fn acquire(&self, py: Python<'_>, wait: Option<Span>) -> PyResult<Guard> {
        let local = self.client.get().local(py)?;
        Ok(Guard::new(local.wait(py, self.acquiring(&local, wait))?, local))
    }

    /// As `acquire`, for a loop.
    fn acquire_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<Span>,
    ) -> PyResult<Ticket> {
        let local = self.client.get().local(py)?;
        let held_by = Arc::clone(&local);
        let acquired = self.acquiring(&local, wait);
        post.run(&local, ticket, acquired.map_ok(|guard| Outcome::Acquired(guard, held_by)))
    }

    /// Acquires it for one lease, which nobody renews.
    fn lease(&self, py: Python<'_>, wait: Option<Span>) -> PyResult<Option<Lease>> {
        let local = self.client.get().local(py)?;
        local.wait(py, self.leasing(&local, wait)).map(Lease::hear)
    }

    /// As `lease`, for a loop.
    fn lease_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<Span>,
    ) -> PyResult<Ticket> {
        let local = self.client.get().local(py)?;
        post.run(&local, ticket, self.leasing(&local, wait).map_ok(Outcome::Leased))
    }
}

impl Lock {
    fn acquiring(
        &self,
        local: &Local,
        wait: Option<Span>,
    ) -> impl Future<Output = Result<dlock_client::Guard, Error>> + Send + use<> {
        let wait = wait.map(|span| span.0);
        local.until_the_end(self.wanted.acquire(&local.connected.client, wait))
    }

    fn leasing(
        &self,
        local: &Local,
        wait: Option<Span>,
    ) -> impl Future<Output = Result<Unheard, Error>> + Send + use<> {
        let acquired = self.wanted.acquire(&local.connected.client, wait.map(|span| span.0));
        let connected = Arc::clone(&local.connected);
        local.until_the_end(async move { Ok(Unheard::of(acquired.await?, connected).await) })
    }
}
