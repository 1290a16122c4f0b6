//! The operator's settings: `CONFIG SET dlock.*`.

use crate::durability::durable::Terms;
use crate::durability::quarantine::Policy;
use crate::limits;
use crate::words::Millis;

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
    /// The settings that the promise depends on.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let newborn = Millis(self.newborn_quarantine.min(self.max_ttl));
        Terms { max_ttl: Millis(self.max_ttl), newborn, quarantine: self.quarantine }
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
