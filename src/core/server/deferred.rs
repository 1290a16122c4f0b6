//! Deferred work: it was found where nothing may be written. The next iterations of the event loop do it, a
//! little at a time. Queues that are served later are in `rechecks`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::GrantId;
use crate::host::{Ending, WaitOutcome};
use crate::queue::Queue;
use crate::words::{Instant, Key, Millis};

/// The fate of a grant whose connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// The grant ends.
    End(Ending),
    /// The client has not heard of the grant, which becomes as short as its place would be kept.
    Cut(Millis),
}

/// The deferred work.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Grants whose clients were not told, and that end or become shorter if that connection still
    /// speaks for them. By key and token, so that a later grant there finds them at once.
    to_end: BTreeMap<GrantId, Undo>,
    /// Waiters that have yet to be told that their lock is gone.
    dismissed: VecDeque<Dismissed>,
}

/// The queue of a lock that is gone, with the waiters that are not told yet.
#[derive(Debug)]
pub(super) struct Dismissed {
    pub queue: Queue,
    pub answer: WaitOutcome,
    /// Time at which the lock was gone.
    pub at: Instant,
}

impl Deferred {
    /// True if no work is left.
    pub fn is_empty(&self) -> bool {
        self.to_end.is_empty() && self.dismissed.is_empty()
    }

    /// Adds waiters, who are told after those already here.
    pub fn dismiss(&mut self, dismissed: Dismissed) {
        if !dismissed.queue.is_empty() {
            self.dismissed.push_back(dismissed);
        }
    }

    /// Takes the waiters who are told next.
    pub fn next_dismissed(&mut self) -> Option<Dismissed> {
        self.dismissed.pop_front()
    }

    /// Puts back waiters that are not told yet, if any.
    pub fn not_told(&mut self, dismissed: Dismissed) {
        if !dismissed.queue.is_empty() {
            self.dismissed.push_front(dismissed);
        }
    }

    /// True if waiters have yet to be told.
    pub fn has_dismissed(&self) -> bool {
        !self.dismissed.is_empty()
    }

    /// Drops all work: another node does it, or it need not be done any more.
    pub fn clear(&mut self) {
        *self = Deferred::default();
    }

    /// Notes a grant whose client was not told.
    pub fn undo(&mut self, grant: GrantId, undo: Undo) {
        self.to_end.insert(grant, undo);
    }

    /// Takes the next grant that must end or become shorter.
    pub fn next_undo(&mut self) -> Option<(GrantId, Undo)> {
        self.to_end.pop_first()
    }

    /// Cancels the end of a token's earlier grant: the token is granted the lock anew, or has heard of it.
    pub fn cancel_ending(&mut self, key: Key<'_>, token: &[u8]) {
        if self.to_end.is_empty() {
            return;
        }
        let grants = self.to_end.range(GrantId::all_of(key, token));
        let grants: Vec<GrantId> = grants.map(|(grant, _)| grant.clone()).collect();
        for grant in grants {
            self.to_end.remove(&grant);
        }
    }
}
