//! The agent's room for connections, locks, waiting requests and unread replies: each user's share of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_core::Owner;
use dlock_core::node::shares::Shares;

use super::figures::Counted;
use super::limits::{CONNECTIONS, STRANGERS, UNREAD};
use super::tie::Tie;

/// Room of one kind. One user can have half of it.
pub struct Room {
    most: u64,
    taken: Mutex<Shares>,
}

/// A part of the room, until it is dropped.
pub struct Part {
    room: Arc<Room>,
    owner: Owner,
    size: u64,
}

impl Room {
    pub fn of(most: u64) -> Arc<Room> {
        Arc::new(Room { most, taken: Mutex::default() })
    }

    /// Takes a part. `None`: there is no room for this user.
    pub fn take(self: &Arc<Self>, owner: Owner, size: u64) -> Option<Part> {
        let is_taken = locked(&self.taken).take(owner, size, self.most);
        is_taken.then(|| Part { room: Arc::clone(self), owner, size })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        locked(&self.room.taken).give_back(self.owner, self.size);
    }
}

/// The connections, and the bytes that clients do not read.
pub struct Connections {
    known: Arc<Room>,
    /// Connections that have never logged in, the oldest first, and their limit.
    strangers: Mutex<BTreeMap<u64, (Counted, Arc<Tie>)>>,
    most_strangers: usize,
    /// Number of all connections.
    count: Arc<AtomicU64>,
    unread: Arc<Room>,
}

/// A connection's part of its user's share. A request keeps it, too, until it is answered: a client may close
/// its connections earlier, one after the other.
pub struct Share {
    part: Part,
    _counted: Counted,
}

impl Share {
    pub fn owner(&self) -> Owner {
        self.part.owner
    }
}

impl Connections {
    /// The connections of a process that may have this many open files. Half of them are for waiting requests, with a
    /// connection to a node each.
    pub fn of(files: u64, count: &Arc<AtomicU64>) -> Connections {
        Connections {
            known: Room::of(CONNECTIONS.min(files / 8 * 3)),
            strangers: Mutex::default(),
            most_strangers: STRANGERS.min(usize::try_from(files / 16).unwrap_or(STRANGERS)),
            count: Arc::clone(count),
            unread: Room::of(UNREAD),
        }
    }

    /// Adds a connection that has logged in. `None`: the user has reached the limit of its connections.
    pub fn add(&self, owner: Owner) -> Option<Arc<Share>> {
        let part = self.known.take(owner, 1)?;
        Some(Arc::new(Share { part, _counted: Counted::new(&self.count) }))
    }

    /// Adds a connection that has not logged in. Beyond the limit the oldest is closed: a client that has the
    /// password sends it at once.
    pub fn add_stranger(&self, connection: u64, tie: &Arc<Tie>) {
        let mut strangers = locked(&self.strangers);
        strangers.insert(connection, (Counted::new(&self.count), Arc::clone(tie)));
        if strangers.len() > self.most_strangers
            && let Some((_, (_, oldest))) = strangers.pop_first()
        {
            oldest.lost.set();
        }
    }

    pub fn remove_stranger(&self, connection: u64) {
        locked(&self.strangers).remove(&connection);
    }

    /// Number of connections.
    pub fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts bytes that a client does not read. `None`: there is no room for its user.
    pub fn unread(&self, owner: Owner, bytes: usize) -> Option<Part> {
        self.unread.take(owner, bytes as u64)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_half_of_the_room_at_most() {
        let room = Room::of(64);
        let mut parts: Vec<Part> = std::iter::from_fn(|| room.take(Owner(1), 1)).collect();
        assert_eq!(parts.len(), 32);
        assert!(room.take(Owner(2), 1).is_some(), "another user has room");
        parts.pop();
        assert!(room.take(Owner(1), 1).is_some(), "a part that was dropped makes room");
    }
}
