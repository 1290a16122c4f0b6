//! The clock of places: it runs while requests get through, and stores when they were last read.
//!
//! A place must not end while its client's request is unread in the socket: during a long script, say, or while
//! the server holds requests back. So this clock stands still while writes are paused, and in quarantine. A
//! place that is over by this clock ends only at the second iteration of the event loop after that, because in
//! between the server reads what has arrived.

use crate::words::{Deadline, Instant};

#[derive(Debug)]
pub(super) struct PlaceClock {
    /// The time that it has stood still, in microseconds.
    still: u64,
    /// Time of the last look, and true if requests got through then.
    looked: Instant,
    runs: bool,
    /// The last iteration of the event loop, if requests have got through ever since.
    last_iteration: Option<Instant>,
    /// The server has read all requests sent before this moment.
    heard: Instant,
}

impl Default for PlaceClock {
    fn default() -> PlaceClock {
        PlaceClock {
            still: 0,
            looked: Instant(0),
            runs: true,
            last_iteration: None,
            heard: Instant(0),
        }
    }
}

impl PlaceClock {
    /// Starts the clock, when the first place is kept.
    pub fn start(&mut self, now: Instant, runs: bool) {
        (self.looked, self.runs) = (now, runs);
    }

    /// Notes if requests get through now. The caller calls this often: the clock sees only the moments of the
    /// calls.
    pub fn look(&mut self, now: Instant, runs: bool) {
        if !(self.runs && runs) {
            self.still += now.since(self.looked);
            self.last_iteration = None;
        }
        (self.looked, self.runs) = (now, runs);
    }

    /// Notes an iteration of the event loop, after the server has read what had arrived by the last one.
    pub fn iteration(&mut self, now: Instant, runs: bool) {
        self.look(now, runs);
        if runs {
            self.heard = self.last_iteration.unwrap_or(self.heard);
            self.last_iteration = Some(now);
        }
    }

    /// The time by this clock.
    pub fn at(&self, now: Instant) -> Instant {
        let stands = if self.runs { 0 } else { now.since(self.looked) };
        Instant(now.0.saturating_sub(self.still + stands))
    }

    /// True if a moment of this clock has passed, and the server has read the requests sent before it.
    pub fn is_over(&self, end: Deadline) -> bool {
        end.is_over(Instant(self.heard.0.saturating_sub(self.still)))
    }

    /// The ordinary time of a moment of this clock; `None`: it stands still.
    pub fn comes(&self, end: Deadline) -> Option<Deadline> {
        self.runs.then(|| Deadline(end.0.saturating_add(self.still.div_ceil(1000))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Deadline = Deadline(10);

    fn ms(ms: u64) -> Instant {
        Instant(ms * 1000)
    }

    #[test]
    fn an_iteration_before_a_pause_says_nothing_of_what_came_in_it() {
        let mut clock = PlaceClock::default();
        clock.iteration(ms(11), true);
        clock.look(ms(12), false);
        clock.iteration(ms(20), true);
        assert!(!clock.is_over(END));
        clock.iteration(ms(21), true);
        assert!(clock.is_over(END));
    }

    #[test]
    fn what_happened_before_there_was_a_place_is_nothing_to_it() {
        let mut clock = PlaceClock::default();
        clock.iteration(ms(1), true);
        clock.start(ms(5_000), false);
        clock.look(ms(5_100), true);
        assert_eq!(clock.at(ms(5_100)), ms(5_000));
    }
}
