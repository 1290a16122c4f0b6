//! What has happened on this node since it started.

use dlock_core::{Effect, Ending};
use hdrhistogram::Histogram;

/// Counters, and how long locks were waited for and held.
pub struct Stats {
    pub grants: u64,
    pub denials: u64,
    pub hand_overs: u64,
    pub releases: u64,
    pub expiries: u64,
    pub extensions: u64,
    pub breaks: u64,
    pub ephemeral_ends: u64,
    /// Microseconds, of those that were handed the lock.
    pub waits: Option<Histogram<u32>>,
    /// Microseconds, of all that ended but by removal from outside.
    pub holds: Option<Histogram<u32>>,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            grants: 0,
            denials: 0,
            hand_overs: 0,
            releases: 0,
            expiries: 0,
            extensions: 0,
            breaks: 0,
            ephemeral_ends: 0,
            waits: histogram(),
            holds: histogram(),
        }
    }
}

impl Stats {
    /// Counts what happened.
    pub fn count(&mut self, effect: &Effect<'_>) {
        match effect {
            Effect::Granted { waited, .. } => {
                self.grants += 1;
                if let Some(waited) = waited {
                    self.hand_overs += 1;
                    record(&mut self.waits, *waited);
                }
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
                record(&mut self.holds, *held);
            }
        }
    }
}

/// Milliseconds at a percentile, as a person reads them.
pub fn percentile(histogram: Option<&Histogram<u32>>, percentile: f64) -> String {
    let micros = histogram.map_or(0, |h| h.value_at_percentile(percentile));
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// From a microsecond to the longest lease, to two digits.
fn histogram() -> Option<Histogram<u32>> {
    Histogram::new_with_bounds(1, 50 * 86_400 * 1_000_000, 2).ok()
}

fn record(histogram: &mut Option<Histogram<u32>>, micros: u64) {
    if let Some(histogram) = histogram {
        histogram.saturating_record(micros);
    }
}
