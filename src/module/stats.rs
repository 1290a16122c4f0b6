//! The counters of this node since it started.

use dlock_core::node::observed::Lengths;
use dlock_core::{Effect, Ending};

/// Counters, and the lengths of waits and holds.
#[derive(Default)]
pub struct Stats {
    pub grants: u64,
    pub denials: u64,
    pub hand_overs: u64,
    pub releases: u64,
    pub dones: u64,
    pub expiries: u64,
    pub extensions: u64,
    pub breaks: u64,
    pub ephemeral_ends: u64,
    /// Waits that ended with the lock.
    pub waits: Lengths,
    /// All holds, except those that another command's removal ended.
    pub holds: Lengths,
}

impl Stats {
    /// Counts an effect.
    pub fn count(&mut self, effect: &Effect<'_>) {
        match effect {
            Effect::Granted { waited, .. } => {
                self.grants += 1;
                if let Some(waited) = waited {
                    self.hand_overs += 1;
                    self.waits.record(*waited);
                }
            }
            Effect::Done { held, .. } => {
                self.dones += 1;
                self.holds.record(*held);
            }
            Effect::AllExpired { holders } => self.expiries += *holders as u64,
            Effect::Renewed { .. } => self.extensions += 1,
            Effect::Ended { why, held, .. } => {
                match why {
                    Ending::Released => self.releases += 1,
                    Ending::Expired => self.expiries += 1,
                    Ending::Broken => self.breaks += 1,
                    Ending::Disconnected => self.ephemeral_ends += 1,
                }
                self.holds.record(*held);
            }
        }
    }
}
