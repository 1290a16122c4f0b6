//! Locks with waiters that must be checked again at some moment: when a foreign lock's string
//! expires, because the server itself may take its time to notice; or soon, where the server refuses
//! writes now. One entry a key: the earliest.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::words::{Deadline, Instant, Key, KeyBuf, Millis};

#[derive(Debug, Default)]
pub(super) struct Rechecks {
    by_key: BTreeMap<KeyBuf, Deadline>,
    by_end: BTreeSet<(Deadline, KeyBuf)>,
}

impl Rechecks {
    pub fn first(&self) -> Option<Deadline> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// Plans a check of the key at `end`, unless there is an earlier one.
    pub fn add(&mut self, end: Deadline, key: KeyBuf) {
        match self.by_key.get(&key) {
            Some(earlier) if *earlier <= end => return,
            Some(later) => self.by_end.remove(&(*later, key.clone())),
            None => false,
        };
        self.by_end.insert((end, key.clone()));
        self.by_key.insert(key, end);
    }

    /// The pause before the next check of a key that may change at any moment: short, because a
    /// client that polls might be there first; longer with many keys, so that the checks stay a small
    /// part of the server's work.
    pub fn pause(&self) -> Millis {
        let many = self.by_key.len() as u64 / LOOKS_PER_MS;
        Millis(many.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    /// Drops the check of a key without waiters.
    pub fn remove(&mut self, key: Key<'_>) {
        if self.by_key.is_empty() {
            return;
        }
        let key = key.to_owned();
        if let Some(end) = self.by_key.remove(&key) {
            self.by_end.remove(&(end, key));
        }
    }

    /// Takes a key whose check is due.
    pub fn pop_over(&mut self, now: Instant) -> Option<KeyBuf> {
        if !self.first()?.is_over(now) {
            return None;
        }
        let (_, key) = self.by_end.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Drops the checks of keys for which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(&KeyBuf) -> bool) {
        self.by_end.retain(|(_, key)| stays(key));
        self.by_key.retain(|key, _| stays(key));
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_end.is_empty()
    }
}

/// With many keys, dlock checks this many in a millisecond.
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
            rechecks.add(Deadline(1), KeyBuf { db: number, name: Box::default() });
            if [1, 24, 80, 1_000].contains(&(number + 1)) {
                pauses.push(rechecks.pause().0);
            }
        }
        assert_eq!(pauses, [2, 3, 10, 50]);
    }

    #[test]
    fn a_key_is_looked_at_once_and_at_the_earliest_of_its_moments() {
        let key = |db| KeyBuf { db, name: Box::default() };
        let mut rechecks = Rechecks::default();
        for end in [5, 3, 7] {
            rechecks.add(Deadline(end), key(0));
        }
        rechecks.add(Deadline(4), key(1));
        assert_eq!(rechecks.pop_over(Instant(2_999)), None);
        let looks: Vec<_> = core::iter::from_fn(|| rechecks.pop_over(Instant(9_000))).collect();
        assert_eq!(looks, [key(0), key(1)]);
    }

    #[test]
    fn a_key_for_which_nobody_waits_any_more_is_not_looked_at() {
        let key = |db| KeyBuf { db, name: Box::default() };
        let mut rechecks = Rechecks::default();
        for db in 0..3 {
            rechecks.add(Deadline(1), key(db));
        }
        rechecks.remove(key(0).as_key());
        rechecks.retain(|key| key.db != 1);
        assert_eq!(rechecks.first(), Some(Deadline(1)));
        assert_eq!(rechecks.pop_over(Instant(1_000)), Some(key(2)));
        assert!(rechecks.is_empty());
    }
}
