//! The state of a held lock.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, Guard, Key, Lock};
use futures_util::FutureExt;

use crate::connected::Connected;
use crate::failure::Failure;

/// Acquires a lock if it is free; the nodes are not asked for its holder.
///
/// # Errors
/// Fails as [`Lock::try_acquire`], but not because another client holds the lock.
pub async fn try_acquire(lock: Lock) -> Result<Option<Guard>, Error> {
    // Boxed, because the caller may have a small stack.
    match lock.without_holder().try_acquire().boxed().await {
        Ok(guard) => Ok(Some(guard)),
        Err(Error::Held { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ends a lock without an owner: releases it, or leaves a lease without renewal to its end.
pub fn end(guard: Guard) {
    if !guard.is_renewed() {
        drop(guard.detach());
    }
}

/// The loss of this lock; `None` while it is held.
pub fn loss(guard: &Guard, connected: &Connected) -> Option<Failure> {
    if connected.is_broken() {
        return Some(panicked(guard.key(), guard.fence()));
    }
    guard.check().err().map(Failure::from)
}

/// Resolves with the loss of this lock.
pub fn lost(
    guard: &Guard,
    connected: &Arc<Connected>,
) -> impl Future<Output = Failure> + Send + use<> {
    let (lost, connected) = (guard.lost(), Arc::clone(connected));
    let (key, fence) = (guard.key().clone(), guard.fence());
    async move {
        tokio::select! {
            loss = lost => loss.into(),
            () = connected.breaks() => panicked(&key, fence),
        }
    }
}

/// Time until the validity ends if no renewal succeeds.
pub fn valid_for(guard: &Guard, connected: &Connected) -> Duration {
    if connected.is_broken() { Duration::ZERO } else { guard.valid_for() }
}

fn panicked(key: &Key, fence: u64) -> Failure {
    Failure::lost(key, fence, "panicked", "counts as lost: its client has panicked")
}
