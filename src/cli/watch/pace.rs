//! Rates that follow from several looks at a node.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use dlock_core::node::observed::Lengths;

use super::look::NodeLook;

/// The rates of a node in the last seconds. Unknown after the first look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Locks granted in a second.
    pub grants: Option<f64>,
    /// The 99th percentile of waits that ended with the lock, if there were any.
    pub p99_wait: Option<Duration>,
}

/// The last looks at one node.
#[derive(Default)]
pub struct Track(VecDeque<Point>);

struct Point {
    at: Instant,
    grants: u64,
    waits: Lengths,
}

impl Track {
    /// One more look. A node that does not answer has no pace.
    pub fn follow(&mut self, look: Option<&NodeLook>, at: Instant) -> Pace {
        let Some(look) = look else { return Pace::default() };
        let grants = look.number("grants").unwrap_or(0);
        self.add(Point { at, grants, waits: look.waits.clone() })
    }

    fn add(&mut self, new: Point) -> Pace {
        // The node was restarted, and counts from zero.
        if self.0.back().is_some_and(|last| last.grants > new.grants) {
            self.0.clear();
        }
        // One look as old as the window stays.
        while self.0.get(1).is_some_and(|next| new.at - next.at >= WINDOW) {
            self.0.pop_front();
        }
        let pace = self.0.front().map_or(Pace::default(), |first| {
            let seconds = (new.at - first.at).as_secs_f64().max(f64::MIN_POSITIVE);
            let waits = new.waits.since(&first.waits);
            Pace {
                grants: Some((new.grants - first.grants) as f64 / seconds),
                p99_wait: waits.percentile(99.0).map(Duration::from_micros),
            }
        });
        self.0.push_back(new);
        pace
    }
}

/// Length of the window for rates.
const WINDOW: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn point(begin: Instant, second: u64, waits: &[u64]) -> Point {
        let mut lengths = Lengths::default();
        waits.iter().for_each(|micros| lengths.record(*micros));
        let at = begin + Duration::from_secs(second);
        Point { at, grants: 10 * waits.len() as u64, waits: lengths }
    }

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let begin = Instant::now();
        let mut track = Track::default();
        assert_eq!(track.add(point(begin, 0, &[])), Pace::default());
        let pace = track.add(point(begin, 2, &[90]));
        assert_eq!(pace.grants, Some(5.0));
        assert!(pace.p99_wait.is_some_and(|wait| wait < Duration::from_millis(1)));
        let pace = track.add(point(begin, 20, &[90, 900_000]));
        assert!(pace.p99_wait.is_some_and(|wait| wait > Duration::from_millis(500)), "{pace:?}");
        let quiet = track.add(point(begin, 40, &[90, 900_000]));
        assert_eq!((quiet.grants, quiet.p99_wait), (Some(0.0), None));
    }

    #[test]
    fn a_node_that_has_started_anew_has_no_pace_yet() {
        let begin = Instant::now();
        let mut track = Track::default();
        track.add(point(begin, 0, &[1, 1, 1]));
        assert_eq!(track.add(point(begin, 1, &[1])), Pace::default());
        assert_eq!(track.add(point(begin, 2, &[1, 1])).grants, Some(10.0));
    }
}
