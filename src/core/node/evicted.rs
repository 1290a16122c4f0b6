//! Evicted locks: lost to their holders; their keys stay shut until the leases would have ended.
//!
//! The holder may not have noticed the loss, so no other client may get the lock before that. The node keeps
//! the ends of these leases in a table, by a hash of the key's name. So there is always room, and users need no
//! shares: a key in an occupied slot waits for the end that is there, one lease at most. The hash depends on a
//! secret of the node, so clients cannot find names for the slot of another client's key.
//!
//! The database is ignored: SWAPDB and MOVE change nothing.

use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use super::Node;
use crate::limits::EVICTED_ENDS;
use crate::words::{Deadline, Fence, Instant, Key, Millis};

/// The ends of evicted leases.
#[derive(Debug, Default)]
pub struct Evicted {
    secret: u128,
    /// One end a slot, the latest. Empty before the first eviction.
    ends: Vec<Deadline>,
    /// The latest end of all. Most nodes evict no lock, and then need no hashes.
    last: Option<Deadline>,
}

impl Node {
    /// Sets the secret for the hashes of names, before the first eviction.
    pub fn hash_by(&mut self, secret: u128) {
        self.evicted.secret = secret;
    }

    /// Notes that the server has evicted a lock. `end`: the end of its last lease; `top`: its largest fence.
    /// Waiters continue to wait.
    pub fn evict(&mut self, key: Key<'_>, end: Deadline, top: Fence) {
        self.pass_on(key, top);
        self.evicted.keep(key.name, end);
        self.waiting.serve_later(key);
    }

    /// The end of the evicted lease that keeps the key shut.
    #[must_use]
    pub fn shut_until(&self, key: Key<'_>, now: Instant) -> Option<Deadline> {
        self.evicted.end(key.name, now)
    }

    /// The latest end of an evicted lease.
    pub(super) fn last_evicted(&self) -> Option<Deadline> {
        self.evicted.last
    }

    /// The longest time left of an evicted lease.
    #[must_use]
    pub fn evicted_left(&self, now: Instant) -> Millis {
        self.evicted.last.map_or(Millis(0), |end| end.left(now))
    }

    pub(super) fn forget_evicted(&mut self) {
        (self.evicted.ends, self.evicted.last) = (Vec::new(), None);
    }
}

impl Evicted {
    fn keep(&mut self, name: &[u8], end: Deadline) {
        let slot = self.slot(name);
        self.ends.resize(EVICTED_ENDS, Deadline(0));
        if let Some(there) = self.ends.get_mut(slot) {
            *there = end.max(*there);
        }
        self.last = self.last.max(Some(end));
    }

    fn end(&self, name: &[u8], now: Instant) -> Option<Deadline> {
        if self.last.is_none_or(|last| last.is_over(now)) {
            return None;
        }
        self.ends.get(self.slot(name)).copied().filter(|end| !end.is_over(now))
    }

    fn slot(&self, name: &[u8]) -> usize {
        let hash =
            Sha256::new().chain_update(self.secret.to_le_bytes()).chain_update(name).finalize();
        let number = hash.iter().take(4).fold(0, |number, byte| number << 8 | usize::from(*byte));
        number % EVICTED_ENDS
    }
}
