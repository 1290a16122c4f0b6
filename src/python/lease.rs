//! Locks that nobody renews, and what can be done with a token alone.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, Key, NodeState, Report, Token};
use pyo3::prelude::*;

use crate::client::Connected;
use crate::fork::Own;
use crate::outcome::{self, Outcome};

/// A lease that nobody renews. Who has its token extends and releases it.
#[pyclass(frozen, module = "dlock._native")]
pub(crate) struct Lease {
    #[pyo3(get)]
    fence: u64,
    #[pyo3(get)]
    token: String,
    /// For how many seconds it was valid when it was granted.
    #[pyo3(get)]
    valid_for: f64,
    key: Key,
    connected: Own<Arc<Connected>>,
}

#[pymethods]
impl Lease {
    /// Releases it without waiting for that: nobody wants it any more.
    fn drop(&self) {
        if let (Some(connected), Ok(token)) = (self.connected.get(), self.token.parse()) {
            release_soon(connected, self.key.clone(), token);
        }
    }
}

/// A lease of which nobody knows yet. Dropping this releases it.
pub(crate) struct Unheard {
    lease: Option<dlock_client::Lease>,
    connected: Arc<Connected>,
}

/// Makes a guard a lease.
pub(crate) async fn of(guard: Guard, connected: Arc<Connected>) -> Outcome {
    // In a task of its own: who gives up in the middle of it must not leave a lock to nobody.
    let whole = tokio::spawn(async move {
        let lease = Some(guard.detach().await);
        Unheard { lease, connected }
    });
    match whole.await {
        Ok(unheard) => Outcome::Leased(unheard),
        Err(error) => Outcome::Panicked(error.to_string()),
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            release_soon(&self.connected, lease.key, lease.token);
        }
    }
}

impl Unheard {
    /// Somebody hears of it.
    pub(crate) fn tell(mut self) -> Option<Lease> {
        let dlock_client::Lease { key, token, fence, valid_for } = self.lease.take()?;
        let (token, valid_for) = (token.to_string(), valid_for.as_secs_f64());
        let connected = Own::new(Arc::clone(&self.connected));
        Some(Lease { fence, token, valid_for, key, connected })
    }
}

fn release_soon(connected: &Connected, key: Key, token: Token) {
    let client = connected.client.clone();
    connected.runtime.handle.spawn(async move { client.release(key, &token).await });
}

pub(crate) fn extend(
    py: Python<'_>,
    connected: &Connected,
    key: Key,
    token: &str,
    fence: u64,
    ttl: Duration,
) -> PyResult<impl Future<Output = Outcome> + Send + use<>> {
    let (client, token) = (connected.client.clone(), read(py, token)?);
    Ok(async move {
        match client.extend(key, &token, Some(fence), ttl).await {
            Ok(lease) => Outcome::Seconds(lease.valid_for),
            Err(error) => Outcome::Failed(error),
        }
    })
}

pub(crate) fn release(
    py: Python<'_>,
    connected: &Connected,
    key: Key,
    token: &str,
) -> PyResult<impl Future<Output = Outcome> + Send + use<>> {
    let (client, token) = (connected.client.clone(), read(py, token)?);
    Ok(async move {
        match client.release(key, &token).await {
            Ok(was_held) => Outcome::Was(was_held),
            Err(error) => Outcome::Failed(error),
        }
    })
}

/// Whether anybody holds the lock at any node, and the fences of the holders.
pub(crate) fn holders(
    connected: &Connected,
    key: Key,
) -> impl Future<Output = Outcome> + Send + use<> {
    let client = connected.client.clone();
    async move {
        let (mut is_held, mut fences, mut nodes) = (false, Vec::new(), Vec::new());
        for (node, seen) in client.inspect(&key).await {
            let state = match seen {
                Ok(inspection) => {
                    let inspection = inspection.unwrap_or_default();
                    is_held |= inspection.is_held();
                    fences.extend(inspection.holders.iter().map(|holder| holder.fence));
                    NodeState::Answers
                }
                Err(error) => error.into(),
            };
            nodes.push(Report { node, state });
        }
        let answering = nodes.iter().filter(|report| report.state == NodeState::Answers).count();
        let needed = client.size() / 2 + 1;
        if answering < needed {
            return Outcome::Failed(Error::NoQuorum { key, needed, nodes });
        }
        Outcome::Holders(is_held, fences)
    }
}

fn read(py: Python<'_>, token: &str) -> PyResult<Token> {
    token.parse::<Token>().map_err(|error| outcome::failed(py, &Error::Usage(error.to_string())))
}
