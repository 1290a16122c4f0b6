//! Keys with fences ahead of the clock, each stored exactly.
//!
//! Many keys share a counter. If it rose with every proposal, a client that may lock a few keys could drive the
//! fences of other keys ahead. So a fence that is farther ahead than a counter rises is stored here, for its
//! own key, until the clock has reached it. The room is limited, and each user has a share of it.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use sha2::{Digest, Sha256};

use super::slot::Slot;
use crate::limits::MAX_KEYS_AHEAD;
use crate::node::shares::Shares;
use crate::servers::slots::slot_of;
use crate::words::{Fence, Owner};

/// The keys, with their largest fences.
#[derive(Clone, Debug, Default)]
pub struct KeysAhead {
    keys: BTreeMap<KeyHash, Entry>,
    by_fence: BTreeSet<(Fence, KeyHash)>,
    shares: Shares,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: KeyAhead,
    fence: Fence,
    owner: Owner,
}

/// The hash of a key's name. It is cryptographic: otherwise a client could find a second name with the hash of
/// another user's key, and drive that key's fences ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u128);

impl KeyHash {
    /// The hash of the key with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> KeyHash {
        let digest = Sha256::digest(name);
        let half = digest.iter().take(16);
        KeyHash(half.fold(0, |hash, byte| hash << 8 | u128::from(*byte)))
    }

    /// Reads the hex digits.
    #[must_use]
    pub fn read(digits: &[u8]) -> Option<KeyHash> {
        let digits = core::str::from_utf8(digits).ok()?;
        u128::from_str_radix(digits, 16).ok().map(KeyHash)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A key as sent to other nodes: its hash, without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAhead {
    /// The hash of the name.
    pub hash: KeyHash,
    /// The fence counter of the key.
    pub slot: Slot,
    /// The key's slot in a cluster.
    pub in_cluster: u16,
}

impl KeyAhead {
    /// The key with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> KeyAhead {
        KeyAhead { hash: KeyHash::of(name), slot: Slot::of(name), in_cluster: slot_of(name) }
    }
}

impl KeysAhead {
    /// The largest fence of the key with this name, if it is stored here.
    #[must_use]
    pub fn of(&self, name: &[u8]) -> Option<Fence> {
        // Most nodes have no such key most of the time.
        if self.keys.is_empty() {
            return None;
        }
        self.keys.get(&KeyHash::of(name)).map(|entry| entry.fence)
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// True if there is room for the key with this name. A key that is there already counts for its first user.
    #[must_use]
    pub fn has_room(&self, name: &[u8], owner: Owner) -> bool {
        self.of(name).is_some() || self.shares.have_room(owner, 1, MAX_KEYS_AHEAD)
    }

    /// All keys, with their largest fences.
    pub fn all(&self) -> impl Iterator<Item = (KeyAhead, Fence)> + '_ {
        self.keys.values().map(|entry| (entry.key, entry.fence))
    }

    /// Stores a fence of the key. Without an owner, another node has decided the fence. False: there is no
    /// room, and nothing has changed.
    pub fn remember(&mut self, key: KeyAhead, fence: Fence, owner: Option<Owner>) -> bool {
        let hash = key.hash;
        if let Some(entry) = self.keys.get_mut(&hash) {
            if entry.fence < fence {
                self.by_fence.remove(&(entry.fence, hash));
                self.by_fence.insert((fence, hash));
                entry.fence = fence;
            }
            return true;
        }
        // The node that decided the fence had room for it. Clocks differ, so this node may need more room.
        let room = if owner.is_some() { MAX_KEYS_AHEAD } else { 4 * MAX_KEYS_AHEAD };
        let owner = owner.unwrap_or_default();
        let taken = self.shares.take(owner, 1, room);
        if taken {
            self.keys.insert(hash, Entry { key, fence, owner });
            self.by_fence.insert((fence, hash));
        }
        taken
    }

    /// Forgets the key with the smallest fence, if the counter may rise `to` there. The caller must raise
    /// the key's counter to the fence returned.
    pub fn pass(&mut self, to: Fence) -> Option<(Slot, Fence)> {
        let (_, key) = self.by_fence.first().filter(|(fence, _)| *fence <= to).copied()?;
        self.by_fence.pop_first();
        let Entry { key, fence, owner } = self.keys.remove(&key)?;
        self.shares.give_back(owner, 1);
        Some((key.slot, fence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_hash_and_others_have_others() {
        assert_eq!(KeyHash::of(b"job:42"), KeyHash::of(b"job:42"));
        assert_ne!(KeyHash::of(b"job:42"), KeyHash::of(b"job:43"));
        let of_nothing = KeyHash(0xe3b0_c442_98fc_1c14_9afb_f4c8_996f_b924);
        assert_eq!(KeyHash::of(b""), of_nothing, "the same on every machine");
    }

    const EVE: Option<Owner> = Some(Owner(7));

    fn name(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    fn key(n: u64) -> KeyAhead {
        KeyAhead::of(&name(n))
    }

    #[test]
    fn a_key_has_its_own_fence_until_the_clock_has_come_so_far() {
        let mut ahead = KeysAhead::default();
        for (n, fence) in [(1, 900), (2, 500), (1, 700), (2, 600)] {
            assert!(ahead.remember(key(n), Fence(fence), EVE));
        }
        assert_eq!(ahead.of(&name(1)), Some(Fence(900)));
        assert_eq!((ahead.of(&name(2)), ahead.of(&name(3))), (Some(Fence(600)), None));
        assert_eq!(ahead.pass(Fence(599)), None);
        assert_eq!(ahead.pass(Fence(600)), Some((Slot::of(&name(2)), Fence(600))));
        assert_eq!((ahead.pass(Fence(899)), ahead.len()), (None, 1));
        assert_eq!(ahead.pass(Fence(900)), Some((Slot::of(&name(1)), Fence(900))));
        assert!(ahead.is_empty() && ahead.by_fence.is_empty());
    }
}
