//! The names of locks at the agent, and tokens that it remembers for a while.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dlock_client::Key;
use dlock_core::Owner;
use dlock_core::shares::{Shares, units};

use super::limits::{TOKEN_LASTS, TOKENS};

/// One caller's name for one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// The user has as many locks, or tokens, as one user may have.
pub struct Full;

/// Tokens that are remembered for a while.
#[derive(Default)]
pub struct Tokens(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Each with its latest end.
    names: HashMap<Arc<Name>, Instant>,
    /// In the order in which they end.
    ends: VecDeque<(Instant, Owner, Arc<Name>)>,
    shares: Shares,
}

impl Tokens {
    /// Remembers one for a while, or says that there is no room.
    pub fn add(&self, name: &Arc<Name>, owner: Owner) -> Result<(), Full> {
        self.known().add(name, owner, Instant::now() + TOKEN_LASTS)
    }

    pub fn contains(&self, name: &Name) -> bool {
        self.known().names.contains_key(name)
    }

    pub fn forget(&self, name: &Name) {
        self.known().names.remove(name);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_that_was_forgotten_and_is_known_again_lasts_from_then() {
        let name = Arc::new(Name { key: "job".into(), token: Box::from(*b"alice") });
        let (mut known, now) = (Known::default(), Instant::now());
        let end = |seconds| now + Duration::from_secs(seconds);
        known.add(&name, Owner(1), end(60)).ok();
        known.names.remove(&name);
        known.add(&name, Owner(1), end(100)).ok();
        known.pass(end(60));
        assert!(known.names.contains_key(&name));
        known.pass(end(100));
        assert!(!known.names.contains_key(&name));
    }
}
