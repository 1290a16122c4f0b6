//! Work that could not be done where it was found, because nothing may be written there. The next iterations
//! of the event loop do it, a little at a time.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::GrantId;
use crate::host::{Ending, WaitOutcome};
use crate::queue::Queue;
use crate::words::{ClientId, Instant, Key, KeyBuf, Millis};

/// What becomes of a grant whose connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// It ends.
    End(Ending),
    /// Nobody has heard of it, and its place is to be kept for so long.
    Cut(Millis),
}

/// The work that is left.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Locks whose first waiter may be grantable.
    to_serve: VecDeque<KeyBuf>,
    /// The same keys, so that none is there twice.
    serving: BTreeSet<KeyBuf>,
    /// Locks whose first waiter waits for the state file, too.
    unvouched: BTreeSet<KeyBuf>,
    /// Grants of which nobody was told, and that end or become shorter if that connection still
    /// speaks for them. By key and token, so that a later grant there finds them at once.
    to_end: BTreeMap<GrantId, Undo>,
    /// The ephemeral grants of connections that have closed, as they were when those did: a
    /// connection may have had very many, so none is looked at before it ends.
    leaving: VecDeque<BTreeSet<GrantId>>,
    /// Who is to be told that the lock for which they waited is gone.
    dismissed: VecDeque<Dismissed>,
}

/// The queue of a lock that is gone, with those who are not told yet.
#[derive(Debug)]
pub(super) struct Dismissed {
    pub queue: Queue,
    pub answer: WaitOutcome,
    /// When it was.
    pub at: Instant,
}

impl Deferred {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        let nothing_ends = self.to_end.is_empty() && self.leaving.is_empty();
        nothing_ends && self.to_serve.is_empty() && self.dismissed.is_empty()
    }

    /// They are told after those who are to be told already.
    pub fn dismiss(&mut self, dismissed: Dismissed) {
        if !dismissed.queue.is_empty() {
            self.dismissed.push_back(dismissed);
        }
    }

    /// Those who are told next.
    pub fn next_dismissed(&mut self) -> Option<Dismissed> {
        self.dismissed.pop_front()
    }

    /// Some of them are not told yet, perhaps.
    pub fn not_told(&mut self, dismissed: Dismissed) {
        if !dismissed.queue.is_empty() {
            self.dismissed.push_front(dismissed);
        }
    }

    /// Whether somebody is to be told.
    pub fn has_dismissed(&self) -> bool {
        !self.dismissed.is_empty()
    }

    /// Somebody else does it, or it need not be done any more.
    pub fn clear(&mut self) {
        *self = Deferred::default();
    }

    /// The first waiter at the key may be grantable.
    pub fn serve(&mut self, key: KeyBuf) {
        if self.serving.insert(key.clone()) {
            self.to_serve.push_back(key);
        }
    }

    /// The next key whose waiters are to be looked at.
    pub fn next_to_serve(&mut self) -> Option<KeyBuf> {
        let key = self.to_serve.pop_front()?;
        self.serving.remove(&key);
        Some(key)
    }

    /// The first waiter at the key is served once the state file has been written.
    pub fn wait_for_file(&mut self, key: KeyBuf) {
        self.unvouched.insert(key);
    }

    /// The state file has been written.
    pub fn file_is_written(&mut self) {
        for key in core::mem::take(&mut self.unvouched) {
            self.serve(key);
        }
    }

    /// A grant of which nobody was told.
    pub fn undo(&mut self, grant: GrantId, undo: Undo) {
        self.to_end.insert(grant, undo);
    }

    /// The ephemeral grants of a connection that has closed.
    pub fn end_all(&mut self, grants: BTreeSet<GrantId>) {
        self.leaving.push_back(grants);
    }

    /// The next grant that is to end or to become shorter.
    pub fn next_undo(&mut self) -> Option<(GrantId, Undo)> {
        if let Some(first) = self.to_end.pop_first() {
            return Some(first);
        }
        while let Some(grants) = self.leaving.front_mut() {
            if let Some(grant) = grants.pop_first() {
                return Some((grant, Undo::End(Ending::Disconnected)));
            }
            self.leaving.pop_front();
        }
        None
    }

    /// The token is granted the lock, or asks again: what was to end is an earlier grant, or was
    /// not meant to end after all.
    pub fn cancel_ending(&mut self, key: Key<'_>, token: &[u8]) {
        if self.to_end.is_empty() {
            return;
        }
        let of = |client| GrantId::of(key, token, ClientId(client));
        let grants = self.to_end.range(of(0)..=of(u64::MAX));
        let grants: Vec<GrantId> = grants.map(|(grant, _)| grant.clone()).collect();
        for grant in grants {
            self.to_end.remove(&grant);
        }
    }

    /// How many ephemeral grants each closed connection has left.
    #[cfg(test)]
    pub fn leaving(&self) -> Vec<usize> {
        self.leaving.iter().map(BTreeSet::len).collect()
    }
}
