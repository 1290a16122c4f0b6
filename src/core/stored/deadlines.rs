//! An ordered index of deadlines: one entry a lock, in a little over ten bytes.
//!
//! Two levels: short sorted runs in one sorted list. Leases mostly end in the order of their grants, so most
//! entries are added at the end. A full last run is followed by a new one, and not split: runs stay full,
//! unlike the nodes of a general tree. The bytes saved count beside a plain string lock of about 120 bytes.

use alloc::vec::Vec;

use crate::words::Deadline;

/// The name in an entry: 48 bits, enough for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry(pub u64);

impl Entry {
    /// The largest name that fits.
    pub const MAX: Entry = Entry((1 << 48) - 1);
}

/// The index.
#[derive(Debug, Default)]
pub struct Deadlines {
    /// The runs, none of them empty, in the order of their entries.
    runs: Vec<Run>,
}

/// Entries near each other in time, sorted. Each is an offset in milliseconds from the base (32 bits) and a
/// name (48 bits), big-endian, so that the bytes sort as the entries do.
#[derive(Debug)]
struct Run {
    base: u64,
    /// The first entry once more, so that a search looks at the list of runs alone.
    first: [u8; 10],
    entries: Vec<[u8; 10]>,
}

const RUN: usize = 256;

impl Deadlines {
    /// The earliest entry.
    #[must_use]
    pub fn first(&self) -> Option<(Deadline, Entry)> {
        self.runs.first().and_then(Run::first)
    }

    /// All entries, the earliest first.
    pub fn iter(&self) -> impl Iterator<Item = (Deadline, Entry)> + '_ {
        self.runs.iter().flat_map(|run| run.entries.iter().map(|entry| run.read(entry)))
    }

    /// All entries, the latest first.
    pub fn backwards(&self) -> impl Iterator<Item = (Deadline, Entry)> + '_ {
        self.runs.iter().rev().flat_map(|run| run.entries.iter().rev().map(|entry| run.read(entry)))
    }

    /// Adds an entry that the index does not have.
    pub fn insert(&mut self, end: Deadline, entry: Entry) {
        debug_assert!(entry <= Entry::MAX, "an entry has 48 bits");
        let at = self.run_for(end, entry);
        let has_room = |run: &Run| run.reaches(end) && run.entries.len() < RUN;
        match self.runs.get_mut(at) {
            Some(run) if has_room(run) => run.insert(end, entry),
            Some(run) if run.first().is_some_and(|first| (end, entry) < first) => {
                self.runs.insert(at, Run::starting(end, entry));
            }
            Some(run) if run.last().is_some_and(|last| (end, entry) > last) => {
                match self.runs.get_mut(at + 1) {
                    Some(next) if has_room(next) => next.insert(end, entry),
                    _ => self.runs.insert(at + 1, Run::starting(end, entry)),
                }
            }
            Some(run) => {
                let tail = run.split();
                self.runs.insert(at + 1, tail);
                self.insert(end, entry);
            }
            None => self.runs.push(Run::starting(end, entry)),
        }
    }

    /// Removes an entry; false if the index does not have it.
    pub fn remove(&mut self, end: Deadline, entry: Entry) -> bool {
        let at = self.run_for(end, entry);
        let Some(run) = self.runs.get_mut(at) else { return false };
        if !run.remove(end, entry) {
            return false;
        }
        if run.entries.is_empty() {
            self.runs.remove(at);
        }
        true
    }

    /// Removes all entries that `goes` selects.
    pub fn drain(&mut self, mut goes: impl FnMut(Entry) -> bool) {
        for run in &mut self.runs {
            run.entries.retain(|entry| !goes(name(entry)));
            run.note_first();
        }
        self.runs.retain(|run| !run.entries.is_empty());
    }

    /// The last run that does not begin after the entry, or the first.
    fn run_for(&self, end: Deadline, entry: Entry) -> usize {
        let begins_by_then = |run: &Run| run.first().is_some_and(|first| first <= (end, entry));
        // The last run is the usual one.
        if self.runs.last().is_some_and(begins_by_then) {
            return self.runs.len() - 1;
        }
        self.runs.partition_point(begins_by_then).saturating_sub(1)
    }
}

impl Run {
    fn starting(end: Deadline, entry: Entry) -> Run {
        let mut entries = Vec::with_capacity(1);
        // Room for earlier entries, so that the base need not move.
        let base = end.0.saturating_sub(1 << 31);
        entries.push(pack(end.0 - base, entry));
        let first = pack(end.0 - base, entry);
        Run { base, first, entries }
    }

    fn reaches(&self, end: Deadline) -> bool {
        end.0.checked_sub(self.base).is_some_and(|offset| u32::try_from(offset).is_ok())
    }

    fn insert(&mut self, end: Deadline, entry: Entry) {
        let packed = pack(end.0 - self.base, entry);
        if self.entries.last().is_none_or(|last| *last < packed) {
            self.entries.push(packed);
            return;
        }
        let at = self.entries.partition_point(|other| *other < packed);
        self.entries.insert(at, packed);
        self.note_first();
    }

