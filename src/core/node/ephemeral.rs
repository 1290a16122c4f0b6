//! The grants that end with a connection, and the grants of closed connections.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::GrantId;
use crate::words::{ClientId, Key};

#[derive(Debug, Default)]
pub(super) struct Ephemeral {
    by_client: BTreeMap<ClientId, BTreeSet<GrantId>>,
    /// The grants of closed connections, as they were then: a connection may have had very many, so each is
    /// checked only when it ends.
    leaving: VecDeque<BTreeSet<GrantId>>,
    /// The memory of all these grants.
    bytes: u64,
}

impl Ephemeral {
    /// An estimate of the memory that these grants take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a grant.
    pub fn add(&mut self, key: Key<'_>, token: &[u8], client: ClientId) {
        let grants = self.by_client.entry(client).or_default();
        if grants.insert(GrantId::of(key, token, client)) {
            self.bytes += size(key, token);
        }
    }

    /// Removes a grant.
    pub fn remove(&mut self, key: Key<'_>, token: &[u8], client: ClientId) {
        let Some(grants) = self.by_client.get_mut(&client) else { return };
        if grants.remove(&GrantId::of(key, token, client)) {
            self.bytes -= size(key, token);
        }
        if grants.is_empty() {
            self.by_client.remove(&client);
        }
    }

    /// Removes the grants at keys that `goes` selects.
    pub fn emptied(&mut self, goes: impl Fn(Key<'_>) -> bool) {
        let bytes = &mut self.bytes;
        self.by_client.retain(|_, grants| {
            grants.retain(|grant| {
                let goes = goes(grant.key.as_key());
                *bytes -= if goes { size(grant.key.as_key(), &grant.token) } else { 0 };
                !goes
            });
            !grants.is_empty()
        });
    }

    /// Notes that a connection has closed: its grants are to end.
    pub fn closed(&mut self, client: ClientId) {
        self.leaving.extend(self.by_client.remove(&client));
    }

    /// True if grants of closed connections are to end.
    pub fn any_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Takes the next such grant.
    pub fn next_leaving(&mut self) -> Option<GrantId> {
        while let Some(grants) = self.leaving.front_mut() {
            if let Some(grant) = grants.pop_first() {
                self.bytes -= size(grant.key.as_key(), &grant.token);
                return Some(grant);
            }
            self.leaving.pop_front();
        }
        None
    }

    /// The grants of open connections.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &GrantId> {
        assert!(self.by_client.values().all(|grants| !grants.is_empty()));
        let all = self.by_client.values().chain(&self.leaving).flatten();
        let bytes: u64 = all.map(|grant| size(grant.key.as_key(), &grant.token)).sum();
        assert_eq!(bytes, self.bytes);
        self.by_client.values().flatten()
    }

    /// The number of grants that each closed connection has left.
    #[cfg(test)]
    pub fn leaving(&self) -> alloc::vec::Vec<usize> {
        self.leaving.iter().map(BTreeSet::len).collect()
    }
}

/// The bytes of a grant's name and of its entry.
pub(super) fn size(key: Key<'_>, token: &[u8]) -> u64 {
    100 + (key.name.len() + token.len()) as u64
}
