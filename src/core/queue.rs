//! Who waits for a lock, and who is next: strictly in order of arrival.
//!
//! A request that may not overtake is simply one that finds the queue not empty. Writers do not
//! starve, because a reader behind a waiting writer waits too.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::words::{ClientId, Deadline, Fence, Instant, Millis, Mode, WaiterId};

/// A blocked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its handle at the host.
    pub id: WaiterId,
    /// The token it will hold the lock with.
    pub token: Box<[u8]>,
    /// How it wants to hold it.
    pub mode: Mode,
    /// The lease it asks for; it runs from the grant.
    pub ttl: Millis,
    /// Its fence is at least this.
    pub proposal: Option<Fence>,
    /// The connection that waits.
    pub client: ClientId,
    /// Whether the grant will end with that connection.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: Box<[u8]>,
    /// When it came.
    pub since: Instant,
    /// When it gives up; `None`: never.
    pub until: Option<Deadline>,
}

/// The waiters of one lock, in order.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiters: BTreeMap<u64, Waiter>,
    by_token: BTreeMap<Box<[u8]>, u64>,
    arrivals: u64,
}

impl Queue {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The next to be served.
    #[must_use]
    pub fn first(&self) -> Option<&Waiter> {
        self.waiters.values().next()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.values()
    }

    /// The one that waits with this token.
    #[must_use]
    pub fn get(&self, token: &[u8]) -> Option<&Waiter> {
        self.by_token.get(token).and_then(|place| self.waiters.get(place))
    }

    /// A newcomer goes to the end; a token that waits already keeps its place, and the request
    /// it replaces is returned.
    pub fn join(&mut self, waiter: Waiter) -> Option<Waiter> {
        if let Some(place) = self.by_token.get(&waiter.token) {
            return self.waiters.insert(*place, waiter);
        }
        self.by_token.insert(waiter.token.clone(), self.arrivals);
        self.waiters.insert(self.arrivals, waiter);
        self.arrivals += 1;
        None
    }

    /// The one with this token leaves.
    pub fn leave(&mut self, token: &[u8]) -> Option<Waiter> {
        self.by_token.remove(token).and_then(|place| self.waiters.remove(&place))
    }

    /// The first one leaves, to be served.
    pub fn pop(&mut self) -> Option<Waiter> {
        let (_, waiter) = self.waiters.pop_first()?;
        self.by_token.remove(&waiter.token);
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn waiter(id: u64, token: &[u8]) -> Waiter {
        Waiter {
            id: WaiterId(id),
            token: token.into(),
            mode: Mode::Exclusive,
            ttl: Millis(1),
            proposal: None,
            client: ClientId(id),
            ephemeral: false,
            meta: Box::default(),
            since: Instant(0),
            until: None,
        }
    }

    fn order(queue: &Queue) -> Vec<u64> {
        queue.iter().map(|w| w.id.0).collect()
    }

    #[test]
    fn served_in_order_of_arrival() {
        let mut queue = Queue::default();
        for (id, token) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            assert!(queue.join(waiter(id, token)).is_none());
        }
        assert_eq!(queue.leave(b"b").map(|w| w.id), Some(WaiterId(2)));
        assert_eq!(queue.pop().map(|w| w.id), Some(WaiterId(1)));
        assert_eq!(order(&queue), [3]);
    }

    #[test]
    fn a_token_that_asks_again_keeps_its_place() {
        let mut queue = Queue::default();
        queue.join(waiter(1, b"a"));
        queue.join(waiter(2, b"b"));
        assert_eq!(queue.join(waiter(3, b"a")).map(|w| w.id), Some(WaiterId(1)));
        assert_eq!(order(&queue), [3, 2]);
        assert_eq!(queue.get(b"a").map(|w| w.id), Some(WaiterId(3)));
    }
}
