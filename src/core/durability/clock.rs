//! The clocks of the fences: the wall clock, and the time that fences have reached.
//!
//! They decide how far ahead a fence may be. If that limit went back with the wall clock, correct clients would
//! seem to be far ahead. The order of fences never depends on either clock.

use crate::words::Instant;

/// A wall clock that is read about once a second.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Time and result of the last reading.
    looked: Option<(Instant, u64)>,
}

impl Clock {
    /// Returns Unix time in µs, and reads the wall clock only about once a second.
    pub fn read(&mut self, now: Instant, wall: impl FnOnce() -> u64) -> u64 {
        match self.looked {
            Some((at, unix)) if now.since(at) < LOOK_EVERY => unix.saturating_add(now.since(at)),
            _ => self.look(now, wall()),
        }
    }

    /// Takes note of the wall clock.
    pub fn look(&mut self, now: Instant, wall: u64) -> u64 {
        self.looked = Some((now, wall));
        wall
    }
}

/// The time that fences have reached: today's value of the largest fence that was near the wall clock.
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

const LOOK_EVERY: u64 = 1_000_000;
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

    #[test]
    fn between_two_looks_the_wall_clock_goes_on_by_the_monotonic_clock() {
        let mut clock = Clock::default();
        assert_eq!(clock.read(Instant(5), || HOUR), HOUR);
        assert_eq!(clock.read(Instant(6), || unreachable!()), HOUR + 1);
        assert_eq!(clock.read(Instant(5 + SECOND), || 2 * HOUR), 2 * HOUR);
        assert_eq!(clock.look(Instant(6 + SECOND), HOUR), HOUR, "it was set back");
    }
}
