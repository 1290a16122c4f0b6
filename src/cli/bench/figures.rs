//! Times and their percentiles; fairness.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Many measured times, to three digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Times {
    pub fn new() -> Times {
        // Making one fails only where there are more than five digits.
        Times(Histogram::new(DIGITS).expect("three digits are few enough"))
    }

    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The histogram grows as needed, so only the memory could be at an end.
        let _ = self.0.record(nanos);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time that this share of all does not exceed. Zero, if there are none.
    pub fn at(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share).min(self.0.max()))
    }

    pub fn p50(&self) -> Duration {
        self.at(0.5)
    }

    pub fn p99(&self) -> Duration {
        self.at(0.99)
    }

    pub fn max(&self) -> Duration {
        self.at(1.0)
    }

    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.0.mean() / 1e9)
    }
}

/// Waits, of which some were cut off before their end.
#[derive(Clone, Debug)]
pub struct Waits {
    /// With the cut-off ones, as far as they went.
    all: Times,
    shortest_cut: Option<Duration>,
}

/// A percentile, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    Exactly(Duration),
    /// A wait that was cut off is at or below its rank: nobody knows how long that would have been.
    AtLeast(Duration),
}

impl Waits {
    pub fn new() -> Waits {
        Waits { all: Times::new(), shortest_cut: None }
    }

    /// One that has ended.
    pub fn add(&mut self, wait: Duration) {
        self.all.add(wait);
    }

    /// One that would have gone on after this time.
    pub fn cut_off(&mut self, after: Duration) {
        self.all.add(after);
        self.shortest_cut = Some(self.shortest_cut.map_or(after, |cut| cut.min(after)));
    }

    /// Nothing, if nobody has waited.
    pub fn at(&self, share: f64) -> Option<Percentile> {
        let time = self.all.at(share);
        let is_known = self.shortest_cut.is_none_or(|cut| cut > time);
        let found = if is_known { Percentile::Exactly(time) } else { Percentile::AtLeast(time) };
        (!self.all.is_empty()).then_some(found)
    }
}

impl Percentile {
    pub fn exactly(self) -> Option<Duration> {
        match self {
            Percentile::Exactly(time) => Some(time),
            Percentile::AtLeast(_) => None,
        }
    }
}

/// The ratio of two lengths; none if the second is zero.
pub fn ratio(of: Duration, to: Duration) -> Option<f64> {
    (!to.is_zero()).then(|| of.as_secs_f64() / to.as_secs_f64())
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one of n has everything.
pub fn jain(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (counts.len() as f64 * squares) }
}

/// As many digits of each time are kept.
const DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_added() {
        let mut times = Times::new();
        assert_eq!((times.is_empty(), times.max()), (true, Duration::ZERO));
        for millis in 1..=1000 {
            times.add(Duration::from_millis(millis));
        }
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        for (found, expected) in [
            (times.p50(), 500.0),
            (times.p99(), 990.0),
            (times.at(0.999), 999.0),
            (times.max(), 1000.0),
            (times.mean(), 500.5),
        ] {
            assert!((millis(found) / expected - 1.0).abs() < 0.002, "{found:?}, not {expected}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let mut times = Times::new();
        for count in 1..=1000_u64 {
            // So few that each has a bucket of its own.
            times.add(Duration::from_nanos(count));
            for (share, of_thousand) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.999, 999)] {
                let rank = (count * of_thousand).div_ceil(1000);
                assert_eq!(times.at(share), Duration::from_nanos(rank), "{share} of {count}");
            }
        }
    }

    #[test]
    fn a_percentile_at_or_above_a_wait_that_was_cut_off_is_a_lower_bound() {
        let millis = Duration::from_millis;
        let mut waits = Waits::new();
        assert_eq!(waits.at(0.5), None);
        (1..=97).for_each(|wait| waits.add(millis(wait)));
        assert_eq!(waits.at(1.0).and_then(Percentile::exactly), Some(waits.all.max()));
        // Of a hundred, these are the ranks 91 and two at the end.
        [90, 500, 600].into_iter().for_each(|cut| waits.cut_off(millis(cut)));
        assert!(matches!(waits.at(0.89), Some(Percentile::Exactly(_))));
        assert!(matches!(waits.at(0.91), Some(Percentile::AtLeast(_))));
        let Some(Percentile::AtLeast(least)) = waits.at(1.0) else { panic!("it is not known") };
        assert!(least >= millis(599) && least <= millis(601), "{least:?}");
    }

    #[test]
    fn fairness_is_one_if_all_have_the_same() {
        assert_eq!(jain(&[7, 7, 7, 7]), 1.0);
        assert_eq!(jain(&[8, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[3, 1]), 0.8);
        assert_eq!(jain(&[0, 0]), 1.0);
    }

    #[test]
    fn there_is_no_ratio_to_nothing() {
        let [one, two] = [1, 2].map(Duration::from_millis);
        assert_eq!(ratio(two, one), Some(2.0));
        assert_eq!(ratio(two, Duration::ZERO), None);
    }
}
