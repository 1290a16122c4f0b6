//! A node, as small as it can be: the holders of the one lock, and a counter.

use dlock_core::Fence;
use dlock_core::quorum::{Answer, Ask};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The holders, with their fences.
    pub holders: Vec<Holder>,
    /// The largest number that it has granted or received.
    counter: u64,
}

/// An attempt that holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    attempt: usize,
    shared: bool,
    fence: u64,
}

/// The flaws that a node can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// EXTEND FENCE is accepted for a holder with a larger fence.
    ExtendsAbove,
    /// EXTEND is accepted when the lease has ended and no other client has it.
    ExtendsEnded,
    /// EXTEND FENCE raises the holder's fence only.
    RaisesNoCounter,
    /// After a crash it counts from the beginning.
    ForgetsCounter,
    /// A grant may have the number that the one before had.
    RepeatsNumbers,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 5] = [
        Flaw::ExtendsAbove,
        Flaw::ExtendsEnded,
        Flaw::RaisesNoCounter,
        Flaw::ForgetsCounter,
        Flaw::RepeatsNumbers,
    ];
}

impl Place {
    /// Makes a node with this counter.
    #[must_use]
    pub fn new(counter: u64) -> Place {
        Place { holders: Vec::new(), counter }
    }

    /// True if the request is not too far ahead of the node's counter.
    #[must_use]
    pub fn reaches(&self, ask: Ask, reach: u64) -> bool {
        match ask {
            Ask::Extend { fence } => fence.0 <= self.counter.saturating_add(reach),
            _ => true,
        }
    }

    /// True if the attempt holds here.
    #[must_use]
    pub fn is_held(&self, attempt: usize) -> bool {
        self.holders.iter().any(|holder| holder.attempt == attempt)
    }

    /// Some leases have ended, one bit each.
    pub fn end(&mut self, ended: u8) {
        let mut at = 0;
        self.holders.retain(|_| {
            at += 1;
            ended & 1 << (at - 1) == 0
        });
    }

    /// A crash, and a new start: the leases are forgotten, and no new one is granted until they
    /// have ended, which they have by now. The counter goes on from what was promised.
    pub fn crash(&mut self, flaw: Option<Flaw>) {
        self.holders.clear();
        self.counter = if flaw == Some(Flaw::ForgetsCounter) { 0 } else { self.counter + 1 };
    }

    /// A request is carried out.
    pub fn carry_out(
        &mut self,
        attempt: usize,
        shared: bool,
        ask: Ask,
        flaw: Option<Flaw>,
    ) -> Answer {
        match ask {
            Ask::Acquire { fence, .. } => self.acquire(attempt, shared, fence, flaw),
            Ask::Extend { fence } => self.extend(attempt, fence, flaw),
            // The model leaves no lock done.
            Ask::Release | Ask::Finish { .. } | Ask::Ping => Answer::Answered,
        }
    }

    fn acquire(
        &mut self,
        attempt: usize,
        shared: bool,
        proposal: Option<Fence>,
        flaw: Option<Flaw>,
    ) -> Answer {
        if let Some(holder) = self.holders.iter().find(|holder| holder.attempt == attempt) {
            return Answer::Granted(Fence(holder.fence));
        }
        if !self.holders.iter().all(|holder| holder.shared && shared) {
            return Answer::Denied;
        }
        let next = self.counter + u64::from(flaw != Some(Flaw::RepeatsNumbers));
        self.counter = proposal.map_or(next, |proposal| next.max(proposal.0));
        self.holders.push(Holder { attempt, shared, fence: self.counter });
        self.holders.sort_unstable_by_key(|holder| holder.attempt);
        Answer::Granted(Fence(self.counter))
    }

    fn extend(&mut self, attempt: usize, Fence(fence): Fence, flaw: Option<Flaw>) -> Answer {
        let free = self.holders.is_empty();
        let Some(holder) = self.holders.iter_mut().find(|holder| holder.attempt == attempt) else {
            let accepts = free && flaw == Some(Flaw::ExtendsEnded);
            return if accepts { Answer::Extended } else { Answer::Gone };
        };
        if holder.fence > fence {
            let accepts = flaw == Some(Flaw::ExtendsAbove);
            return if accepts { Answer::Extended } else { Answer::Gone };
        }
        holder.fence = fence;
        if flaw != Some(Flaw::RaisesNoCounter) {
            self.counter = self.counter.max(fence);
        }
        Answer::Extended
    }
}
