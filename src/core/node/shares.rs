//! Fair shares of a limited store: no owner takes more than it leaves for other owners.
//!
//! The rule needs no fixed share for one user. One user alone can have half of the store, and two users that
//! take all they can get have a third each. A user without any finds room for one unit as long as there is one.

use alloc::collections::BTreeMap;

use crate::limits::BYTES_PER_UNIT;
use crate::words::Owner;

/// The units that names and texts of this many bytes take: long ones take the room of several.
#[must_use]
pub fn units(bytes: usize) -> u64 {
    1 + (bytes / BYTES_PER_UNIT) as u64
}

/// The units taken from the store, in all and by owner.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    taken: u64,
    by_owner: BTreeMap<Owner, u64>,
}

impl Shares {
    /// Takes `units` of a store of `room` units. False: less would be left than the owner then has, and nothing
    /// has changed.
    pub fn take(&mut self, owner: Owner, units: u64, room: u64) -> bool {
        let may = self.have_room(owner, units, room);
        if may {
            self.add(owner, units);
        }
        may
    }

    /// True if the owner can take `units` more of a store of `room` units; without any it takes nothing.
    #[must_use]
    pub fn have_room(&self, owner: Owner, units: u64, room: u64) -> bool {
        let own = self.of(owner).saturating_add(units);
        let left = room.checked_sub(self.taken.saturating_add(units));
        units == 0 || left.is_some_and(|left| own <= left.max(1))
    }

    /// Takes `units`, even beyond the room.
    pub fn add(&mut self, owner: Owner, units: u64) {
        self.taken = self.taken.saturating_add(units);
        let own = self.of(owner).saturating_add(units);
        self.by_owner.insert(owner, own);
    }

    /// Returns `units` to the store.
    pub fn give_back(&mut self, owner: Owner, units: u64) {
        self.taken = self.taken.saturating_sub(units);
        match self.of(owner).saturating_sub(units) {
            0 => self.by_owner.remove(&owner),
            left => self.by_owner.insert(owner, left),
        };
    }

    /// The units taken by all owners.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    fn of(&self, owner: Owner) -> u64 {
        self.by_owner.get(&owner).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_user_gets_the_last_unit() {
        let mut shares = Shares::default();
        shares.add(Owner(1), 89);
        assert!(!shares.take(Owner(1), 1, 90));
        assert!(!shares.take(Owner(2), 2, 90));
        assert!(shares.take(Owner(2), 1, 90));
        assert!(!shares.take(Owner(3), 1, 90));
        assert!(shares.take(Owner(1), 0, 90));
    }

    #[test]
    fn what_is_too_large_for_a_share_finds_no_room_in_an_empty_store() {
        let mut shares = Shares::default();
        assert!(!shares.take(Owner(1), 90, 90));
        assert!(!shares.take(Owner(1), 46, 90));
        assert!(shares.take(Owner(1), 45, 90));
    }

    #[test]
    fn returned_units_can_be_taken_again_and_users_without_any_are_forgotten() {
        let mut shares = Shares::default();
        assert!(shares.take(Owner(1), 40, 90));
        assert!(!shares.take(Owner(1), 6, 90));
        shares.give_back(Owner(1), 40);
        assert!(shares.by_owner.is_empty() && shares.taken == 0);
        assert!(shares.take(Owner(1), 45, 90));
    }
}
