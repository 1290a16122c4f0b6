//! The operator's settings: `CONFIG SET dlock.*`.

use crate::durability::durable::Terms;
use crate::durability::quarantine::Policy;
use crate::limits;
use crate::words::Millis;

/// The limits of requests, and the policy of quarantine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest lease, in milliseconds.
    pub max_ttl: u64,
    /// The longest lease, in milliseconds, of which a replica that is promoted before its primary has told it
    /// anything assumes that it was granted.
    pub promotion_quarantine: u64,
    /// The longest lease, in milliseconds, of which a node that starts without a state file assumes that it has
    /// granted it before; 0: it has never run.
    pub newborn_quarantine: u64,
    /// A lease up to this length may keep all keys in quarantine, in milliseconds.
    pub usual_ttl: u64,
    /// The most blocked requests of one user on this node.
    pub max_waiters: u64,
    /// The most places of waiters that are away.
    pub max_places: u64,
    /// The most done locks of one user on this node.
    pub max_done: u64,
    /// The policy of quarantine.
    pub quarantine: Policy,
}

impl Settings {
    /// The settings that the promise depends on.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let untold = Millis(self.promotion_quarantine.min(self.max_ttl));
        let newborn = Millis(self.newborn_quarantine.min(self.max_ttl));
        Terms { usual_ttl: self.usual_ttl, untold, newborn, quarantine: self.quarantine }
    }

    /// Settings that refuse nothing that another node has granted.
    pub const REPLAY: Settings = Settings {
        max_ttl: limits::MAX_TTL_CEILING,
        promotion_quarantine: limits::DEFAULT_PROMOTION_QUARANTINE,
        newborn_quarantine: limits::DEFAULT_NEWBORN_QUARANTINE,
        usual_ttl: limits::MAX_TTL_CEILING,
        max_waiters: limits::MAX_WAITERS_CEILING,
        max_places: limits::MAX_PLACES_CEILING,
        max_done: limits::MAX_DONE_CEILING,
        quarantine: Policy::Auto,
    };
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_ttl: limits::DEFAULT_MAX_TTL,
            promotion_quarantine: limits::DEFAULT_PROMOTION_QUARANTINE,
            newborn_quarantine: limits::DEFAULT_NEWBORN_QUARANTINE,
            usual_ttl: limits::DEFAULT_USUAL_TTL,
            max_waiters: limits::DEFAULT_MAX_WAITERS,
            max_places: limits::DEFAULT_MAX_PLACES,
            max_done: limits::DEFAULT_MAX_DONE,
            quarantine: Policy::Auto,
        }
    }
}