    fn remove(&mut self, end: Deadline, entry: Entry) -> bool {
        if !self.reaches(end) {
            return false;
        }
        match self.entries.binary_search(&pack(end.0 - self.base, entry)) {
            Ok(at) => {
                self.entries.remove(at);
                self.note_first();
                if self.entries.len() < self.entries.capacity() / 4 {
                    self.entries.shrink_to(self.entries.len() * 2);
                }
                true
            }
            Err(_) => false,
        }
    }

    fn split(&mut self) -> Run {
        let entries = self.entries.split_off(self.entries.len() / 2);
        self.entries.shrink_to(RUN);
        let mut tail = Run { base: self.base, first: self.first, entries };
        tail.note_first();
        tail
    }

    /// The first entry. An empty run has none, and is dropped at once.
    fn first(&self) -> Option<(Deadline, Entry)> {
        Some(self.read(&self.first))
    }

    fn note_first(&mut self) {
        if let Some(first) = self.entries.first() {
            self.first = *first;
        }
    }

    fn last(&self) -> Option<(Deadline, Entry)> {
        self.entries.last().map(|entry| self.read(entry))
    }

    fn read(&self, entry: &[u8; 10]) -> (Deadline, Entry) {
        let [a, b, c, d, ..] = *entry;
        (Deadline(self.base + u64::from(u32::from_be_bytes([a, b, c, d]))), name(entry))
    }
}

fn pack(offset: u64, entry: Entry) -> [u8; 10] {
    let [_, _, _, _, a, b, c, d] = offset.to_be_bytes();
    let [_, _, e, f, g, h, i, j] = entry.0.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j]
}

fn name(entry: &[u8; 10]) -> Entry {
    let [_, _, _, _, e, f, g, h, i, j] = *entry;
    Entry(u64::from_be_bytes([0, 0, e, f, g, h, i, j]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ends_in_order_fill_whole_runs() {
        let mut index = Deadlines::default();
        for i in 0..100_000 {
            index.insert(Deadline(30_000 + i / 100), Entry(i));
        }
        assert_eq!(index.iter().count(), 100_000);
        assert!(index.runs.len() <= 100_000 / RUN + 1, "{}", index.runs.len());
        let bytes: usize = index.runs.iter().map(|run| run.entries.capacity() * 10 + 32).sum();
        assert!(bytes < 11 * 100_000, "{bytes}");
    }

    #[test]
    fn ends_in_reverse_order_fill_whole_runs_behind_a_full_one() {
        let mut index = Deadlines::default();
        (0..RUN as u64).for_each(|i| index.insert(Deadline(i), Entry(i)));
        for i in 0..10_000 {
            index.insert(Deadline(30_000 - i), Entry(i));
        }
        assert!(index.runs.len() <= 10_000 / RUN + 2, "{}", index.runs.len());
    }

    #[test]
    fn an_end_in_the_middle_of_a_full_run_splits_it() {
        for extra in [1, RUN as u64 + 1, 2 * RUN as u64 - 3] {
            let mut index = Deadlines::default();
            let mut all: Vec<_> = (0..RUN as u64).map(|n| (Deadline(2 * n), Entry(n))).collect();
            all.push((Deadline(extra), Entry(9)));
            all.iter().for_each(|(end, entry)| index.insert(*end, *entry));
            all.sort_unstable();
            assert!(index.iter().eq(all.iter().copied()), "{extra}");
            let lengths: Vec<usize> = index.runs.iter().map(|run| run.entries.len()).collect();
            assert!(
                lengths.len() == 2 && lengths.iter().all(|length| *length >= RUN / 2),
                "{lengths:?}"
            );
        }
    }

    #[test]
    fn an_entry_has_48_bits() {
        let after = Entry(Entry::MAX.0 + 1);
        assert_eq!(name(&pack(7, Entry::MAX)), Entry::MAX);
        assert_ne!(name(&pack(7, after)), after);
    }

    #[test]
    fn a_run_gives_memory_back_when_most_of_its_locks_are_gone() {
        let mut index = Deadlines::default();
        (0..RUN as u64).for_each(|n| index.insert(Deadline(n), Entry(n)));
        (8..RUN as u64).for_each(|n| assert!(index.remove(Deadline(n), Entry(n))));
        let room: usize = index.runs.iter().map(|run| run.entries.capacity()).sum();
        assert!((8..=32).contains(&room), "{room}");
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_set(
            steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u64..1 << 34, any::<bool>()), 0..3000),
        ) {
            let mut index = Deadlines::default();
            let mut model = BTreeSet::new();
            for (add, name, time, near) in steps {
                let time = if near { time % 50 } else { time };
                let key = (Deadline(time), Entry(name));
                if add && model.insert(key) {
                    index.insert(key.0, key.1);
                } else if !add {
                    let key = if near { key } else { model.first().copied().unwrap_or(key) };
                    prop_assert_eq!(index.remove(key.0, key.1), model.remove(&key));
                }
                prop_assert_eq!(index.first(), model.first().copied());
            }
            prop_assert!(index.iter().eq(model.iter().copied()));
            prop_assert!(index.backwards().eq(model.iter().rev().copied()));
            index.drain(|entry| entry.0 % 2 == 0);
            model.retain(|(_, entry)| entry.0 % 2 != 0);
            prop_assert!(index.iter().eq(model.iter().copied()));
        }
    }
}
