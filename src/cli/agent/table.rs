//! All locks of the agent, each a task of its own, and tokens that are remembered after their locks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dlock_client::Key;
use dlock_core::Owner;
use dlock_core::shares::{Shares, units};
use tokio::sync::mpsc;

use super::limits::{LOCKS, TOKENS};
use super::lock::{Inbox, Lock, Order};
use super::room::Share;

/// One caller's name for one lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name {
    pub key: Key,
    pub token: Box<[u8]>,
}

impl Name {
    /// The room that it takes: a long name takes that of several.
    pub fn units(&self) -> u64 {
        units(self.key.as_bytes().len() + self.token.len())
    }
}

/// The locks, held or wanted.
#[derive(Default)]
pub struct Table {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    locks: HashMap<Arc<Name>, mpsc::UnboundedSender<Order>>,
    shares: Shares,
}

/// The user has as many locks as one user may have.
pub struct Full;

impl Table {
    /// Sends an order to a lock. A connection sends one after the other, and each order keeps the share of its
    /// connection: so a user's orders are as many as the connections that he may have.
    pub fn send(share: &Share, name: &Arc<Name>, order: Order) -> Result<(), Full> {
        let Share { agent, owner } = share;
        let mut entries = agent.table.entries();
        if let Some(lock) = entries.locks.get(name) {
            // The lock's task leaves the table before it ends.
            let _ = lock.send(order);
            return Ok(());
        }
        if !entries.shares.take(*owner, name.units(), LOCKS) {
            return Err(Full);
        }
        let (orders, inbox) = mpsc::unbounded_channel();
        let _ = orders.send(order);
        entries.locks.insert(Arc::clone(name), orders);
        let lock = Lock { agent: Arc::clone(agent), name: Arc::clone(name), owner: *owner };
        tokio::spawn(lock.run(inbox));
        Ok(())
    }

    /// Returns the next order for a lock that is neither held nor wanted. Without one, the lock leaves the
    /// table.
    pub fn next_or_leave(&self, name: &Name, owner: Owner, inbox: &mut Inbox) -> Option<Order> {
        let mut entries = self.entries();
        if let Ok(order) = inbox.try_recv() {
            return Some(order);
        }
        entries.locks.remove(name);
        entries.shares.give_back(owner, name.units());
        None
    }

    /// Sends an order to all locks.
    pub fn send_all(&self, order: impl Fn() -> Order) {
        for lock in self.entries().locks.values() {
            let _ = lock.send(order());
        }
    }

    /// Number of locks, held or wanted.
    pub fn len(&self) -> usize {
        self.entries().locks.len()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens that are remembered for a while.
pub struct Tokens {
    lasts: Duration,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Each with its latest end.
    names: HashMap<Arc<Name>, Instant>,
    /// In the order in which they end.
    ends: VecDeque<(Instant, Owner, Arc<Name>)>,
    shares: Shares,
}

impl Tokens {
    /// None yet; each is remembered for this long.
    pub fn lasting(lasts: Duration) -> Tokens {
        Tokens { lasts, known: Mutex::default() }
    }

    /// Remembers one for a while, or says that there is no room.
    pub fn add(&self, name: &Arc<Name>, owner: Owner) -> Result<(), Full> {
        self.known().add(name, owner, Instant::now() + self.lasts)
    }

    pub fn contains(&self, name: &Name) -> bool {
        self.known().names.contains_key(name)
    }

    pub fn forget(&self, name: &Name) {
        self.known().names.remove(name);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.pass(Instant::now());
        known
    }
}

impl Known {
    fn add(&mut self, name: &Arc<Name>, owner: Owner, end: Instant) -> Result<(), Full> {
        if !self.shares.take(owner, name.units(), TOKENS) {
            return Err(Full);
        }
        self.names.insert(Arc::clone(name), end);
        self.ends.push_back((end, owner, Arc::clone(name)));
        Ok(())
    }

    fn pass(&mut self, now: Instant) {
        while self.ends.front().is_some_and(|(end, ..)| *end <= now)
            && let Some((end, owner, name)) = self.ends.pop_front()
        {
            self.shares.give_back(owner, name.units());
            if self.names.get(&name) == Some(&end) {
                self.names.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::TOKEN_LASTS;
    use super::*;

    #[test]
    fn a_token_that_was_forgotten_and_is_known_again_lasts_from_then() {
        let name = Arc::new(Name { key: "job".into(), token: Box::from(*b"alice") });
        let (tokens, now) = (Tokens::lasting(TOKEN_LASTS), Instant::now());
        let end = |seconds| now + Duration::from_secs(seconds);
        tokens.known().add(&name, Owner(1), end(60)).ok();
        tokens.forget(&name);
        assert!(!tokens.contains(&name));
        tokens.known().add(&name, Owner(1), end(100)).ok();
        tokens.known().pass(end(60));
        assert!(tokens.contains(&name));
        tokens.known().pass(end(100));
        assert!(!tokens.contains(&name));
    }
}
