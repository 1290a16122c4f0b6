//! The rules of a claim, each with one defect. Each defect must be noticed.
//!
//! Not here, because nothing can notice it:
//!
//! - The largest of a majority's fences instead of the majority-th smallest. The number is the same when the
//!   fence is fixed at the majority's last grant. An attempt sees more grants only if it has waited for its
//!   gate; then it raises more nodes than necessary.
//! - Any other fence. It makes no wrong claim: a claim counts only nodes that have this very fence for its
//!   holder. It costs claims, and so the smallest is here.
//! - A request that is sent again and counts from its first sending. That is earlier than it began, and safe.

use dlock_core::quorum::{Rules, Sound};
use dlock_core::{Fence, Instant, Millis};

use crate::sim::Lives;

/// Rules with one of them bent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bent(pub Bend);

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bend {
    /// Half of the nodes, rounded down, are a majority.
    HalfIsEnough,
    /// The claim has the smallest fence that was granted.
    ClaimsSmallest,
    /// A node with a larger fence counts: late grants do.
    CountsAbove,
    /// A node with a smaller fence counts: no node is ever raised.
    CountsBelow,
    /// An answer to an old request counts for the newest one.
    CountsFromNewest,
    /// The proposal is made anew for each slice.
    ProposesAnew,
    /// An attempt that does not wait is refused by the gate, though a majority is free.
    MindsGate,
    /// A client that has grants and no majority keeps them.
    KeepsGrants,
    /// Its next attempt has the token of the one that it withdrew.
    ReusesToken,
    /// All clients rest, and keep their grants, equally long.
    RestsEqually,
    /// A lease begins when the answer comes.
    BeginsAtAnswer,
    /// A claim stands until the last of its leases ends.
    UntilLatest,
    /// A lease outlasts the quarantine of a node that lacks it.
    OutlastsQuarantine,
    /// All clocks run alike.
    NoDrift,
    /// A node that says that the lease is gone still counts.
    DoubtsGone,
    /// A node that gave a lost lease again counts at once.
    CountsMended,
    /// A node that was late with its first grant never vouches for the time before.
    VouchesNever,
    /// A late node always vouches, though it may have granted to others meanwhile.
    VouchesAlways,
    /// A lease is renewed at its end.
    RenewsAtItsEnd,
    /// Only nodes that have answered are told that an attempt was given up.
    ReleasesAnswered,
    /// One node's record makes a lock done.
    OneRecordIsEnough,
    /// The records of two claims add up.
    AddsRecords,
    /// A record that a silent node may have, or a holder may be about to leave, is none.
    TakesSilenceForNone,
}

impl Bend {
    /// All of them.
    pub const ALL: [Bend; 23] = [
        Bend::HalfIsEnough,
        Bend::ClaimsSmallest,
        Bend::CountsAbove,
        Bend::CountsBelow,
        Bend::CountsFromNewest,
        Bend::ProposesAnew,
        Bend::MindsGate,
        Bend::KeepsGrants,
        Bend::ReusesToken,
        Bend::RestsEqually,
        Bend::BeginsAtAnswer,
        Bend::UntilLatest,
        Bend::OutlastsQuarantine,
        Bend::NoDrift,
        Bend::DoubtsGone,
        Bend::CountsMended,
        Bend::VouchesNever,
        Bend::VouchesAlways,
        Bend::RenewsAtItsEnd,
        Bend::ReleasesAnswered,
        Bend::OneRecordIsEnough,
        Bend::AddsRecords,
        Bend::TakesSilenceForNone,
    ];
}

impl Bend {
    /// The lives in which it shows.
    #[must_use]
    pub fn shows_in(self) -> Lives {
        match self {
            Bend::OneRecordIsEnough | Bend::AddsRecords | Bend::TakesSilenceForNone => {
                Lives::WithJobs
            }
            Bend::KeepsGrants | Bend::RestsEqually => Lives::AtAnyGate,
            _ => Lives::Any,
        }
    }

    /// True if the model can notice it. The model has no time; the others are for the simulation.
    #[must_use]
    pub fn is_about_fences(self) -> bool {
        use Bend::{ClaimsSmallest, CountsAbove, CountsBelow, HalfIsEnough};
        matches!(self, HalfIsEnough | ClaimsSmallest | CountsAbove | CountsBelow)
    }
}

