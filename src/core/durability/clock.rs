//! The time that fences have reached.
//!
//! It decides how far ahead a fence may be. If that limit went back with the wall clock, correct clients would
//! seem to be far ahead. The order of fences never depends on it.

use crate::words::Instant;

/// The time that fences have reached: today's value of the largest fence, as far as the wall clock was there.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Time and value of the last fence that raised it.
    raised: Option<(Instant, u64)>,
}

impl Reached {
    /// The time reached, in µs of Unix time; zero before the first fence. If the wall clock was set back, this
    /// time advances a little slower until the wall clock has caught up.
    #[must_use]
    pub fn at(&self, now: Instant) -> u64 {
        let gone_on = |(at, unix): (Instant, u64)| {
            let passed = now.since(at);
            unix.saturating_add(passed - passed / SLOWER)
        };
        self.raised.map_or(0, gone_on)
    }

    /// Takes note of a fence that was handed out, or reached by the node before its restart or by its primary.
    pub fn raise(&mut self, now: Instant, unix: u64) {
        if unix > self.at(now) {
            self.raised = Some((now, unix));
        }
    }
}

/// The time reached loses one part in this many. Every working clock is more precise, so the wall clock always
/// catches up.
const SLOWER: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3600 * SECOND;

    #[test]
    fn what_was_reached_goes_on_a_little_slower_until_the_wall_clock_is_there() {
        let mut reached = Reached::default();
        assert_eq!(reached.at(Instant(5)), 0);
        reached.raise(Instant(0), 10 * HOUR);
        let mut last = 10 * HOUR;
        for second in 1..3600 {
            let now = second * SECOND;
            reached.raise(Instant(now), 9 * HOUR + now);
            let unix = reached.at(Instant(now));
            assert!(unix > last && unix > 10 * HOUR + now - 5 * SECOND, "{unix} at {now}");
            last = unix;
        }
        let years = 9000 * HOUR;
        reached.raise(Instant(years), 9 * HOUR + years);
        assert_eq!(reached.at(Instant(years)), 9 * HOUR + years);
    }
}
