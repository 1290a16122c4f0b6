//! Locks that are acquired and held.

use dlock_client::{Error, Guard, Lock};
use futures_util::FutureExt;

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
