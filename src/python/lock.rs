//! A lock that is wanted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, Key};
use pyo3::prelude::*;

use crate::arguments::Span;
use crate::client::{Client, Connected};
use crate::lease;
use crate::outcome::Outcome;
use crate::post::{Post, Ticket};

/// A lock that is wanted, with its options. It can be acquired any number of times.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Lock {
    pub(crate) client: Py<Client>,
    pub(crate) wanted: Wanted,
}

#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) ttl: Duration,
    pub(crate) shared: bool,
    pub(crate) limit: Option<u16>,
    pub(crate) ephemeral: bool,
    pub(crate) meta: String,
    pub(crate) max_hold: Option<Duration>,
}

#[pymethods]
impl Lock {
    /// Acquires it; `wait` is how long to wait, without limit by default.
    fn acquire(&self, py: Python<'_>, wait: Option<Span>) -> PyResult<Py<PyAny>> {
        let connected = self.client.get().connected(py)?;
        connected.clone().wait(py, self.acquiring(&connected, wait))
    }

    /// As `acquire`, for a loop.
    fn acquire_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<Span>,
    ) -> PyResult<Ticket> {
        let connected = self.client.get().connected(py)?;
        connected.post(post, ticket, self.acquiring(&connected, wait)).map(Ticket::new)
    }

    /// Acquires it for one lease, which nobody renews.
    fn lease(&self, py: Python<'_>, wait: Option<Span>) -> PyResult<Py<PyAny>> {
        let connected = self.client.get().connected(py)?;
        connected.clone().wait(py, self.leasing(&connected, wait))
    }

    /// As `lease`, for a loop.
    fn lease_later(
        &self,
        py: Python<'_>,
        post: &Post,
        ticket: u64,
        wait: Option<Span>,
    ) -> PyResult<Ticket> {
        let connected = self.client.get().connected(py)?;
        connected.post(post, ticket, self.leasing(&connected, wait)).map(Ticket::new)
    }
}

impl Lock {
    fn acquiring(
        &self,
        connected: &Arc<Connected>,
        wait: Option<Span>,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let acquired = self.wanted.acquire(connected, wait);
        let held_by = Arc::clone(connected);
        connected.until_the_end(async move {
            match acquired.await {
                Ok(guard) => Outcome::Acquired(guard, held_by),
                Err(error) => Outcome::Failed(error),
            }
        })
    }

    fn leasing(
        &self,
        connected: &Arc<Connected>,
        wait: Option<Span>,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let acquired = self.wanted.acquire(connected, wait);
        let leased_by = Arc::clone(connected);
        connected.until_the_end(async move {
            match acquired.await {
                Ok(guard) => lease::of(guard, leased_by).await,
                Err(error) => Outcome::Failed(error),
            }
        })
    }
}

impl Wanted {
    fn acquire(
        &self,
        connected: &Connected,
        wait: Option<Span>,
    ) -> impl Future<Output = Result<Guard, Error>> + Send + 'static {
        let lock = self.on(&connected.client);
        async move {
            match wait {
                None => lock.acquire().await,
                Some(Span(wait)) => lock.acquire_within(wait).await,
            }
        }
    }

    fn on(&self, client: &dlock_client::Client) -> dlock_client::Lock {
        let mut lock = client.lock(&self.key).ttl(self.ttl).meta(self.meta.as_str());
        if self.shared {
            lock = lock.shared();
        }
        if let Some(limit) = self.limit {
            lock = lock.limit(limit);
        }
        if self.ephemeral {
            lock = lock.ephemeral();
        }
        if let Some(max_hold) = self.max_hold {
            lock = lock.max_hold(max_hold);
        }
        lock
    }
}
