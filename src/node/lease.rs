//! Locks that nobody renews, and what can be done with a token alone.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, Key, Token};
use napi_derive::napi;

use crate::arguments;
use crate::client::Connected;
use crate::outcome::Outcome;

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
        let (token, valid_for) = (token.to_string(), arguments::millis(valid_for));
        let connected = Arc::clone(&self.connected);
        Some(Lease { fence: arguments::fence(fence), token, valid_for, key, connected })
    }
}

fn release_soon(connected: &Connected, key: Key, token: Token) {
    let client = connected.client.clone();
    connected.runtime.spawn(async move { client.release(key, &token).await });
}

pub(crate) async fn extend(
    connected: Arc<Connected>,
    key: Key,
    token: String,
    fence: f64,
    ttl: Duration,
) -> Outcome {
    let token = match read(&token) {
        Ok(token) => token,
        Err(error) => return Outcome::Failed(error),
    };
    match connected.client.extend(key, &token, Some(fence as u64), ttl).await {
        Ok(lease) => Outcome::Length(lease.valid_for),
        Err(error) => Outcome::Failed(error),
    }
}

pub(crate) async fn release(connected: Arc<Connected>, key: Key, token: String) -> Outcome {
    let token = match read(&token) {
        Ok(token) => token,
        Err(error) => return Outcome::Failed(error),
    };
    match connected.client.release(key, &token).await {
        Ok(was_held) => Outcome::Was(was_held),
        Err(error) => Outcome::Failed(error),
    }
}

fn read(token: &str) -> Result<Token, Error> {
    token.parse::<Token>().map_err(|error| Error::Usage(error.to_string()))
}
