//! Final tokens: an ACQUIRE with one of them was overtaken in flight, and is too late.
//!
//! They are stored for a minute, in a table, by a hash. So there is always room, and users need no shares: a newer
//! token takes the slot of an older one. FINAL serves progress and not safety: a token that is not stored any more, or
//! not after a restart, costs at most one unused lease.

use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use super::Node;
use crate::command::release::Release;
use crate::limits::{FINAL_LASTS, FINAL_TOKENS};
use crate::words::{Deadline, Instant, Key};

#[derive(Debug, Default)]
pub(super) struct FinalTokens {
    /// A hash of the token, and its end. Empty before the first FINAL.
    slots: Vec<(u64, Deadline)>,
    /// The latest end of all. Without any, no command needs a hash.
    last: Option<Deadline>,
}

impl FinalTokens {
    /// True if the token is final.
    pub fn has(&self, key: Key<'_>, token: &[u8], now: Instant) -> bool {
        if self.last.is_none_or(|last| last.is_over(now)) {
            return false;
        }
        let hash = hash(key, token);
        self.slots.get(slot(hash)).is_some_and(|(of, end)| *of == hash && !end.is_over(now))
    }

    fn add(&mut self, key: Key<'_>, token: &[u8], now: Instant) {
        let (hash, end) = (hash(key, token), Deadline::after(now, FINAL_LASTS));
        self.slots.resize(FINAL_TOKENS, (0, Deadline(0)));
        if let Some(there) = self.slots.get_mut(slot(hash)) {
            *there = (hash, end);
        }
        self.last = Some(end);
    }
}

impl Node {
    /// Stores the token, if the request says FINAL.
    pub(super) fn note_final(&mut self, key: Key<'_>, ask: &Release<'_>, now: Instant) {
        if ask.is_final && !self.is_following() {
            self.final_tokens.add(key, ask.token, now);
        }
    }
}

fn hash(key: Key<'_>, token: &[u8]) -> u64 {
    let lengths = [u64::from(key.db), key.name.len() as u64].map(u64::to_le_bytes);
    let hash = Sha256::new()
        .chain_update(lengths.as_flattened())
        .chain_update(key.name)
        .chain_update(token)
        .finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn slot(hash: u64) -> usize {
    hash as usize % FINAL_TOKENS
}
