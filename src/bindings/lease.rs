//! Locks that nobody renews, and what can be done with a token alone.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, Key, Lease, Token};
use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::task::JoinError;

use crate::connected::Connected;

/// A lease of which nobody knows yet. Dropping this releases it.
pub struct Unheard {
    lease: Option<Lease>,
    connected: Arc<Connected>,
    settled: Settled,
}

/// Resolves when each node that answers certainly has the lease. What is asked for by its token before that
/// could be overtaken by what asked for the lease itself.
pub type Settled = Shared<BoxFuture<'static, ()>>;

impl Unheard {
    /// Makes a guard a lease. This is the runtime's.
    #[must_use]
    pub fn of(guard: Guard, connected: Arc<Connected>) -> Unheard {
        let (key, token, fence) = (guard.key().clone(), *guard.token(), guard.fence());
        let lease = Some(Lease { key, token, fence, valid_for: guard.valid_for() });
        // In a task of its own: who gives up in the middle of it must not leave a lock to nobody.
        let whole = tokio::spawn(guard.detach());
        let settled = async move {
            if let Err(Ok(panic)) = whole.await.map_err(JoinError::try_into_panic) {
                resume_unwind(panic);
            }
        };
        Unheard { lease, connected, settled: settled.boxed().shared() }
    }

    /// The same, once it is settled.
    pub async fn settled(guard: Guard, connected: Arc<Connected>) -> Unheard {
        let unheard = Unheard::of(guard, connected);
        unheard.settled.clone().await;
        unheard
    }

    /// Somebody hears of it.
    pub fn tell(mut self) -> Option<(Lease, Arc<Connected>, Settled)> {
        Some((self.lease.take()?, Arc::clone(&self.connected), self.settled.clone()))
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            release_soon(&self.connected, self.settled.clone(), lease.key, lease.token);
        }
    }
}

/// Releases a lock by its token, once it is settled. Nobody waits for that.
pub fn release_soon(connected: &Connected, settled: Settled, key: Key, token: Token) {
    let client = connected.client.clone();
    connected.runtime.spawn(async move {
        settled.await;
        client.release(key, &token).await
    });
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
