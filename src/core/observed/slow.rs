//! The last slow waits and long holds.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::limits::SLOW_ENTRIES;
use crate::who::{Who, cut};
use crate::words::{Instant, Key};

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Slow {
    entries: VecDeque<Entry>,
    /// The number of slow waits and of long holds since the start.
    waits: u64,
    holds: u64,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A wait that ended with the lock.
    Wait,
    /// A wait that ended without the lock.
    WaitInVain,
    /// A hold.
    Hold,
}

impl What {
    /// The name in the reply of SLOW.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            What::Wait => "wait",
            What::WaitInVain => "wait-in-vain",
            What::Hold => "hold",
        }
    }
}

/// One slow wait or long hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry's number: one more than the entry before it.
    pub number: u64,
    /// The kind.
    pub what: What,
    /// Time at which it ended.
    pub ended: Instant,
    /// The length in microseconds.
    pub micros: u64,
    /// The database.
    pub db: u32,
    /// The key, cut.
    pub key: Box<[u8]>,
    /// The waiter or the holder.
    pub who: Who,
    /// The last holder of the lock that was waited for.
    pub holder: Option<Who>,
}

impl Slow {
    /// Adds an entry; the oldest goes, if there are too many.
    pub fn note(
        &mut self,
        (what, micros): (What, u64),
        key: Key<'_>,
        who: Who,
        holder: Option<Who>,
        now: Instant,
    ) {
        let number = self.waits + self.holds;
        match what {
            What::Wait | What::WaitInVain => self.waits += 1,
            What::Hold => self.holds += 1,
        }
        if self.entries.len() >= SLOW_ENTRIES {
            self.entries.pop_back();
        }
        let (db, key) = (key.db, cut(key.name));
        let entry = Entry { number, what, ended: now, micros, db, key, who, holder };
        self.entries.push_front(entry);
    }

    /// All entries, the newest first.
    pub fn newest(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The number of slow waits since the start.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// The number of long holds since the start.
    #[must_use]
    pub fn holds(&self) -> u64 {
        self.holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(slow: &mut Slow, what: What, name: &[u8]) {
        slow.note((what, 5), Key { db: 0, name }, Who::of(b"alice", b""), None, Instant(7));
    }

    #[test]
    fn the_newest_comes_first_and_the_oldest_goes() {
        let mut slow = Slow::default();
        for _ in 0..SLOW_ENTRIES {
            note(&mut slow, What::Wait, b"job");
        }
        note(&mut slow, What::Hold, b"job");
        assert_eq!(slow.newest().len(), SLOW_ENTRIES);
        let first = slow.newest().next().map(|entry| (entry.number, entry.what));
        assert_eq!(first, Some((SLOW_ENTRIES as u64, What::Hold)));
        assert_eq!(slow.newest().last().map(|entry| entry.number), Some(1));
        assert_eq!((slow.waits(), slow.holds()), (SLOW_ENTRIES as u64, 1));
        note(&mut slow, What::WaitInVain, b"job");
        assert_eq!(slow.newest().next().map(|entry| entry.number), Some(SLOW_ENTRIES as u64 + 1));
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let mut slow = Slow::default();
        note(&mut slow, What::Wait, &[b'k'; 128]);
        note(&mut slow, What::Wait, &b"k".repeat(200_000));
        let keys: alloc::vec::Vec<usize> = slow.newest().map(|entry| entry.key.len()).collect();
        assert_eq!(keys, [128 + "... (199872 more bytes)".len(), 128]);
        let key = slow.newest().next().map(|entry| entry.key.clone());
        assert!(key.is_some_and(|key| key.ends_with(b"k... (199872 more bytes)")));
    }
}
