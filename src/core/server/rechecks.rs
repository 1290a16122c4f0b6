//! Locks with waiters that have to be looked at again at some moment: when a foreign lock's string
//! expires, for the server itself may take its time to notice; or soon, where the server refuses
//! writes just now. One entry a key: the earliest.

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

    /// Looks at the key again at `end`, or earlier if that is how it is already.
    pub fn add(&mut self, end: Deadline, key: KeyBuf) {
        match self.by_key.get(&key) {
            Some(earlier) if *earlier <= end => return,
            Some(later) => self.by_end.remove(&(*later, key.clone())),
            None => false,
        };
        self.by_end.insert((end, key.clone()));
        self.by_key.insert(key, end);
    }

    /// How long to wait before the next look at a key that may change at any moment. Not long, for a
    /// client that polls might be there first. With many keys longer, so that the looks stay a small
    /// part of what the server does.
    pub fn pause(&self) -> Millis {
        let many = self.by_key.len() as u64 / LOOKS_PER_MS;
        Millis(many.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    /// Nobody waits for it any more.
    pub fn remove(&mut self, key: Key<'_>) {
        if self.by_key.is_empty() {
            return;
        }
        let key = key.to_owned();
        if let Some(end) = self.by_key.remove(&key) {
            self.by_end.remove(&(end, key));
        }
    }

    /// A key whose moment has come.
    pub fn pop_over(&mut self, now: Instant) -> Option<KeyBuf> {
        if !self.first()?.is_over(now) {
            return None;
        }
        let (_, key) = self.by_end.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Forgets what `stays` does not name.
    pub fn retain(&mut self, stays: impl Fn(&KeyBuf) -> bool) {
        self.by_end.retain(|(_, key)| stays(key));
        self.by_key.retain(|key, _| stays(key));
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_end.is_empty()
    }
}

/// Keys are looked at so often in a millisecond, if there are many.
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
