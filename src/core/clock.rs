//! The clock of the fences: the wall clock, but it never goes back.
//!
//! How far ahead a fence may be hangs on it. If it went back with the wall clock, honest clients
//! would seem to be far ahead. Order never rests on it.

use crate::words::Instant;

/// The clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// What it said when the wall clock was last looked at.
    seen: Option<(Instant, u64)>,
}

impl Clock {
    /// What time it is, in µs of Unix time. It looks at the wall clock once in a second or so.
    pub fn read(&mut self, now: Instant, wall: impl FnOnce() -> u64) -> u64 {
        match self.seen {
            Some((at, unix)) if now.since(at) < LOOK_EVERY => unix.saturating_add(now.since(at)),
            _ => self.look(now, wall()),
        }
    }

    /// The wall clock says this. While it is behind, for it was set back, this one goes on a little
    /// slower, until they meet.
    pub fn look(&mut self, now: Instant, wall: u64) -> u64 {
        let gone_on = |(at, unix): (Instant, u64)| {
            let passed = now.since(at);
            unix.saturating_add(passed - passed / SLOWER)
        };
        let unix = self.seen.map_or(0, gone_on).max(wall);
        self.seen = Some((now, unix));
        unix
    }

    /// In the last life, or at the primary, it was so late already.
    pub fn at_least(&mut self, now: Instant, unix: u64) {
        self.look(now, unix);
    }
}

const LOOK_EVERY: u64 = 1_000_000;
/// By one part in so many. No good clock is so wrong, so the two always meet.
const SLOWER: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3600 * SECOND;

    #[test]
    fn it_goes_on_while_the_wall_clock_was_set_back_until_they_meet() {
        let mut clock = Clock::default();
        assert_eq!(clock.look(Instant(0), 10 * HOUR), 10 * HOUR);
        let mut last = 10 * HOUR;
        for second in 1..3600 {
            let now = second * SECOND;
            let unix = clock.look(Instant(now), 9 * HOUR + now);
            assert!(unix > last && unix > 10 * HOUR + now - 5 * SECOND, "{unix} at {now}");
            last = unix;
        }
        let years = 9000 * HOUR;
        assert_eq!(clock.look(Instant(years), 9 * HOUR + years), 9 * HOUR + years);
    }

    #[test]
    fn it_goes_ahead_with_the_wall_clock() {
        let mut clock = Clock::default();
        clock.look(Instant(0), HOUR);
        assert_eq!(clock.look(Instant(1), 3 * HOUR), 3 * HOUR);
    }

    #[test]
    fn between_two_looks_it_goes_on_by_the_monotonic_clock() {
        let mut clock = Clock::default();
        assert_eq!(clock.read(Instant(5), || HOUR), HOUR);
        assert_eq!(clock.read(Instant(6), || unreachable!()), HOUR + 1);
        assert_eq!(clock.read(Instant(5 + SECOND), || 2 * HOUR), 2 * HOUR);
    }

    #[test]
    fn it_begins_where_the_last_life_ended() {
        let mut clock = Clock::default();
        clock.at_least(Instant(7), 9 * HOUR);
        assert_eq!(clock.look(Instant(7), 8 * HOUR), 9 * HOUR);
    }
}
