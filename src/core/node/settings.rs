//! The operator's settings: `CONFIG SET dlock.*`.

use crate::durability::promise::Promise;
use crate::durability::quarantine::Policy;
use crate::limits::{self, MAX_LEAD};
use crate::words::{Fence, Millis};

/// The limits of requests, and the policy of quarantine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest new lease, in milliseconds.
    pub max_ttl: u64,
    /// The lease, in milliseconds, that a node without a state file assumes to have granted before; 0: the node
    /// is new.
    pub newborn_quarantine: u64,
    /// The policy of quarantine.
    pub quarantine: Policy,
}

impl Settings {
    /// The longest new lease.
    #[must_use]
    pub fn max_ttl(&self) -> Millis {
        Millis(self.max_ttl)
    }

    /// The longest lease that a node without a state file may have granted before.
    #[must_use]
    pub fn newborn(&self) -> Millis {
        Millis(self.newborn_quarantine.min(self.max_ttl))
    }

    /// The promise that a node without a state file may have lost with its disk. `None`: the node is new. No
    /// larger fence was handed out, because none is accepted.
    #[must_use]
    pub fn lost(&self, unix: u64) -> Option<Promise> {
        let bound = self.newborn();
        let fence = Fence(unix.saturating_add(MAX_LEAD));
        (bound.0 > 0).then(|| Promise { fence, bound, ..Promise::default() })
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_ttl: limits::DEFAULT_MAX_TTL,
            newborn_quarantine: limits::DEFAULT_NEWBORN_QUARANTINE,
            quarantine: Policy::Auto,
        }
    }
}
