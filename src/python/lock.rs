//! A lock and its options.

use std::future::Future;
use std::sync::Arc;

use dlock_bindings::mode::mode;
use dlock_client::{Error, Key, LockOptions, Patience};
use futures_util::{FutureExt, TryFutureExt};
use pyo3::prelude::*;

use crate::arguments::{Name, Permits, flag, maybe_span, patience, span, text};
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
    key: Key,
    options: LockOptions,
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
        renew: &Bound<'_, PyAny>,
    ) -> PyResult<Lock> {
        let failed = |error| errors::failed(py, &error);
        let (ttl, shared) = (span("ttl", ttl)?, flag("shared", shared)?);
        let options = LockOptions {
            ttl,
            ephemeral: flag("ephemeral", ephemeral)?,
            meta: text("meta", meta)?,
            max_hold: maybe_span("max_hold", max_hold)?,
            mode: mode(shared, limit.map(|limit| limit.0)).map_err(failed)?,
            renew: flag("renew", renew)?,
            ..LockOptions::default()
        };
        let lock = Lock { client, key: key.0, options };
        let local = lock.client.get().local(py)?;
        lock.at(&local).check().map_err(failed)?;
        Ok(lock)
    }

    /// The lock, as text where it is UTF-8.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        report::key(py, &self.key)
    }

    /// Acquires the lock; `wait` limits the wait, which has no limit by default.
    fn acquire(
        &self,
        py: Python<'_>,
        post: Option<&Bound<'_, Post>>,
        ticket: u64,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let wait = patience(wait)?;
        let local = self.client.get().local(py)?;
        let acquired = self.acquiring(&local, wait).map_ok(Outcome::Acquired);
        local.carry_out(py, post, ticket, acquired)
    }
}

impl Lock {
    pub(crate) fn acquire_now(&self, py: Python<'_>, wait: Patience) -> PyResult<Guard> {
        let local = self.client.get().local(py)?;
        local.wait(py, self.acquiring(&local, wait)).map(Guard::new)
    }

    pub(crate) fn acquire_for(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Patience,
    ) -> PyResult<Ticket> {
        let local = self.client.get().local(py)?;
        post.run(&local, ticket, self.acquiring(&local, wait).map_ok(Outcome::Acquired))
    }

    /// The library's lock. The client is another one after a fork.
    fn at(&self, local: &Local) -> dlock_client::Lock {
        local.connected.client.lock(&self.key).options(self.options.clone())
    }

    fn acquiring(
        &self,
        local: &Arc<Local>,
        wait: Patience,
    ) -> impl Future<Output = Result<Acquired, Error>> + Send + use<> {
        // A box is small: the caller may have a small stack.
        let acquired = self.at(local).wait(wait).acquire().boxed();
        let (held_by, under_way) = (Arc::clone(local), local.under_way());
        local.until_the_end(async move {
            Ok(Acquired { guard: acquired.await?, local: held_by, under_way })
        })
    }
}
