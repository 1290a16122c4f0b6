//! A lock that is wanted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dlock_bindings::lease::Unheard;
use dlock_bindings::wanted::Wanted;
use dlock_client::Error;
use futures_util::TryFutureExt;
use pyo3::prelude::*;

use crate::arguments::{Name, Permits, flag, maybe_span, span, text};
use crate::client::Client;
use crate::errors;
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
        py: Python<'_>,
        client: Py<Client>,
        key: Name,
        ttl: &Bound<'_, PyAny>,
        shared: &Bound<'_, PyAny>,
        limit: Option<Permits>,
        ephemeral: &Bound<'_, PyAny>,
        meta: &Bound<'_, PyAny>,
        max_hold: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Lock> {
        let wanted = Wanted {
            key: key.0,
            ttl: span("ttl", ttl)?,
            shared: flag("shared", shared)?,
            limit: limit.map(|limit| limit.0),
            ephemeral: flag("ephemeral", ephemeral)?,
            meta: text("meta", meta)?,
            max_hold: maybe_span("max_hold", max_hold)?,
        };
        let local = client.get().local(py)?;
        wanted.check(&local.connected.client).map_err(|error| errors::failed(py, &error))?;
        Ok(Lock { client, wanted })
    }

    /// Acquires it; `wait` is how long to wait, without limit by default.
    fn acquire(&self, py: Python<'_>, wait: Option<&Bound<'_, PyAny>>) -> PyResult<Guard> {
        let wait = maybe_span("wait", wait)?;
        let local = self.client.get().local(py)?;
        Ok(Guard::new(local.wait(py, self.acquiring(&local, wait))?, local))
    }

    /// As `acquire`, for a loop.
    fn acquire_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ticket> {
        let wait = maybe_span("wait", wait)?;
        let local = self.client.get().local(py)?;
        let held_by = Arc::clone(&local);
        let acquired = self.acquiring(&local, wait);
        post.run(&local, ticket, acquired.map_ok(|guard| Outcome::Acquired(guard, held_by)))
    }

    /// Acquires it for one lease, which nobody renews.
    fn lease(&self, py: Python<'_>, wait: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Lease>> {
        let wait = maybe_span("wait", wait)?;
        let local = self.client.get().local(py)?;
        local.wait(py, self.leasing(&local, wait)).map(Lease::hear)
    }

    /// As `lease`, for a loop.
    fn lease_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ticket> {
        let wait = maybe_span("wait", wait)?;
        let local = self.client.get().local(py)?;
        post.run(&local, ticket, self.leasing(&local, wait).map_ok(Outcome::Leased))
    }
}

impl Lock {
    fn acquiring(
        &self,
        local: &Local,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<dlock_client::Guard, Error>> + Send + use<> {
        local.until_the_end(self.wanted.acquire(&local.connected.client, wait))
    }

    fn leasing(
        &self,
        local: &Local,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Unheard, Error>> + Send + use<> {
        let acquired = self.wanted.acquire(&local.connected.client, wait);
        let connected = Arc::clone(&local.connected);
        local.until_the_end(async move { Ok(Unheard::settled(acquired.await?, connected).await) })
    }
}
