//! The room for connections, and for replies that clients do not read: each user's share of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_core::Owner;
use dlock_core::node::shares::Shares;

use super::figures::Counted;
use super::limits::{CONNECTIONS, STRANGERS, UNREAD};
use super::tie::Tie;

/// The connections and the bytes that clients do not read, counted by user.
pub struct Room {
    /// Limit of connections, and limit of connections that have never logged in.
    most: (u64, u64),
    connections: Mutex<Shares>,
    /// Bytes that clients do not read.
    unread: Mutex<Shares>,
    /// Connections that have never logged in, the oldest first.
    strangers: Mutex<BTreeMap<u64, (Counted, Arc<Tie>)>>,
    /// Number of all connections.
    count: Arc<AtomicU64>,
}

/// A connection's part of its user's share. A request keeps it, too, until it is answered: a client may close
/// its connections earlier, one after the other.
pub struct Share {
    room: Arc<Room>,
    pub owner: Owner,
    _counted: Counted,
}

/// Bytes of replies that a client does not read, until they are sent.
pub struct Unread<'a> {
    room: &'a Room,
    owner: Owner,
    bytes: u64,
}

impl Share {
    /// Takes a part. `None`: the user has reached the limit of its connections.
    pub fn take(room: &Arc<Room>, owner: Owner) -> Option<Arc<Share>> {
        let is_taken = locked(&room.connections).take(owner, 1, room.most.0);
        is_taken.then(|| {
            Arc::new(Share { room: Arc::clone(room), owner, _counted: Counted::new(&room.count) })
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        locked(&self.room.connections).give_back(self.owner, 1);
    }
}

impl Room {
    /// The room in a process that may have this many open files. Half of them are for waiting requests, with a
    /// connection to a node each.
    pub fn of(files: u64, count: &Arc<AtomicU64>) -> Arc<Room> {
        Arc::new(Room {
            most: (CONNECTIONS.min(files / 8 * 3), STRANGERS.min(files / 16)),
            connections: Mutex::default(),
            unread: Mutex::default(),
            strangers: Mutex::default(),
            count: Arc::clone(count),
        })
    }

    /// Adds a connection that has not logged in. Beyond the limit the oldest is closed: a client that has the
    /// password sends it at once.
    pub fn add_stranger(&self, connection: u64, tie: &Arc<Tie>) {
        let mut strangers = locked(&self.strangers);
        strangers.insert(connection, (Counted::new(&self.count), Arc::clone(tie)));
        if strangers.len() as u64 > self.most.1
            && let Some((_, (_, oldest))) = strangers.pop_first()
        {
            oldest.lose();
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
    pub fn unread(&self, owner: Owner, bytes: usize) -> Option<Unread<'_>> {
        let bytes = bytes as u64;
        let is_taken = locked(&self.unread).take(owner, bytes, UNREAD);
        is_taken.then_some(Unread { room: self, owner, bytes })
    }
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        locked(&self.room.unread).give_back(self.owner, self.bytes);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_user_does_not_read_takes_half_of_the_room_at_most() {
        let room = Room::of(1_000, &Arc::default());
        let mut unread = Vec::new();
        while let Some(more) = room.unread(Owner(1), 1 << 20) {
            unread.push(more);
        }
        assert_eq!(unread.len() as u64, (UNREAD / 2) >> 20);
        assert!(room.unread(Owner(2), 1 << 20).is_some(), "another user has room");
        unread.pop();
        assert!(room.unread(Owner(1), 1 << 20).is_some(), "what was sent makes room");
    }
}
