//! Work that could not be done where it was found, because nothing may be written there. The next
//! turns do it, a little at a time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::Place;
use crate::host::Ending;
use crate::words::{ClientId, Key, KeyBuf, Millis};

/// What becomes of a grant whose connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// It ends.
    End(Ending),
    /// Nobody has heard of it, and its place is to be kept for so long.
    Cut(Millis),
}

/// The work that is left.
#[derive(Debug, Default)]
pub(super) struct PutOff {
    /// Locks whose first waiter may be grantable.
    to_serve: VecDeque<KeyBuf>,
    /// The same keys, so that none is there twice.
    serving: BTreeSet<KeyBuf>,
    /// Grants of which nobody was told, and that end or become shorter if that connection still
    /// speaks for them. By place, so that a later grant there finds them at once.
    to_end: BTreeMap<Place, Undo>,
    /// The ephemeral grants of connections that have closed, as they were when those did: a
    /// connection may have had very many, so none is looked at before its turn.
    leaving: VecDeque<BTreeSet<Place>>,
}

impl PutOff {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.to_end.is_empty() && self.leaving.is_empty() && self.to_serve.is_empty()
    }

    /// Somebody else does it, or it need not be done any more.
    pub fn clear(&mut self) {
        *self = PutOff::default();
    }

    /// The first waiter at the key may be grantable.
    pub fn serve(&mut self, key: KeyBuf) {
        if self.serving.insert(key.clone()) {
            self.to_serve.push_back(key);
        }
    }

    /// The next key whose waiters are to be looked at.
    pub fn next_to_serve(&mut self) -> Option<KeyBuf> {
        let key = self.to_serve.pop_front()?;
        self.serving.remove(&key);
        Some(key)
    }

    /// A grant of which nobody was told.
    pub fn undo(&mut self, place: Place, undo: Undo) {
        self.to_end.insert(place, undo);
    }

    /// The ephemeral grants of a connection that has closed.
    pub fn end_all(&mut self, places: BTreeSet<Place>) {
        self.leaving.push_back(places);
    }

    /// The next grant that is to end or to become shorter.
    pub fn next_undo(&mut self) -> Option<(Place, Undo)> {
        if let Some(first) = self.to_end.pop_first() {
            return Some(first);
        }
        while let Some(places) = self.leaving.front_mut() {
            if let Some(place) = places.pop_first() {
                return Some((place, Undo::End(Ending::Disconnected)));
            }
            self.leaving.pop_front();
        }
        None
    }

    /// The token is granted the lock, or asks again: what was to end is an earlier grant, or was
    /// not meant to end after all.
    pub fn cancel_ending(&mut self, key: Key<'_>, token: &[u8]) {
        if self.to_end.is_empty() {
            return;
        }
        let of = |client| Place::of(key, token, ClientId(client));
        let places = self.to_end.range(of(0)..=of(u64::MAX));
        let places: Vec<Place> = places.map(|(place, _)| place.clone()).collect();
        for place in places {
            self.to_end.remove(&place);
        }
    }

    /// How many ephemeral grants each closed connection has left.
    #[cfg(test)]
    pub fn leaving(&self) -> Vec<usize> {
        self.leaving.iter().map(BTreeSet::len).collect()
    }
}
