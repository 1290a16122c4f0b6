//! Deferred work: found where nothing may be written, and done by the next iterations of the event loop, a
//! little at a time. Queues that are served later are in `rechecks`.

use alloc::collections::VecDeque;

use super::GrantId;
use crate::lock::queue::Queue;
use crate::node::host::WaitOutcome;

/// The deferred work.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Grants to waiters with connections that closed before the replies were written. Each ends if it is still
    /// that connection's.
    undelivered: VecDeque<GrantId>,
    /// Waiters of removed locks, still without an answer.
    dismissed: VecDeque<Dismissed>,
}

/// The queue of a removed lock, with the waiters that are not answered yet.
#[derive(Debug)]
pub(super) struct Dismissed {
    pub queue: Queue,
    pub answer: WaitOutcome,
}

impl Deferred {
    /// True if no work is left.
    pub fn is_empty(&self) -> bool {
        self.undelivered.is_empty() && self.dismissed.is_empty()
    }

    /// Adds waiters, to be answered after those already here.
    pub fn dismiss(&mut self, dismissed: Dismissed) {
        if !dismissed.queue.is_empty() {
            self.dismissed.push_back(dismissed);
        }
    }

    /// Takes the waiters that are answered next.
    pub fn next_dismissed(&mut self) -> Option<Dismissed> {
        self.dismissed.pop_front()
    }

    /// Puts back waiters that are not answered yet, if any.
    pub fn not_told(&mut self, dismissed: Dismissed) {
        if !dismissed.queue.is_empty() {
            self.dismissed.push_front(dismissed);
        }
    }

    /// True if waiters are still to be answered.
    pub fn has_dismissed(&self) -> bool {
        !self.dismissed.is_empty()
    }

    /// Drops all work: another node does it, or it is no longer needed.
    pub fn clear(&mut self) {
        *self = Deferred::default();
    }

    /// Adds a grant to a waiter that is gone.
    pub fn undelivered(&mut self, grant: GrantId) {
        self.undelivered.push_back(grant);
    }

    /// Takes the next such grant.
    pub fn next_undelivered(&mut self) -> Option<GrantId> {
        self.undelivered.pop_front()
    }
}
