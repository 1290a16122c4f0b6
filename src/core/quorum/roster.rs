//! The node behind each address. Addresses change; a node has one vote, whatever its address.

use alloc::vec::Vec;

use crate::limits::MAX_SERVERS_OF_A_NODE;

/// The nodes of a set: their identities and their present addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster<I> {
    places: Vec<Place<I>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place<I> {
    /// The node's identity, once a server was met.
    id: Option<I>,
    /// The identities of the other servers of the same node, if it is a cluster.
    others: Vec<I>,
    /// The index of its present address in the given list.
    address: usize,
    /// The number of times that another server has taken this place.
    changes: u64,
}

/// The result of meeting a server at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The server is the node of this place, or the first one met there.
    Known,
    /// The server is another one. The caller finds out where the addresses lead now and calls
    /// [`rebind`](Roster::rebind). Then it looks again, and the server found [takes the place](Roster::take).
    Another,
}

/// The result of taking the place of a node that cannot be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupant<I> {
    /// The server had the place already, or is its first.
    Same,
    /// A new server took the place. With the former server's identity.
    Stranger(I),
    /// The server is the node of another place, so this one stays empty: two addresses lead to one node.
    Twin(usize),
}

impl<I: Clone + PartialEq> Roster<I> {
    /// This many nodes, each at its own address, none met yet.
    #[must_use]
    pub fn new(nodes: usize) -> Roster<I> {
        let place = |address| Place { id: None, others: Vec::new(), address, changes: 0 };
        Roster { places: (0..nodes).map(place).collect() }
    }

    /// The index of the node's present address.
    #[must_use]
    pub fn address(&self, place: usize) -> usize {
        self.places.get(place).map_or(place, |place| place.address)
    }

    /// The number of times that another server has taken this place. The former server's grants do not count
    /// for it.
    #[must_use]
    pub fn changes(&self, place: usize) -> u64 {
        self.places.get(place).map_or(0, |place| place.changes)
    }

    /// Judges the identity of a server that was reached for this place.
    pub fn meet(&mut self, place: usize, id: &I) -> Met {
        match (self.place_of(id), self.places.get_mut(place)) {
            (Some(at), _) if at == place => Met::Known,
            (None, Some(Place { id: unknown @ None, .. })) => {
                *unknown = Some(id.clone());
                Met::Known
            }
            _ => Met::Another,
        }
    }

    /// Gives this place to the server reached for it. The caller must have looked for all nodes before.
    pub fn take(&mut self, place: usize, id: I) -> Occupant<I> {
        let taken = self.follow(place, id);
        if matches!(taken, Occupant::Stranger(_)) {
            self.changed(place);
        }
        taken
    }

    /// Notes that earlier grants at this place no longer count.
    pub fn changed(&mut self, place: usize) {
        if let Some(entry) = self.places.get_mut(place) {
            entry.changes += 1;
        }
    }

    /// Like [`take`](Roster::take), for a place that is one node with changing servers: a primary and the
    /// replicas that can be promoted. The new server respects its predecessor's grants.
    pub fn follow(&mut self, place: usize, id: I) -> Occupant<I> {
        if let Some(at) = self.place_of(&id) {
            return if at == place { Occupant::Same } else { Occupant::Twin(at) };
        }
        let Some(entry) = self.places.get_mut(place) else { return Occupant::Same };
        entry.id.replace(id).map_or(Occupant::Same, Occupant::Stranger)
    }

    /// Like [`take`](Roster::take), for a place with several servers at the same time: a cluster.
    pub fn join(&mut self, place: usize, id: I) -> Occupant<I> {
        if let Some(at) = self.place_of(&id) {
            return if at == place { Occupant::Same } else { Occupant::Twin(at) };
        }
        if let Some(entry) = self.places.get_mut(place) {
            if entry.others.len() >= MAX_SERVERS_OF_A_NODE {
                entry.others.remove(0);
            }
            entry.others.push(id);
        }
        Occupant::Same
    }

    /// The identity of the node at this place, if it is known.
    #[must_use]
    pub fn id(&self, place: usize) -> Option<&I> {
        self.places.get(place).and_then(|place| place.id.as_ref())
    }

    /// True if the node, or server of a cluster, was met at this place.
    #[must_use]
    pub fn has(&self, place: usize, id: &I) -> bool {
        self.place_of(id) == Some(place)
    }

    fn place_of(&self, id: &I) -> Option<usize> {
        self.places
            .iter()
            .position(|place| place.id.as_ref() == Some(id) || place.others.contains(id))
    }

