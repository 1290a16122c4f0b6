//! Lengths of time in buckets.
//!
//! Percentiles of several nodes, or of a part of a node's uptime, cannot be computed from the percentiles of
//! each. Counts in buckets can be added and subtracted.

use alloc::string::String;
use core::fmt::Write as _;

/// The upper bounds of the buckets in microseconds: from a tenth of a millisecond to a day.
pub const BOUNDS: [u64; 22] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    3_600_000_000,
    86_400_000_000,
];

/// The number of lengths, in each bucket and in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    buckets: [u64; BOUNDS.len()],
    /// The number of all lengths, those beyond the last bucket included.
    count: u64,
    sum: u64,
}

impl Lengths {
    /// Adds a length, in microseconds.
    pub fn record(&mut self, micros: u64) {
        let at = BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(micros);
    }

    /// Each bucket's bound, and the number of lengths up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.buckets.iter();
        let sums = buckets.scan(0, |sum, bucket| {
            *sum += bucket;
            Some(*sum)
        });
        BOUNDS.into_iter().zip(sums)
    }

    /// The number of lengths.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all lengths, in microseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The lengths since an earlier snapshot. If there are fewer than in it, all are new.
    #[must_use]
    pub fn since(&self, earlier: &Lengths) -> Lengths {
        if self.count < earlier.count {
            return self.clone();
        }
        let mut since = self.clone();
        for (bucket, before) in since.buckets.iter_mut().zip(earlier.buckets) {
            *bucket = bucket.saturating_sub(before);
        }
        since.count -= earlier.count;
        since.sum = since.sum.saturating_sub(earlier.sum);
        since
    }

    /// The percentile in microseconds: an estimate within its bucket. `None`: there are no lengths.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let rank = self.count as f64 * percent / 100.0;
        let (mut below, mut lower) = (0, 0);
        for (upper, up_to) in self.cumulative() {
            if up_to > below && up_to as f64 >= rank {
                let share = (rank - below as f64) / (up_to - below) as f64;
                return Some(lower + ((upper - lower) as f64 * share.clamp(0.0, 1.0)) as u64);
            }
            (below, lower) = (up_to, upper);
        }
        (self.count > 0).then_some(lower)
    }

    /// Reads a line of [`Lengths::line`].
    #[must_use]
    pub fn read(line: &str) -> Option<Lengths> {
        let mut lengths = Lengths::default();
        let (mut below, mut buckets) = (0, lengths.buckets.iter_mut().zip(BOUNDS));
        for pair in line.split(',') {
            let (name, number) = pair.split_once('=')?;
            let number: u64 = number.parse().ok()?;
            match name {
                "sum" => lengths.sum = number,
                "count" => lengths.count = number,
                "le_inf" => {}
                _ => {
                    let (bucket, bound) = buckets.next()?;
                    if name.strip_prefix("le_")?.parse() != Ok(bound) {
                        return None;
                    }
                    *bucket = number.checked_sub(below)?;
                    below = number;
                }
            }
        }
        Some(lengths)
    }

    /// All buckets in a line: `le_100=0,le_250=3,…,le_inf=4,sum=812,count=4`, in microseconds.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = String::new();
        for (bound, count) in self.cumulative() {
            let _ = write!(line, "le_{bound}={count},");
        }
        let Lengths { count, sum, .. } = self;
        let _ = write!(line, "le_inf={count},sum={sum},count={count}");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_length_counts_in_every_bucket_that_it_does_not_exceed() {
        let mut lengths = Lengths::default();
        for micros in [0, 100, 101, 1_000, 86_400_000_000, 86_400_000_001] {
            lengths.record(micros);
        }
        let cumulative: Vec<(u64, u64)> = lengths.cumulative().collect();
        assert_eq!(cumulative[..4], [(100, 2), (250, 3), (500, 3), (1_000, 4)]);
        assert_eq!(cumulative.last(), Some(&(86_400_000_000, 5)));
        let line = lengths.line();
        assert!(line.starts_with("le_100=2,le_250=3,"), "{line}");
        assert!(line.ends_with(",le_inf=6,sum=172800001202,count=6"), "{line}");
    }

    #[test]
    fn what_is_written_in_a_line_can_be_read() {
        let mut lengths = Lengths::default();
        for micros in [50, 3_000, 3_000, 90_000_000_000] {
            lengths.record(micros);
        }
        assert_eq!(Lengths::read(&lengths.line()), Some(lengths));
        for nonsense in ["", "le_100", "le_100=x", "le_7=1", "le_100=5,le_250=4,count=5"] {
            assert_eq!(Lengths::read(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn what_came_since_has_percentiles_of_its_own() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.percentile(99.0), None);
        (0..1000).for_each(|_| lengths.record(50));
        let before = lengths.clone();
        (0..100).for_each(|_| lengths.record(9_000));
        let since = lengths.since(&before);
        assert_eq!((since.count(), since.sum()), (100, 900_000));
        assert_eq!(since.percentile(50.0), Some(7_500));
        assert_eq!(since.percentile(100.0), Some(10_000));
        // A restarted node has counted from zero.
        assert_eq!(before.since(&lengths), before);
    }

    #[test]
    fn where_nothing_came_since_there_are_no_percentiles() {
        let mut lengths = Lengths::default();
        lengths.record(9_000);
        assert_eq!(lengths.since(&lengths), Lengths::default());
        assert_eq!(lengths.since(&lengths).percentile(50.0), None);
    }

    #[test]
    fn a_percentile_lies_in_its_bucket_at_its_share_of_those_there() {
        let mut lengths = Lengths::default();
        (0..50).for_each(|_| lengths.record(50));
        (0..50).for_each(|_| lengths.record(9_000));
        let found = [25.0, 50.0, 75.0, 100.0].map(|percent| lengths.percentile(percent));
        assert_eq!(found, [50, 100, 7_500, 10_000].map(Some));
        lengths.record(90_000_000_000);
        assert_eq!(lengths.percentile(100.0), Some(86_400_000_000), "longer than all buckets");
    }

    #[test]
    fn the_buckets_are_in_order() {
        assert!(BOUNDS.is_sorted());
    }
}
