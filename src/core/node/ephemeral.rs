//! The grants that end with a connection, and the grants of closed connections.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use crate::words::{ClientId, Key, KeyBuf};

/// A grant: a token at a key, and its connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GrantId {
    pub client: ClientId,
    pub key: KeyBuf,
    pub token: Box<[u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Ephemeral {
    /// The grants, by connection.
    grants: BTreeSet<GrantId>,
    /// Closed connections with grants. A connection may have had very many, so they end one by one.
    closed: VecDeque<ClientId>,
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
        if self.grants.insert(GrantId::of(key, token, client)) {
            self.bytes += size(key, token);
        }
    }

    /// Removes a grant.
    pub fn remove(&mut self, key: Key<'_>, token: &[u8], client: ClientId) {
        if self.grants.remove(&GrantId::of(key, token, client)) {
            self.bytes -= size(key, token);
        }
    }

    /// Removes the grants at keys that `goes` selects.
    pub fn emptied(&mut self, goes: impl Fn(Key<'_>) -> bool) {
        let bytes = &mut self.bytes;
        self.grants.retain(|grant| {
            let goes = goes(grant.key.as_key());
            *bytes -= if goes { size(grant.key.as_key(), &grant.token) } else { 0 };
            !goes
        });
    }

    /// Notes that a connection has closed: its grants are to end.
    pub fn closed(&mut self, client: ClientId) {
        if self.first_of(client).is_some() {
            self.closed.push_back(client);
        }
    }

    /// True if this connection has closed, and has grants that are to end.
    pub fn has_closed(&self, client: ClientId) -> bool {
        self.closed.contains(&client)
    }

    /// True if grants of closed connections are to end.
    pub fn any_leaving(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Takes the next such grant. Connections take turns: one grant does not wait for thousands of another connection.
    pub fn next_leaving(&mut self) -> Option<GrantId> {
        while let Some(client) = self.closed.pop_front() {
            if let Some(grant) = self.first_of(client).cloned() {
                self.remove(grant.key.as_key(), &grant.token, grant.client);
                self.closed.push_back(client);
                return Some(grant);
            }
        }
        None
    }

    fn first_of(&self, client: ClientId) -> Option<&GrantId> {
        let least = GrantId { client, key: KeyBuf::default(), token: [].into() };
        self.grants.range(least..).next().filter(|grant| grant.client == client)
    }

    /// The grants of open connections.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &GrantId> {
        let bytes = self.grants.iter().map(|grant| size(grant.key.as_key(), &grant.token));
        assert_eq!(bytes.sum::<u64>(), self.bytes);
        self.grants.iter().filter(|grant| !self.closed.contains(&grant.client))
    }
}

impl GrantId {
    fn of(key: Key<'_>, token: &[u8], client: ClientId) -> GrantId {
        GrantId { key: key.to_owned(), token: token.into(), client }
    }
}

/// The bytes of a grant's name and of its entry.
pub(super) fn size(key: Key<'_>, token: &[u8]) -> u64 {
    100 + (key.name.len() + token.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_does_not_wait_for_all_grants_of_another() {
        let mut ephemeral = Ephemeral::default();
        for (name, client) in [("a", 1), ("b", 1), ("c", 1), ("d", 2)] {
            ephemeral.add(Key { db: 0, name: name.as_bytes() }, b"t", ClientId(client));
        }
        ephemeral.closed(ClientId(1));
        ephemeral.closed(ClientId(2));
        let leaving = core::iter::from_fn(|| ephemeral.next_leaving());
        let clients: alloc::vec::Vec<u64> = leaving.map(|grant| grant.client.0).collect();
        assert_eq!(clients, [1, 2, 1, 1]);
    }
}
