//! What the clients of the part `contended` have got so far.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::figures::Times;

/// Shared by all of them.
pub struct Tally(Mutex<Counts>);

/// So far.
#[derive(Clone)]
pub struct Counts {
    pub waits: Times,
    /// For so long somebody held the lock, in all.
    pub held: Duration,
    /// By client.
    pub grants: Vec<u64>,
    /// Clients that still waited when the time was over, and were not waited for.
    pub unserved: u64,
    pub failures: u64,
    /// What the last of them said.
    pub last_failure: Option<String>,
    /// By client: whether the last thing that came to it was a failure.
    failing: Vec<bool>,
    last_grant: Instant,
    /// When the lock was last given back.
    pub last_end: Instant,
}

impl Tally {
    pub fn new(clients: usize, begin: Instant) -> Tally {
        Tally(Mutex::new(Counts {
            waits: Times::new(),
            held: Duration::ZERO,
            grants: vec![0; clients],
            unserved: 0,
            failures: 0,
            last_failure: None,
            failing: vec![false; clients],
            last_grant: begin,
            last_end: begin,
        }))
    }

    pub fn granted(&self, client: usize, after: Duration, now: Instant) {
        let mut counts = self.counts();
        counts.waits.add(after);
        counts.grants[client] += 1;
        counts.failing[client] = false;
        counts.last_grant = now;
    }

    pub fn held(&self, time: Duration, now: Instant) {
        let mut counts = self.counts();
        counts.held += time;
        counts.last_end = counts.last_end.max(now);
    }

    pub fn failed(&self, client: usize, error: String) {
        let mut counts = self.counts();
        counts.failures += 1;
        counts.last_failure = Some(error);
        counts.failing[client] = true;
    }

    pub fn unserved(&self) {
        self.counts().unserved += 1;
    }

    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Nobody has got the lock for so long, and whoever asked was told that it cannot be had.
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

    #[test]
    fn there_is_hope_as_long_as_one_client_has_not_failed() {
        let (begin, patience) = (Instant::now(), Duration::from_secs(3));
        let late = begin + Duration::from_secs(4);
        let tally = Tally::new(2, begin);
        tally.failed(0, "one".to_owned());
        assert!(!tally.counts().is_hopeless(patience, late));
        tally.failed(1, "two".to_owned());
        assert!(tally.counts().is_hopeless(patience, late));
        assert!(!tally.counts().is_hopeless(patience, begin));
        assert_eq!(tally.counts().last_failure.as_deref(), Some("two"));
        tally.granted(1, patience, late);
        assert!(!tally.counts().is_hopeless(patience, late + patience * 2));
        assert!(tally.counts().is_doubtful());
        tally.granted(0, patience, late);
        assert!(!tally.counts().is_doubtful());
        assert_eq!(tally.counts().grants, [1, 1]);
    }
}
