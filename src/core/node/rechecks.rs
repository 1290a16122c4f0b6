//! Locks with waiters that must be checked again, for one of these reasons:
//! - In the next iterations of the event loop: the first waiter may be grantable.
//! - When a foreign lock's string expires: the server itself may notice late.
//! - A second later: the server does not report every change of a string.
//! - Soon: the server refuses writes now.
//!
//! A key has one entry, the earliest, and shares its name with the key's queue: no queue, no entry.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use crate::words::{Deadline, Instant, Key, KeyBuf, Millis};

#[derive(Debug, Default)]
pub(super) struct Rechecks {
    by_key: BTreeMap<Arc<KeyBuf>, When>,
    by_time: BTreeSet<(When, Arc<KeyBuf>)>,
    /// The number of checks that were planned for the next iterations.
    planned: u64,
}

/// The moment of a check. At [`NEXT`] it is made in the next iterations, in the order of planning.
type When = (Deadline, u64);

const NEXT: Deadline = Deadline(0);

impl Rechecks {
    /// The moment of the first check, if none is to be made in the next iterations.
    pub fn first(&self) -> Option<Deadline> {
        self.by_time.first().map(|((end, _), _)| *end).filter(|end| *end > NEXT)
    }

    /// True if there are checks to be made in the next iterations.
    pub fn any_next(&self) -> bool {
        self.by_time.first().is_some_and(|((end, _), _)| *end == NEXT)
    }

    /// Plans a check of the key at `end`, unless there is an earlier one.
    pub fn add(&mut self, end: Deadline, key: Arc<KeyBuf>) {
        self.plan((end.max(Deadline(1)), 0), key);
    }

    /// Plans a check of the key in the next iterations.
    pub fn add_next(&mut self, key: Arc<KeyBuf>) {
        self.planned += 1;
        self.plan((NEXT, self.planned), key);
    }

    fn plan(&mut self, when: When, key: Arc<KeyBuf>) {
        match self.by_key.get(&key) {
            Some(earlier) if *earlier <= when => return,
            Some(later) => self.by_time.remove(&(*later, key.clone())),
            None => false,
        };
        self.by_time.insert((when, key.clone()));
        self.by_key.insert(key, when);
    }

    /// The pause before the next check of a key that may change at any moment. It is short, because a client
    /// that polls might be first; and longer with many keys, so that the checks stay a small part of the
    /// server's work.
    pub fn pause(&self) -> Millis {
        let many = self.by_key.len() as u64 / LOOKS_PER_MS;
        Millis(many.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    /// Drops the check of a key without waiters.
    pub fn remove(&mut self, key: Key<'_>) {
        if self.by_key.is_empty() {
            return;
        }
        if let Some((key, when)) = self.by_key.remove_entry(&key.to_owned()) {
            self.by_time.remove(&(when, key));
        }
    }

    /// Moves due checks, at most `most`, behind the checks of the next iterations.
    pub fn come(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            let Some(key) = self.first_over(now) else { return };
            self.add_next(key);
        }
    }

    fn first_over(&self, now: Instant) -> Option<Arc<KeyBuf>> {
        if self.by_key.is_empty() {
            return None;
        }
        let ((end, _), key) = self.by_time.range(((Deadline(1), 0), Arc::default())..).next()?;
        end.is_over(now).then(|| key.clone())
    }

    /// Takes the key that is checked next.
    pub fn pop_next(&mut self) -> Option<Arc<KeyBuf>> {
        if !self.any_next() {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Keeps only the checks of keys that `stays` selects.
    pub fn retain(&mut self, stays: impl Fn(&KeyBuf) -> bool) {
        self.by_time.retain(|(_, key)| stays(key));
        self.by_key.retain(|key, _| stays(key));
    }

    /// The keys to check.
    #[cfg(test)]
    pub fn keys(&self) -> impl Iterator<Item = &Arc<KeyBuf>> {
        assert_eq!(self.by_key.len(), self.by_time.len());
        self.by_key.keys()
    }
}

/// The number of checks in a millisecond, with many keys.
const LOOKS_PER_MS: u64 = 8;
const SHORTEST_PAUSE: u64 = 2;
const LONGEST_PAUSE: u64 = 50;

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn many_keys_are_looked_at_less_often() {
        let mut rechecks = Rechecks::default();
        let mut pauses = Vec::new();
        for number in 0..1_000_u32 {
            rechecks.add(Deadline(1), key(number));
            if [1, 24, 80, 1_000].contains(&(number + 1)) {
                pauses.push(rechecks.pause().0);
            }
        }
        assert_eq!(pauses, [2, 3, 10, 50]);
    }

    #[test]
    fn a_key_is_looked_at_once_and_at_the_earliest_of_its_moments() {
        let mut rechecks = Rechecks::default();
        for end in [5, 3, 7] {
            rechecks.add(Deadline(end), key(0));
        }
        rechecks.add(Deadline(4), key(1));
        rechecks.come(Instant(2_999), 9);
        assert_eq!((rechecks.pop_next(), rechecks.first()), (None, Some(Deadline(3))));
        rechecks.come(Instant(9_000), 9);
        assert_eq!(all(&mut rechecks), [key(0), key(1)]);
    }

    #[test]
    fn a_key_that_is_looked_at_next_keeps_its_turn_and_one_whose_moment_has_come_is_behind_it() {
        let mut rechecks = Rechecks::default();
        rechecks.add(Deadline(1), key(0));
        for again in [2, 1, 3, 2] {
            rechecks.add_next(key(again));
        }
        rechecks.come(Instant(1_000), 9);
        rechecks.add(Deadline(1), key(0));
        assert_eq!(all(&mut rechecks), [2, 1, 3, 0].map(key));
        assert!(!rechecks.any_next());
    }

    #[test]
    fn of_many_whose_moment_has_come_a_part_follows_in_each_turn_the_earliest_first() {
        let mut rechecks = Rechecks::default();
        for db in 0..5 {
            rechecks.add(Deadline(9 - u64::from(db)), key(db));
        }
        for (most, turn) in [(2, &[4, 3][..]), (2, &[2, 1]), (2, &[0]), (2, &[])] {
            rechecks.come(Instant(9_000), most);
            assert_eq!(all(&mut rechecks), turn.iter().copied().map(key).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_key_without_waiters_is_no_longer_checked() {
        let mut rechecks = Rechecks::default();
        for db in 0..3 {
            rechecks.add(Deadline(1), key(db));
        }
        rechecks.remove(key(0).as_key());
        rechecks.retain(|key| key.db != 1);
        assert_eq!(rechecks.first(), Some(Deadline(1)));
        rechecks.come(Instant(1_000), 9);
        assert_eq!(all(&mut rechecks), [key(2)]);
        assert_eq!(rechecks.keys().count(), 0);
    }

    fn key(db: u32) -> Arc<KeyBuf> {
        Arc::new(KeyBuf { db, name: Box::default() })
    }

    /// The keys that are checked next.
    fn all(rechecks: &mut Rechecks) -> Vec<Arc<KeyBuf>> {
        core::iter::from_fn(|| rechecks.pop_next()).collect()
    }
}