    /// Moves nodes to the addresses where they were seen; the other nodes share the remaining addresses.
    pub fn rebind(&mut self, seen: &[Option<I>]) {
        let leads = |address: usize, id: &Option<I>| {
            id.is_some() && seen.get(address).is_some_and(|there| there == id)
        };
        let found: Vec<Option<usize>> = self
            .places
            .iter()
            .map(|Place { id, address, .. }| match leads(*address, id) {
                true => Some(*address),
                false => (0..seen.len()).find(|address| leads(*address, id)),
            })
            .collect();
        let mut left: Vec<usize> =
            (0..self.places.len()).filter(|address| !found.contains(&Some(*address))).collect();
        // A node that can stay at its address stays.
        for (place, _) in self.places.iter_mut().zip(&found).filter(|(_, found)| found.is_none()) {
            let own = left.iter().position(|address| *address == place.address);
            place.address = own.map_or(usize::MAX, |at| left.swap_remove(at));
        }
        left.sort_unstable();
        let mut left = left.into_iter();
        for (place, found) in self.places.iter_mut().zip(found) {
            match found {
                Some(address) => place.address = address,
                None if place.address == usize::MAX => {
                    place.address = left.next().unwrap_or_default();
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three nodes that were met at their addresses.
    fn met() -> Roster<char> {
        let mut roster = Roster::new(3);
        for (place, id) in ['a', 'b', 'c'].into_iter().enumerate() {
            assert_eq!(roster.meet(place, &id), Met::Known);
        }
        roster
    }

    fn addresses(roster: &Roster<char>) -> [usize; 3] {
        [0, 1, 2].map(|place| roster.address(place))
    }

    #[test]
    fn a_node_is_known_again() {
        let mut roster = met();
        assert_eq!(roster.meet(1, &'b'), Met::Known);
        assert_eq!(addresses(&roster), [0, 1, 2]);
    }

    #[test]
    fn nodes_that_exchange_their_addresses_keep_their_places() {
        let mut roster = met();
        assert_eq!(roster.meet(0, &'b'), Met::Another);
        roster.rebind(&[Some('b'), Some('a'), Some('c')]);
        assert_eq!(addresses(&roster), [1, 0, 2]);
        assert_eq!(roster.meet(0, &'a'), Met::Known);
        assert_eq!(roster.meet(1, &'b'), Met::Known);
        roster.rebind(&[Some('c'), Some('a'), Some('b')]);
        assert_eq!(addresses(&roster), [1, 2, 0]);
    }

    #[test]
    fn a_node_that_took_the_address_of_one_that_is_away_is_found_there() {
        let mut roster = met();
        assert_eq!(roster.meet(0, &'b'), Met::Another);
        roster.rebind(&[Some('b'), None, Some('c')]);
        assert_eq!(addresses(&roster), [1, 0, 2]);
    }

    #[test]
    fn two_addresses_of_one_node_have_one_vote() {
        let mut roster = met();
        assert_eq!(roster.meet(0, &'b'), Met::Another);
        roster.rebind(&[Some('b'), Some('b'), Some('c')]);
        assert_eq!(addresses(&roster), [0, 1, 2]);
        assert_eq!(roster.take(0, 'b'), Occupant::Twin(1));

        let mut roster = Roster::new(2);
        assert_eq!(roster.meet(1, &'x'), Met::Known);
        assert_eq!(roster.meet(0, &'x'), Met::Another);
        roster.rebind(&[Some('x'), Some('x')]);
        assert_eq!(roster.take(0, 'x'), Occupant::Twin(1));
    }

    #[test]
    fn an_unknown_server_takes_the_place_and_that_is_told() {
        let mut roster = met();
        assert_eq!(roster.meet(1, &'x'), Met::Another);
        roster.rebind(&[Some('a'), Some('x'), Some('c')]);
        assert_eq!(addresses(&roster), [0, 1, 2]);
        assert_eq!(roster.take(1, 'x'), Occupant::Stranger('b'));
        assert_eq!([0, 1, 2].map(|place| roster.changes(place)), [0, 1, 0]);
        assert_eq!(roster.meet(1, &'x'), Met::Known);
        assert_eq!(roster.changes(1), 1);
    }

    #[test]
    fn a_stranger_at_its_address_does_not_replace_a_node_that_has_another_address() {
        let mut roster = Roster::new(2);
        assert_eq!(roster.meet(0, &'a'), Met::Known);
        assert_eq!(roster.meet(0, &'x'), Met::Another);
        roster.rebind(&[Some('x'), Some('a')]);
        assert_eq!([0, 1].map(|place| roster.address(place)), [1, 0]);
        assert_eq!(roster.meet(1, &'x'), Met::Known);
        assert_eq!(roster.changes(0), 0);
    }

    #[test]
    fn no_node_loses_its_address_to_a_server_that_could_not_be_asked() {
        let mut roster = met();
        roster.rebind(&[None, None, None]);
        assert_eq!(addresses(&roster), [0, 1, 2]);
        roster.rebind(&[None, Some('x'), Some('b')]);
        assert_eq!(addresses(&roster), [0, 2, 1]);
    }

    #[test]
    fn a_promoted_server_takes_the_place_and_what_was_granted_counts_on() {
        let mut roster = met();
        assert_eq!(roster.follow(1, 'x'), Occupant::Stranger('b'));
        assert_eq!(roster.follow(1, 'x'), Occupant::Same);
        assert_eq!(roster.follow(1, 'a'), Occupant::Twin(0));
        assert_eq!((roster.changes(1), roster.id(1)), (0, Some(&'x')));
    }

    #[test]
    fn all_servers_of_a_cluster_are_one_node_and_no_other() {
        let mut roster = Roster::new(2);
        assert_eq!(['a', 'b', 'a'].map(|id| roster.join(0, id)), [const { Occupant::Same }; 3]);
        assert_eq!(roster.join(1, 'b'), Occupant::Twin(0));
        assert_eq!(roster.meet(1, &'b'), Met::Another);
        assert_eq!(roster.take(1, 'b'), Occupant::Twin(0));
    }

    #[test]
    fn so_many_servers_of_a_cluster_are_known_and_the_oldest_is_forgotten() {
        let mut roster = Roster::new(2);
        for id in 0..=MAX_SERVERS_OF_A_NODE {
            assert_eq!(roster.join(0, id), Occupant::Same);
        }
        assert_eq!(roster.join(1, 1), Occupant::Twin(0));
        assert_eq!(roster.join(1, 0), Occupant::Same);
    }
}
