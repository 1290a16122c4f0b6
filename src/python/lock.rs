//! A lock and its options.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dlock_bindings::wanted::Wanted;
use dlock_client::Error;
use futures_util::TryFutureExt;
use pyo3::prelude::*;

use crate::arguments::{Name, Permits, flag, maybe_span, span, text};
use crate::client::Client;
use crate::errors;
use crate::guard::Guard;
use crate::local::Local;
use crate::outcome::{Acquired, Outcome};
use crate::post::{Post, Ticket};
use crate::report;

/// A lock and its options. It can be acquired any number of times.
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
        renews: bool,
    ) -> PyResult<Lock> {
        let wanted = Wanted {
            key: key.0,
            ttl: span("ttl", ttl)?,
            shared: flag("shared", shared)?,
            limit: limit.map(|limit| limit.0),
            ephemeral: flag("ephemeral", ephemeral)?,
            meta: text("meta", meta)?,
            max_hold: maybe_span("max_hold", max_hold)?,
            renews,
        };
        let local = client.get().local(py)?;
        wanted.check(&local.connected.client).map_err(|error| errors::failed(py, &error))?;
        Ok(Lock { client, wanted })
    }

    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::key(py, &self.wanted.key)
    }

    /// Acquires the lock; `wait` limits the wait, which has no limit by default.
    fn acquire(
        &self,
        py: Python<'_>,
        post: Option<&Bound<'_, Post>>,
        ticket: u64,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let wait = maybe_span("wait", wait)?;
        let local = self.client.get().local(py)?;
        let acquired = self.acquiring(&local, wait).map_ok(Outcome::Acquired);
        local.carry_out(py, post, ticket, acquired)
    }
}

impl Lock {
    pub(crate) fn acquire_now(&self, py: Python<'_>, wait: Option<Duration>) -> PyResult<Guard> {
        let local = self.client.get().local(py)?;
        local.wait(py, self.acquiring(&local, wait)).map(Guard::new)
    }

    pub(crate) fn acquire_for(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<Duration>,
    ) -> PyResult<Ticket> {
        let local = self.client.get().local(py)?;
        post.run(&local, ticket, self.acquiring(&local, wait).map_ok(Outcome::Acquired))
    }

    fn acquiring(
        &self,
        local: &Arc<Local>,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Acquired, Error>> + Send + use<> {
        let acquired = self.wanted.acquire(&local.connected.client, wait);
        let (held_by, under_way) = (Arc::clone(local), local.under_way());
        local.until_the_end(async move {
            Ok(Acquired { guard: acquired.await?, local: held_by, under_way })
        })
    }
}
