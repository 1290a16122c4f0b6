//! Grants to waiters whose clients have not been told yet.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::GrantId;
use crate::words::{Key, Millis, WaiterId};

/// The grants of which nobody can have heard. Each is one waiter's.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// The grants, and the time that the places would have been kept.
    by_waiter: BTreeMap<WaiterId, (Arc<GrantId>, Option<Millis>)>,
    /// The same by grant: a token can ask at any moment, and there may be very many.
    by_grant: BTreeMap<Arc<GrantId>, WaiterId>,
}

impl Untold {
    /// Adds the grant to a waiter that is to be told of it.
    pub fn add(&mut self, id: WaiterId, grant: GrantId, keep: Option<Millis>) {
        let grant = Arc::new(grant);
        if let Some(former) = self.by_grant.insert(grant.clone(), id) {
            self.by_waiter.remove(&former);
        }
        self.by_waiter.insert(id, (grant, keep));
    }

    /// Takes the grant to a waiter that is told now, or gone.
    pub fn take(&mut self, id: WaiterId) -> Option<(GrantId, Option<Millis>)> {
        let (grant, keep) = self.by_waiter.remove(&id)?;
        self.by_grant.remove(&grant);
        Some((Arc::unwrap_or_clone(grant), keep))
    }

    /// Forgets the grants of a token that has heard of its lock, or is granted the lock anew.
    pub fn forget(&mut self, key: Key<'_>, token: &[u8]) {
        if self.by_grant.is_empty() {
            return;
        }
        let of_token = GrantId::all_of(key, token);
        while let Some((grant, id)) = self.by_grant.range(of_token.clone()).next() {
            let (grant, id) = (grant.clone(), *id);
            self.by_grant.remove(&grant);
            self.by_waiter.remove(&id);
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_waiter.is_empty() && self.by_grant.is_empty()
    }
}
