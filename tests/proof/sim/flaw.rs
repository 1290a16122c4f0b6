//! What can be wrong with a server. Each must be noticed.

use super::lives::Lives;

/// What can be wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No quarantine after a crash.
    NoQuarantine,
    /// A quarantine for half of the bound.
    ShortQuarantine,
    /// A longer lease is granted before the state file says so.
    ForgetsBound,
    /// After a start it counts from the beginning.
    ForgetsCounter,
    /// RELEASE does not compare the token.
    ReleasesAnybody,
    /// What waits does not end with its connection.
    KeepsDeadWaiters,
    /// FENCE makes no difference to an ACQUIRE.
    IgnoresProposals,
    /// EXTEND is accepted when the lease has ended and nobody else has it.
    ExtendsEnded,
    /// EXTEND makes leases shorter, too: one that comes late does.
    Shortens,
    /// A holder that asks again gets its fence, and no longer lease.
    RenewsNoAsker,
    /// A lease is cut when the connection closes that waited for it, though its grant was heard of.
    CutsHeard,
    /// The next in line is told of its turn while the holder has not asked the other nodes.
    TellsTooEarly,
    /// Nobody is told of its turn.
    TellsNobody,
    /// Of the clients: a node is whatever its address leads to.
    TrustsAddresses,
    /// Of the clients: a connection stays that of its node, though another server has taken its place.
    KeepsConnections,
    /// Of the clients: a request goes over another connection when its own has broken, and the machine is
    /// not told.
    SendsAgainInSilence,
    /// A replica that is promoted grants at once.
    PromotedWithoutQuarantine,
    /// Its quarantine is reckoned from when it last heard of its primary.
    QuarantineWithoutLag,
    /// Its quarantine is reckoned from the leases that have reached it, and not from what its primary
    /// has promised.
    QuarantineOfWhatArrived,
    /// It has the data set of its primary, and was told nothing: its quarantine is reckoned from that.
    QuarantineOfDataSet,
    /// Its fences go on from its clock and from the leases that have reached it.
    PromotedWithoutFence,
    /// It lets go of the leases that have reached it.
    PromotedWithoutLeases,
    /// A replica grants, if somebody asks it.
    ReplicaGrants,
    /// A replica ends leases by its own clock.
    ReplicaEnds,
    /// A replica does not hear of renewals.
    RenewsInSilence,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 25] = [
        Flaw::NoQuarantine,
        Flaw::ShortQuarantine,
        Flaw::ForgetsBound,
        Flaw::ForgetsCounter,
        Flaw::ReleasesAnybody,
        Flaw::KeepsDeadWaiters,
        Flaw::IgnoresProposals,
        Flaw::ExtendsEnded,
        Flaw::Shortens,
        Flaw::RenewsNoAsker,
        Flaw::CutsHeard,
        Flaw::TellsTooEarly,
        Flaw::TellsNobody,
        Flaw::TrustsAddresses,
        Flaw::KeepsConnections,
        Flaw::SendsAgainInSilence,
        Flaw::PromotedWithoutQuarantine,
        Flaw::QuarantineWithoutLag,
        Flaw::QuarantineOfWhatArrived,
        Flaw::QuarantineOfDataSet,
        Flaw::PromotedWithoutFence,
        Flaw::PromotedWithoutLeases,
        Flaw::ReplicaGrants,
        Flaw::ReplicaEnds,
        Flaw::RenewsInSilence,
    ];

    /// In which lives it shows.
    #[must_use]
    pub fn shows_in(self) -> Lives {
        use Flaw as F;
        match self {
            F::PromotedWithoutQuarantine
            | F::QuarantineWithoutLag
            | F::QuarantineOfWhatArrived
            | F::QuarantineOfDataSet
            | F::PromotedWithoutFence
            | F::PromotedWithoutLeases
            | F::ReplicaGrants
            | F::ReplicaEnds
            | F::RenewsInSilence => Lives::WithReplicas,
            F::TrustsAddresses | F::KeepsConnections => Lives::WithAddresses,
            F::SendsAgainInSilence => Lives::OfTheLibrary,
            F::TellsTooEarly => Lives::InOrder,
            _ => Lives::Any,
        }
    }
}
