//! Locks that are handed on to the owner of their token.

use std::panic::resume_unwind;
use std::sync::Arc;

use dlock_client::{Error, Guard, Lease, Loss};
use tokio::task::JoinHandle;

use crate::connected::Connected;

/// A lease that the caller has not received yet. Dropping this releases it.
pub struct PendingLease {
    lease: Option<Lease>,
    connected: Arc<Connected>,
}

impl PendingLease {
    /// Detaches a guard, and waits until each node that answers has confirmed the lock. The runtime carries
    /// this out, so a caller that gives up half-way leaves no lock without an owner. Fails if the lock is lost.
    pub async fn detach(guard: Guard, connected: Arc<Connected>) -> Result<PendingLease, Error> {
        let detaching = Detaching(Some(tokio::spawn(guard.detach())), Arc::clone(&connected));
        Ok(PendingLease { lease: detaching.lease().await?, connected })
    }

    /// Hands the lease to the caller.
    pub fn take(mut self) -> Option<Lease> {
        self.lease.take()
    }
}

impl Drop for PendingLease {
    fn drop(&mut self) {
        if let Some(Lease { key, token, .. }) = self.lease.take() {
            // The release goes on in the background.
            drop(self.connected.client.release(key, &token));
        }
    }
}

/// A guard that is being detached. A release must not overtake requests for the lock, so it waits for them.
struct Detaching(Option<JoinHandle<Result<Lease, Loss>>>, Arc<Connected>);

impl Detaching {
    async fn lease(mut self) -> Result<Option<Lease>, Loss> {
        let Some(task) = self.0.as_mut() else { return Ok(None) };
        let lease = task.await;
        self.0 = None;
        match lease.map_err(|error| error.try_into_panic()) {
            Ok(lease) => lease.map(Some),
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_)) => Ok(None),
        }
    }
}

impl Drop for Detaching {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            let client = self.1.client.clone();
            self.1.runtime.spawn(async move {
                if let Ok(Ok(lease)) = task.await {
                    let _ = client.release(lease.key, &lease.token).await;
                }
            });
        }
    }
}
