//! The room for connections: each user's share, and a few of clients over TCP that have not logged in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_core::Owner;
use dlock_core::shares::Shares;

use super::Agent;
use super::limits::{CONNECTIONS, STRANGERS};
use super::tie::Tie;

/// The connections.
pub struct Room {
    /// The number of connections that there is room for, and that of connections that have never logged in.
    most: (u64, u64),
    shares: Mutex<Shares>,
    /// Connections that have never logged in, the oldest first.
    strangers: Mutex<BTreeMap<u64, Arc<Tie>>>,
}

/// A connection's part of its user's share. A request has it, too, until it is answered: a client may close its
/// connections before that, one after the other.
pub struct Share {
    pub agent: Arc<Agent>,
    pub owner: Owner,
}

impl Share {
    /// Takes a part. `None`: the user has as many connections as one user may have.
    pub fn take(agent: &Arc<Agent>, owner: Owner) -> Option<Arc<Share>> {
        let is_taken = agent.room.shares().take(owner, 1, agent.room.most.0);
        is_taken.then(|| Arc::new(Share { agent: Arc::clone(agent), owner }))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.agent.room.shares().give_back(self.owner, 1);
    }
}

impl Room {
    /// The room in a process that may have this many open files. Half of them are for requests that wait, each of which
    /// has a connection to a node.
    pub fn of(files: u64) -> Room {
        Room {
            most: (CONNECTIONS.min(files / 8 * 3), STRANGERS.min(files / 16)),
            shares: Mutex::default(),
            strangers: Mutex::default(),
        }
    }

    /// Adds a connection of somebody who has not logged in. Of too many the oldest is closed, and not the newest:
    /// whoever has the password gives it at once.
    pub fn add_stranger(&self, connection: u64, tie: &Arc<Tie>) {
        let mut strangers = self.strangers();
        strangers.insert(connection, Arc::clone(tie));
        if strangers.len() as u64 > self.most.1
            && let Some((_, oldest)) = strangers.pop_first()
        {
            oldest.lose();
        }
    }

    pub fn remove_stranger(&self, connection: u64) {
        self.strangers().remove(&connection);
    }

    /// Number of connections.
    pub fn len(&self) -> u64 {
        self.shares().taken() + self.strangers().len() as u64
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strangers(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Tie>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
