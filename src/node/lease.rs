//! Locks that nobody renews, for `dlock/redlock`.

use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_bindings::lease::{self, Settled, Unheard};
use dlock_client::Key;
use napi_derive::napi;

use crate::arguments::{self, span};
use crate::outcome::Outcome;
use crate::post::Letters;

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
    settled: Settled,
    connected: Arc<Connected>,
    letters: Arc<Letters>,
}

#[napi]
impl Lease {
    /// Extends it. Tells for how long it is valid.
    #[napi(catch_unwind)]
    pub fn extend(&self, ticket: u32, ttl: f64) {
        let (connected, settled) = (Arc::clone(&self.connected), self.settled.clone());
        let (key, token, fence) = (self.key.clone(), self.token.clone(), self.fence as u64);
        self.letters.run(&self.connected, ticket, async move {
            settled.await;
            lease::extend(connected, key, token, fence, span(ttl)).await.map(Outcome::Length)
        });
    }

    /// Releases it. Tells whether the token held it.
    #[napi(catch_unwind)]
    pub fn release(&self, ticket: u32) {
        let (connected, settled) = (Arc::clone(&self.connected), self.settled.clone());
        let (key, token) = (self.key.clone(), self.token.clone());
        self.letters.carry_out(&self.connected, ticket, async move {
            settled.await;
            lease::release(connected, key, token).await.map(Outcome::Was)
        });
    }

    /// Releases it without waiting for that: nobody wants it any more.
    #[napi]
    pub fn drop(&self) {
        if let Ok(token) = self.token.parse() {
            lease::release_soon(&self.connected, self.settled.clone(), self.key.clone(), token);
        }
    }
}

impl Lease {
    pub(crate) fn hear(unheard: Unheard, letters: Arc<Letters>) -> Option<Lease> {
        let (lease, connected, settled) = unheard.tell()?;
        let (token, fence) = (lease.token.to_string(), arguments::fence(lease.fence));
        let (key, valid_for) = (lease.key, arguments::millis(lease.valid_for));
        Some(Lease { fence, token, valid_for, key, settled, connected, letters })
    }
}
