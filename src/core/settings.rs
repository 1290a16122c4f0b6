//! What an operator can set: `CONFIG SET dlock.*`.

use crate::limits;
use crate::quarantine::Policy;

/// How far requests may go, and when nothing is granted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest lease, in milliseconds.
    pub max_ttl: u64,
    /// Up to here a lease may keep all keys in quarantine, in milliseconds.
    pub usual_ttl: u64,
    /// The most blocked requests on this node.
    pub max_waiters: u64,
    /// The most places that are kept for those who are away.
    pub max_places: u64,
    /// When to grant nothing.
    pub quarantine: Policy,
    /// Waits that take so many milliseconds or more are noted; 0: none.
    pub slow_wait: u64,
    /// Holds likewise.
    pub long_hold: u64,
}

impl Settings {
    /// What was granted elsewhere, by whatever settings, is not refused here.
    pub const REPLAY: Settings = Settings {
        max_ttl: limits::MAX_TTL_CEILING,
        usual_ttl: limits::MAX_TTL_CEILING,
        max_waiters: limits::MAX_WAITERS_CEILING,
        max_places: limits::MAX_PLACES_CEILING,
        quarantine: Policy::Auto,
        slow_wait: 0,
        long_hold: 0,
    };
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_ttl: limits::DEFAULT_MAX_TTL,
            usual_ttl: limits::DEFAULT_USUAL_TTL,
            max_waiters: limits::DEFAULT_MAX_WAITERS,
            max_places: limits::DEFAULT_MAX_PLACES,
            quarantine: Policy::Auto,
            slow_wait: 0,
            long_hold: 0,
        }
    }
}
