//! The grants that clients saw, and whether all of them can be true.
//!
//! All times are those of the clients, so each client's view is conservative. A client surely holds
//! from the moment in which its grant arrived. It may believe that until it sends RELEASE, or until
//! the lease is over that runs since it sent its ACQUIRE, or the last EXTEND that was answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Grants of many clients, of which each adds its own.
pub struct History {
    /// The times of a violation are counted from here.
    begun: Instant,
    grants: Mutex<Vec<Grant>>,
}

/// One grant as its client sees it.
#[derive(Clone, Debug)]
pub struct Grant {
    key: String,
    token: String,
    is_shared: bool,
    fence: i64,
    asked: Instant,
    granted: Instant,
    /// The client believes until then that it holds.
    until: Instant,
}

/// The promises of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nobody else holds while an exclusive holder does.
    Exclusion,
    /// An attempt that begins after a grant has arrived gets a larger fence.
    FenceOrder,
    /// No two grants of a key have the same fence.
    FenceUsedOnce,
}

/// A promise that was broken, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise that was broken.
    pub promise: Promise,
    words: String,
}

impl Grant {
    /// A grant of an exclusive lock that arrives now.
    pub fn new(key: &str, token: &str, fence: i64, asked: Instant, ttl: Duration) -> Grant {
        let (key, token) = (key.to_owned(), token.to_owned());
        let granted = Instant::now();
        Grant { key, token, is_shared: false, fence, asked, granted, until: asked + ttl }
    }

    /// Marks the grant as one that shares the lock.
    pub fn shared(mut self) -> Grant {
        self.is_shared = true;
        self
    }

    /// The name of the lock.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The client's name for it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Until when the client may believe that it holds.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// An EXTEND, or the same ACQUIRE again, was sent then and succeeded.
    pub fn extended(&mut self, sent: Instant, ttl: Duration) {
        self.until = sent + ttl;
    }

    /// An EXTEND was sent then, and nobody knows what became of it: it may have shortened the lease.
    pub fn perhaps_extended(&mut self, sent: Instant, ttl: Duration) {
        self.ended(sent + ttl);
    }

    /// The client has given it up, or was told that it is over.
    pub fn ended(&mut self, at: Instant) {
        self.until = self.until.min(at);
    }

    fn is_believed(&self) -> bool {
        self.granted < self.until
    }
}

impl Default for History {
    fn default() -> History {
        History { begun: Instant::now(), grants: Mutex::default() }
    }
}

impl History {
    /// Adds a grant of which the client will see nothing more.
    pub fn add(&self, grant: Grant) {
        self.lock().push(grant);
    }

    /// The number of grants.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True if there were no grants.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The largest fence of all grants, 0 without any.
    pub fn largest_fence(&self) -> i64 {
        self.lock().iter().map(|grant| grant.fence).max().unwrap_or(0)
    }

    /// All that cannot be true.
    pub fn violations(&self) -> Vec<Violation> {
        let grants = self.lock();
        let mut keys: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
        for grant in grants.iter() {
            keys.entry(&grant.key).or_default().push(grant);
        }
        let mut found = Vec::new();
        for grants in keys.values() {
            found.extend(overlaps(grants).into_iter().map(|pair| (Promise::Exclusion, pair)));
            found.extend(fences_back(grants).into_iter().map(|pair| (Promise::FenceOrder, pair)));
            found.extend(
                fences_twice(grants).into_iter().map(|pair| (Promise::FenceUsedOnce, pair)),
            );
        }
        found.into_iter().map(|(promise, pair)| self.violation(promise, pair)).collect()
    }

    fn violation(&self, promise: Promise, (first, second): Pair) -> Violation {
        let words = format!("{}, and {}", self.describe(first), self.describe(second));
        Violation { promise, words }
    }

    fn describe(&self, grant: &Grant) -> String {
        let time = |at: Instant| at.saturating_duration_since(self.begun).as_secs_f64();
        let Grant { key, token, fence, .. } = grant;
        let mode = if grant.is_shared { "shared" } else { "exclusive" };
        format!(
            "{token} asked for {key} at {:.6}, had it {mode} from {:.6} to {:.6} with fence {fence}",
            time(grant.asked),
            time(grant.granted),
            time(grant.until),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Grant>> {
        self.grants.lock().unwrap_or_else(|e| e.into_inner())
    }
}

type Pair<'g> = (&'g Grant, &'g Grant);

/// Each grant that began while another held, except where both share the lock.
fn overlaps<'g>(grants: &[&'g Grant]) -> Vec<Pair<'g>> {
    let mut in_order: Vec<&Grant> =
        grants.iter().copied().filter(|one| one.is_believed()).collect();
    in_order.sort_by_key(|grant| grant.granted);
    let mut found = Vec::new();
    // Of those that began before, the ones that end last.
    let mut last: Option<&Grant> = None;
    let mut last_exclusive: Option<&Grant> = None;
    for grant in in_order {
        let rival = if grant.is_shared { last_exclusive } else { last };
        let holds = |rival: &&Grant| rival.until > grant.granted;
        found.extend(rival.filter(holds).map(|rival| (rival, grant)));
        last = later(last, grant);
        if !grant.is_shared {
            last_exclusive = later(last_exclusive, grant);
        }
    }
    found
}

fn later<'g>(last: Option<&'g Grant>, grant: &'g Grant) -> Option<&'g Grant> {
    Some(last.filter(|last| last.until >= grant.until).unwrap_or(grant))
}

/// Each grant that was asked for when another with no smaller fence had arrived.
fn fences_back<'g>(grants: &[&'g Grant]) -> Vec<Pair<'g>> {
    let mut as_asked = grants.to_vec();
    as_asked.sort_by_key(|grant| grant.asked);
    let mut as_granted = grants.to_vec();
    as_granted.sort_by_key(|grant| grant.granted);
    let mut arrived = as_granted.into_iter().peekable();
    let mut largest: Option<&Grant> = None;
    let mut found = Vec::new();
    for grant in as_asked {
        while let Some(earlier) = arrived.next_if(|earlier| earlier.granted < grant.asked) {
            largest =
                Some(largest.filter(|largest| largest.fence > earlier.fence).unwrap_or(earlier));
        }
        found.extend(largest.filter(|one| one.fence >= grant.fence).map(|one| (one, grant)));
    }
    found
}

/// Each grant that has the fence of another.
fn fences_twice<'g>(grants: &[&'g Grant]) -> Vec<Pair<'g>> {
    let mut in_order = grants.to_vec();
    in_order.sort_by_key(|grant| (grant.fence, grant.asked));
    let neighbours = in_order.windows(2).map(|two| (two[0], two[1]));
    neighbours.filter(|(first, second)| first.fence == second.fence).collect()
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.words)
    }
}

#[cfg(test)]
mod tests;
