//! A store that several share, and of which nobody takes more than is left for others.
//!
//! No number that fits all has to be found for one user's share: one that is alone can have half
//! of the store, two that take all they can get have a third each, and somebody who has nothing
//! yet finds room as long as there is any.

use alloc::collections::BTreeMap;

use crate::words::Owner;

/// How much of the store is taken, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    taken: u64,
    by_owner: BTreeMap<Owner, u64>,
}

impl Shares {
    /// Takes so much of a store with so much room. False: that would leave less for others than
    /// the owner has, and nothing has changed.
    pub fn take(&mut self, owner: Owner, units: u64, room: u64) -> bool {
        let may = self.have_room(owner, units, room);
        if may {
            self.add(owner, units);
        }
        may
    }

    /// Whether the owner can take so much more of a store with so much room.
    #[must_use]
    pub fn have_room(&self, owner: Owner, units: u64, room: u64) -> bool {
        let own = self.of(owner).saturating_add(units);
        let left = room.checked_sub(self.taken.saturating_add(units));
        left.is_some_and(|left| own <= left.max(units))
    }

    /// Takes so much, whatever room there is.
    pub fn add(&mut self, owner: Owner, units: u64) {
        self.taken = self.taken.saturating_add(units);
        let own = self.of(owner).saturating_add(units);
        self.by_owner.insert(owner, own);
    }

    /// Gives back what was taken.
    pub fn give_back(&mut self, owner: Owner, units: u64) {
        self.taken = self.taken.saturating_sub(units);
        match self.of(owner).saturating_sub(units) {
            0 => self.by_owner.remove(&owner),
            left => self.by_owner.insert(owner, left),
        };
    }

    /// How much is taken.
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

    /// Takes all that it can get.
    fn fill(shares: &mut Shares, owner: u64) -> u64 {
        (0..).take_while(|_| shares.take(Owner(owner), 1, 90)).count() as u64
    }

    #[test]
    fn one_alone_has_half_and_who_has_nothing_yet_finds_room() {
        let mut shares = Shares::default();
        assert_eq!(fill(&mut shares, 1), 45);
        assert_eq!(fill(&mut shares, 2), 22);
        for other in 3..9 {
            assert!(shares.take(Owner(other), 1, 90), "{other}");
        }
    }

    #[test]
    fn who_has_nothing_yet_gets_the_last_unit() {
        let mut shares = Shares::default();
        shares.add(Owner(1), 89);
        assert!(!shares.take(Owner(1), 1, 90));
        assert!(!shares.take(Owner(2), 2, 90));
        assert!(shares.take(Owner(2), 1, 90));
        assert!(!shares.take(Owner(3), 1, 90));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_nobody_is_remembered_for_nothing() {
        let mut shares = Shares::default();
        assert!(shares.take(Owner(1), 40, 90));
        assert!(!shares.take(Owner(1), 6, 90));
        shares.give_back(Owner(1), 40);
        assert!(shares.by_owner.is_empty() && shares.taken == 0);
        assert!(shares.take(Owner(1), 45, 90));
    }
}
