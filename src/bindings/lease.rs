//! Locks that nobody renews, and what can be done with a token alone.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, Key, Lease, Token};

use crate::connected::Connected;

/// A lease of which nobody knows yet. Dropping this releases it.
pub struct Unheard {
    lease: Option<Lease>,
    connected: Arc<Connected>,
}

impl Unheard {
    /// Makes a guard a lease.
    pub async fn of(guard: Guard, connected: Arc<Connected>) -> Unheard {
        // In a task of its own: who gives up in the middle of it must not leave a lock to nobody.
        let whole = tokio::spawn(async move {
            let lease = Some(guard.detach().await);
            Unheard { lease, connected }
        });
        match whole.await.map_err(|error| error.try_into_panic()) {
            Ok(unheard) => unheard,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime ends, and this with it.
            Err(Err(_)) => pending().await,
        }
    }

    /// Somebody hears of it.
    pub fn tell(mut self) -> Option<(Lease, Arc<Connected>)> {
        Some((self.lease.take()?, Arc::clone(&self.connected)))
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            release_soon(&self.connected, lease.key, lease.token);
        }
    }
}

/// Releases a lock by its token. Nobody waits for that.
pub fn release_soon(connected: &Connected, key: Key, token: Token) {
    let client = connected.client.clone();
    connected.runtime.spawn(async move { client.release(key, &token).await });
}

/// Extends a lock by its token. Tells for how long it is valid.
pub async fn extend(
    connected: Arc<Connected>,
    key: Key,
    token: String,
    fence: u64,
    ttl: Duration,
) -> Result<Duration, Error> {
    let lease = connected.client.extend(key, &read(&token)?, Some(fence), ttl).await?;
    Ok(lease.valid_for)
}

/// Releases a lock by its token. Tells whether the token held it.
pub async fn release(connected: Arc<Connected>, key: Key, token: String) -> Result<bool, Error> {
    connected.client.release(key, &read(&token)?).await
}

fn read(token: &str) -> Result<Token, Error> {
    token.parse::<Token>().map_err(|error| Error::Usage(error.to_string()))
}
