//! The flaws that agents could have. Each must be noticed.

use dlock_core::Instant;
use dlock_core::quorum::Rules;

/// A flaw of the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// The tokens of attempts are the caller's, without a suffix.
    NoSuffix,
    /// An agent whose attempt failed releases others' attempts for the same caller.
    ReleasesOthers,
    /// An attempt is joined that one node has.
    JoinsMinority,
    /// An attempt is joined whose claim may not have stood.
    JoinsUnsettled,
    /// An attempt is joined with the next fence.
    JoinsWithOwnFence,
    /// An attempt is joined whatever the nodes' fences are.
    JoinsAnyFence,
    /// A join counts from the answers.
    CountsFromAnswer,
    /// An agent gives an attempt up though it has told the nodes that its claim has stood.
    GivesUpSettled,
    /// RELEASE acts on an attempt that one node shows.
    ActsOnOne,
    /// RELEASE of another agent's attempt is not FINAL.
    ReleasesForNow,
    /// RELEASE of an agent's own attempt is not FINAL where a message of its own may arrive once more.
    ReleasesTwiceSent,
    /// RELEASE of an agent's own attempt is not FINAL where a node has not answered that the claim has stood.
    ReleasesUnanswered,
    /// An agent repairs an attempt that it has released.
    RepairsReleased,
    /// RELEASE says 1 when one node does.
    ReleasesOne,
    /// CHECK is answered from what the agent remembers.
    ChecksMemory,
    /// A node that does not answer shows nothing.
    SilentIsNo,
    /// An attempt whose claim may not have stood does not hold.
    UnsettledIsNo,
    /// DONE counts nodes without a claim, whenever they answer.
    FinishesUnjoined,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 18] = [
        Flaw::NoSuffix,
        Flaw::ReleasesOthers,
        Flaw::JoinsMinority,
        Flaw::JoinsUnsettled,
        Flaw::JoinsWithOwnFence,
        Flaw::JoinsAnyFence,
        Flaw::CountsFromAnswer,
        Flaw::GivesUpSettled,
        Flaw::ActsOnOne,
        Flaw::ReleasesForNow,
        Flaw::ReleasesTwiceSent,
        Flaw::ReleasesUnanswered,
        Flaw::RepairsReleased,
        Flaw::ReleasesOne,
        Flaw::ChecksMemory,
        Flaw::SilentIsNo,
        Flaw::UnsettledIsNo,
        Flaw::FinishesUnjoined,
    ];
}

/// The rules of a claim, bent where the flaw is about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bent(pub Option<Flaw>);

impl Rules for Bent {
    fn majority(&self, nodes: usize) -> usize {
        match self.0 {
            Some(Flaw::JoinsMinority | Flaw::ReleasesOne) => 1,
            _ => nodes / 2 + 1,
        }
    }

    fn begins(&self, sent: Instant, answered: Instant) -> Instant {
        if self.0 == Some(Flaw::CountsFromAnswer) { answered } else { sent }
    }
}