impl Rules for Bent {
    fn majority(&self, nodes: usize) -> usize {
        if self.0 == Bend::HalfIsEnough { (nodes / 2).max(1) } else { Sound.majority(nodes) }
    }

    fn claimed(&self, granted: &[Fence], majority: usize) -> Option<Fence> {
        let claimed = Sound.claimed(granted, majority)?;
        let smallest = granted.iter().min().copied();
        if self.0 == Bend::ClaimsSmallest { smallest } else { Some(claimed) }
    }

    fn supports(&self, held: Fence, claimed: Fence) -> bool {
        match self.0 {
            Bend::CountsAbove => held >= claimed,
            Bend::CountsBelow => held <= claimed,
            _ => Sound.supports(held, claimed),
        }
    }

    fn is_steady(&self, since: Instant, known: Instant) -> bool {
        self.0 == Bend::CountsMended || Sound.is_steady(since, known)
    }

    fn vouches_back(&self, granted: Fence, claimed: Fence) -> bool {
        match self.0 {
            Bend::VouchesNever => false,
            Bend::VouchesAlways => true,
            _ => Sound.vouches_back(granted, claimed),
        }
    }

    fn pause(&self, left: u64, of: u64) -> u64 {
        if self.0 == Bend::RenewsAtItsEnd { left.max(1_000) } else { Sound.pause(left, of) }
    }

    fn counts_for(&self, answered: u32, newest: u32) -> bool {
        self.0 == Bend::CountsFromNewest || Sound.counts_for(answered, newest)
    }

    fn proposes(&self, fixed: Fence, now: Fence) -> Fence {
        if self.0 == Bend::ProposesAnew { now } else { Sound.proposes(fixed, now) }
    }

    fn minds_gate(&self, waits: bool) -> bool {
        self.0 == Bend::MindsGate || Sound.minds_gate(waits)
    }

    fn withdraws(&self) -> bool {
        self.0 != Bend::KeepsGrants
    }

    fn next_attempt(&self, attempt: u32) -> u32 {
        let next = Sound.next_attempt(attempt);
        if self.0 == Bend::ReusesToken { next.min(1) } else { next }
    }

    fn at_random(&self, most: u64, chance: u64) -> u64 {
        if self.0 == Bend::RestsEqually { most } else { Sound.at_random(most, chance) }
    }

    fn begins(&self, sent: Instant, answered: Instant) -> Instant {
        if self.0 == Bend::BeginsAtAnswer { answered } else { Sound.begins(sent, answered) }
    }

    fn lacks(&self, end: Instant, quarantine: Instant) -> Instant {
        if self.0 == Bend::OutlastsQuarantine { end } else { Sound.lacks(end, quarantine) }
    }

    fn until(&self, ends: &[Instant], majority: usize) -> Option<Instant> {
        let latest = ends.iter().max().copied();
        match latest {
            Some(latest) if self.0 == Bend::UntilLatest => {
                Sound.until(&vec![latest; ends.len()], majority)
            }
            _ => Sound.until(ends, majority),
        }
    }

    fn drift(&self, ttl: Millis) -> u64 {
        if self.0 == Bend::NoDrift { 0 } else { Sound.drift(ttl) }
    }

    fn believes_gone(&self) -> bool {
        self.0 != Bend::DoubtsGone
    }

    fn records(&self, nodes: usize) -> usize {
        if self.0 == Bend::OneRecordIsEnough { 1 } else { Sound.records(nodes) }
    }

    fn is_same_work(&self, fence: Fence, other: Fence) -> bool {
        self.0 == Bend::AddsRecords || Sound.is_same_work(fence, other)
    }

    fn may_be_done(&self, records: usize, others: usize, nodes: usize) -> bool {
        match self.0 {
            Bend::TakesSilenceForNone => records >= Sound.majority(nodes),
            _ => Sound.may_be_done(records, others, nodes),
        }
    }

    fn releases_unanswered(&self) -> bool {
        self.0 != Bend::ReleasesAnswered
    }
}
