//! The counters of this node since it started.

use dlock_core::node::observed::Lengths;
use dlock_core::{Effect, Ending};
use hdrhistogram::Histogram;

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
    pub waits: Times,
    /// All holds, except those that another command's removal ended.
    pub holds: Times,
}

/// Lengths of time: in buckets that can be added up, and finely for percentiles.
pub struct Times {
    pub lengths: Lengths,
    /// The histogram, in microseconds.
    fine: Option<Histogram<u32>>,
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
            Effect::Renewed { .. } => {}
            Effect::Extended { .. } => self.extensions += 1,
            Effect::Ended { why, held, .. } => {
                match why {
                    Ending::Released => self.releases += 1,
                    Ending::Expired => self.expiries += 1,
                    Ending::Broken => self.breaks += 1,
                    Ending::Disconnected => self.ephemeral_ends += 1,
                    Ending::Undelivered => {}
                }
                self.holds.record(*held);
            }
        }
    }
}

impl Default for Times {
    /// The histogram ranges from a microsecond to the longest lease, to two digits.
    fn default() -> Times {
        let fine = Histogram::new_with_bounds(1, 50 * 86_400 * 1_000_000, 2).ok();
        Times { lengths: Lengths::default(), fine }
    }
}

impl Times {
    fn record(&mut self, micros: u64) {
        self.lengths.record(micros);
        if let Some(fine) = &mut self.fine {
            fine.saturating_record(micros);
        }
    }

    /// The percentile in milliseconds, as text.
    pub fn percentile(&self, percentile: f64) -> String {
        let micros = self.fine.as_ref().map_or(0, |fine| fine.value_at_percentile(percentile));
        format!("{}.{:03}", micros / 1000, micros % 1000)
    }
}
