//! Final tokens: an ACQUIRE with one of them was overtaken in flight, and is too late.
//!
//! They are stored for at least a minute, in two generations; the older one is dropped as a whole. FINAL serves
//! progress and not safety: a token that is not stored, for lack of room or after a restart, costs at most one
//! unused lease.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use super::Node;
use crate::command::release::Release;
use crate::limits::{FINAL_LASTS, MAX_FINALS};
use crate::node::host::Host;
use crate::node::shares::{Shares, units};
use crate::words::{Instant, Key, Owner};

#[derive(Debug, Default)]
pub(super) struct FinalTokens {
    young: Generation,
    old: Generation,
    /// Start of the young generation.
    since: Option<Instant>,
}

type Tokens = BTreeSet<Box<[u8]>>;

#[derive(Debug, Default)]
struct Generation {
    /// The tokens, by database and by key.
    tokens: BTreeMap<u32, BTreeMap<Box<[u8]>, Tokens>>,
    shares: Shares,
}

impl Generation {
    fn has(&self, key: Key<'_>, token: &[u8]) -> bool {
        let tokens = self.tokens.get(&key.db).and_then(|names| names.get(key.name));
        tokens.is_some_and(|tokens| tokens.contains(token))
    }
}

impl FinalTokens {
    /// Drops the old generation when it is old enough.
    pub fn look(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now.since(since) >= FINAL_LASTS) {
            self.old = core::mem::take(&mut self.young);
            self.since = if self.old.tokens.is_empty() { None } else { Some(now) };
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.young.tokens.is_empty() && self.old.tokens.is_empty()
    }

    /// True if the token is final.
    pub fn has(&mut self, key: Key<'_>, token: &[u8], now: Instant) -> bool {
        if self.since.is_none() {
            return false;
        }
        self.look(now);
        self.young.has(key, token) || self.old.has(key, token)
    }

    /// Stores the token, if there is room.
    fn add(&mut self, key: Key<'_>, token: &[u8], owner: Owner, now: Instant) {
        self.look(now);
        let units = units(key.name.len() + token.len());
        if self.young.has(key, token) || !self.young.shares.take(owner, units, MAX_FINALS) {
            return;
        }
        self.since.get_or_insert(now);
        let names = self.young.tokens.entry(key.db).or_default();
        names.entry(key.name.into()).or_default().insert(token.into());
    }
}

impl Node {
    /// Stores the token, if the request says FINAL and there is room.
    pub(super) fn note_final<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ask: &Release<'_>,
        now: Instant,
    ) {
        if ask.is_final && !self.is_following() {
            let owner = host.owner();
            self.final_tokens.add(key, ask.token, owner, now);
        }
    }
}
