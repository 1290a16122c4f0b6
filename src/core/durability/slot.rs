//! The fence counter of a key.

use xxhash_rust::xxh3::xxh3_64;

/// The number of a key's counter. The key's name alone decides, so a key keeps its slot when it moves to
/// another database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u16);

impl Slot {
    /// The slot of the key with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> Slot {
        Slot((xxh3_64(name) % SLOTS as u64) as u16)
    }

    /// The slot with this index, if there is one.
    #[must_use]
    pub fn at(index: u64) -> Option<Slot> {
        u16::try_from(index).ok().map(Slot).filter(|slot| slot.index() < SLOTS)
    }

    /// The index, below [`SLOTS`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of counters, 8 bytes each. Keys that share one are no worse off than with one counter for all
/// keys.
pub const SLOTS: usize = 4096;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_name_has_a_slot_and_names_are_spread() {
        assert_eq!(Slot::of(b"job:42"), Slot::of(b"job:42"));
        let mut slots: Vec<u16> = (0..1000_u32).map(|n| Slot::of(&n.to_be_bytes()).0).collect();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() > 850 && slots.iter().all(|slot| usize::from(*slot) < SLOTS));
    }
}
