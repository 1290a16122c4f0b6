//! Final tokens: an ACQUIRE with one of them was overtaken in flight, and is too late.
//!
//! They are stored for at least a minute, in two generations; the older one is dropped as a whole. FINAL serves
//! progress and not safety: a token that is not stored, for lack of room or after a restart, costs at most one
//! unused lease.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use super::Node;
use crate::command::release::Release;
use crate::limits::{FINAL_LASTS, MAX_FINALS};
use crate::node::host::Host;
use crate::node::shares::{Shares, units};
use crate::words::{Instant, Key, KeyBuf, Owner};

#[derive(Debug, Default)]
pub(super) struct FinalTokens {
    young: Generation,
    old: Generation,
    /// Start of the young generation.
    since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Generation {
    tokens: BTreeSet<(KeyBuf, Box<[u8]>)>,
    shares: Shares,
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
        let id = (key.to_owned(), token.into());
        self.young.tokens.contains(&id) || self.old.tokens.contains(&id)
    }

    /// Stores the token, if there is room.
    fn add(&mut self, key: Key<'_>, token: &[u8], owner: Owner, now: Instant) {
        self.look(now);
        let units = units(key.name.len() + token.len());
        let id = (key.to_owned(), token.into());
        let young = &mut self.young;
        if !young.tokens.contains(&id) && young.shares.take(owner, units, MAX_FINALS) {
            young.tokens.insert(id);
            self.since.get_or_insert(now);
        }
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
