//! Locks that nobody renews, for `dlock.compat`.

use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_bindings::lease::{Settled, Unheard, release_soon};
use dlock_client::Key;
use pyo3::prelude::*;

use crate::own::Own;

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
    connected: Own<(Arc<Connected>, Settled)>,
}

#[pymethods]
impl Lease {
    /// Releases it without waiting for that: nobody wants it any more.
    fn drop(&self) {
        if let (Some((connected, settled)), Ok(token)) = (self.connected.get(), self.token.parse())
        {
            release_soon(connected, settled.clone(), self.key.clone(), token);
        }
    }
}

impl Lease {
    pub(crate) fn hear(unheard: Unheard) -> Option<Lease> {
        let (lease, connected, settled) = unheard.tell()?;
        let (token, valid_for) = (lease.token.to_string(), lease.valid_for.as_secs_f64());
        let connected = Own::new((connected, settled));
        Some(Lease { fence: lease.fence, token, valid_for, key: lease.key, connected })
    }
}
