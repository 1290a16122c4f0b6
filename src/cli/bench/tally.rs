//! Results of the clients of the part `contended` so far.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::figures::Waits;

/// Shared by all of them.
pub struct Tally(Mutex<Counts>);

/// Since the clock began. Before, it is only seen who has had the lock, and who fails.
#[derive(Clone)]
pub struct Counts {
    pub waits: Waits,
    /// Total time for which the lock was held.
    pub held: Duration,
    /// By client.
    pub grants: Vec<u64>,
    /// Clients that had not had the lock once when the clock began.
    pub cold: usize,
    /// Clients that still waited at the end.
    pub unserved: u64,
    pub failures: u64,
    /// The last failure's text.
    pub last_failure: Option<String>,
    /// Time of the last release.
    pub last_end: Instant,
    begin: Option<Instant>,
    /// By client: whether it has ever had the lock.
    served: Vec<bool>,
    /// By client: whether the last thing that came to it was a failure.
    failing: Vec<bool>,
    last_grant: Instant,
}

impl Tally {
    pub fn new(clients: usize, now: Instant) -> Tally {
        Tally(Mutex::new(Counts::new(clients, now)))
    }

    /// From now on it counts. Waits that are under way count from where they began.
    pub fn begin(&self, now: Instant) {
        let mut counts = self.counts();
        counts.begin = Some(now);
        counts.cold = counts.served.len() - counts.served();
    }

    pub fn granted(&self, client: usize, asked: Instant, now: Instant) {
        let mut counts = self.counts();
        counts.failing[client] = false;
        counts.served[client] = true;
        counts.last_grant = now;
        if counts.begin.is_some_and(|begin| begin <= now) {
            counts.waits.add(now - asked);
            counts.grants[client] += 1;
        }
    }

    pub fn held(&self, since: Instant, now: Instant) {
        let mut counts = self.counts();
        if let Some(begin) = counts.begin {
            counts.held += now.saturating_duration_since(since.max(begin));
            counts.last_end = counts.last_end.max(now);
        }
    }

    pub fn failed(&self, client: usize, error: String) {
        let mut counts = self.counts();
        counts.failures += u64::from(counts.begin.is_some());
        counts.last_failure = Some(error);
        counts.failing[client] = true;
    }

    /// A client waits no longer, and has got nothing.
    pub fn cut_off(&self, asked: Instant, now: Instant) {
        let mut counts = self.counts();
        counts.waits.cut_off(now - asked);
        counts.unserved += 1;
    }

    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    pub fn new(clients: usize, now: Instant) -> Counts {
        Counts {
            waits: Waits::new(),
            held: Duration::ZERO,
            grants: vec![0; clients],
            cold: 0,
            unserved: 0,
            failures: 0,
            last_failure: None,
            last_end: now,
            begin: None,
            served: vec![false; clients],
            failing: vec![false; clients],
            last_grant: now,
        }
    }

    pub fn total(&self) -> u64 {
        self.grants.iter().sum()
    }

    /// The grants of the client that got the fewest.
    pub fn least(&self) -> u64 {
        self.grants.iter().copied().min().unwrap_or(0)
    }

    /// And of the one that got the most.
    pub fn most(&self) -> u64 {
        self.grants.iter().copied().max().unwrap_or(0)
    }

    /// Number of clients that have ever had the lock.
    pub fn served(&self) -> usize {
        self.served.iter().filter(|served| **served).count()
    }

    /// True if nobody has got the lock for this time, and every client that asked was refused.
    pub fn is_hopeless(&self, patience: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.last_grant) > patience
            && self.failing.iter().all(|failing| *failing)
    }

    /// Something failed, and nothing was granted since; or somebody waited in vain.
    pub fn is_doubtful(&self) -> bool {
        self.unserved > 0 || self.failing.iter().any(|failing| *failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Percentile;

    #[test]
    fn there_is_hope_as_long_as_one_client_has_not_failed() {
        let (begin, patience) = (Instant::now(), Duration::from_secs(3));
        let late = begin + Duration::from_secs(4);
        let tally = Tally::new(2, begin);
        tally.begin(begin);
        tally.failed(0, "one".to_owned());
        assert!(!tally.counts().is_hopeless(patience, late));
        tally.failed(1, "two".to_owned());
        assert!(tally.counts().is_hopeless(patience, late));
        assert!(!tally.counts().is_hopeless(patience, begin));
        assert_eq!(tally.counts().last_failure.as_deref(), Some("two"));
        tally.granted(1, begin, late);
        assert!(!tally.counts().is_hopeless(patience, late + patience * 2));
        assert!(tally.counts().is_doubtful());
        tally.granted(0, begin, late);
        assert!(!tally.counts().is_doubtful());
        assert_eq!(tally.counts().grants, [1, 1]);
    }

    #[test]
    fn what_is_over_before_the_clock_begins_is_not_counted() {
        let at = |millis| Duration::from_millis(millis);
        let first = Instant::now();
        let tally = Tally::new(3, first);
        tally.granted(0, first, first);
        tally.failed(1, "away".to_owned());
        tally.held(first, first + at(5));
        tally.granted(1, first, first + at(5));
        tally.begin(first + at(8));
        tally.held(first + at(5), first + at(10));
        {
            let counts = tally.counts();
            assert_eq!((counts.total(), counts.failures, counts.cold), (0, 0, 1));
            assert_eq!((counts.held, counts.waits.at(1.0)), (at(2), None));
        }
        tally.granted(2, first, first + at(10));
        let counts = tally.counts();
        assert_eq!((counts.grants.as_slice(), counts.served()), (&[0, 0, 1][..], 3));
        let Some(Percentile::Exactly(wait)) = counts.waits.at(1.0) else {
            panic!("one has waited")
        };
        assert!(wait >= at(10) && wait < at(11), "{wait:?}");
    }
}
