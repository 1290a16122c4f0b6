//! Locks that nobody renews, for `dlock/redlock`.

use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_bindings::lease::{Unheard, release_soon};
use dlock_client::Key;
use napi_derive::napi;

use crate::arguments;

/// A lease that nobody renews. Who has its token extends and releases it.
#[napi]
pub struct Lease {
    /// Its fence.
    #[napi(readonly)]
    pub fence: f64,
    /// What to extend and to release it with.
    #[napi(readonly)]
    pub token: String,
    /// For how many milliseconds it was valid when it was granted.
    #[napi(readonly)]
    pub valid_for: f64,
    key: Key,
    connected: Arc<Connected>,
}

#[napi]
impl Lease {
    /// Releases it without waiting for that: nobody wants it any more.
    #[napi]
    pub fn drop(&self) {
        if let Ok(token) = self.token.parse() {
            release_soon(&self.connected, self.key.clone(), token);
        }
    }
}

impl Lease {
    pub(crate) fn hear(unheard: Unheard) -> Option<Lease> {
        let (lease, connected) = unheard.tell()?;
        let (token, fence) = (lease.token.to_string(), arguments::fence(lease.fence));
        let valid_for = arguments::millis(lease.valid_for);
        Some(Lease { fence, token, valid_for, key: lease.key, connected })
    }
}
