//! The flaws that a server can have. Each must be noticed.

use super::lives::Lives;

/// A flaw of a server, or of a client where it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No quarantine after a crash.
    NoQuarantine,
    /// A quarantine for half of the bound.
    ShortQuarantine,
    /// A server with an empty disk grants at once.
    NewGrants,
    /// A server with an empty disk waits for half of the leases that it may have lost.
    NewWaitsShorter,
    /// Its fences go on from its clock.
    CountsAnew,
    /// A longer lease is granted before the state file says so.
    ForgetsBound,
    /// After a start it counts from the beginning.
    ForgetsCounter,
    /// RELEASE does not compare the token.
    ReleasesAnybody,
    /// A waiter does not end with its connection.
    KeepsDeadWaiters,
    /// FENCE makes no difference to an ACQUIRE.
    IgnoresProposals,
    /// A proposal moves all keys that share the key's counter as far.
    SharesAll,
    /// A proposal moves all keys that share the key's counter, by a minute at most.
    SharesMore,
    /// The state file says nothing of keys that are far ahead.
    ForgetsAhead,
    /// A fence that has no room is granted, and not stored.
    RefusesNobody,
    /// The state file promises what the wall clock says.
    PromisesByClock,
    /// EXTEND is accepted when the lease has ended and no other client has it.
    ExtendsEnded,
    /// EXTEND makes leases shorter, too: one that comes late does.
    Shortens,
    /// A holder that asks again gets its fence, and no longer lease.
    RenewsNoAsker,
    /// In quarantine a token's ACQUIRE gets the grant that came back with the data set.
    AnswersRestored,
    /// A grant ends with the connection that asked for it.
    EndsWithConnection,
    /// The first waiter gets TURN while the holder has not asked the other nodes.
    TellsTooEarly,
    /// No waiter gets TURN.
    TellsNobody,
    /// Of the clients: the server at an address is taken for its node.
    TrustsAddresses,
    /// Of the clients: a connection stays its node's, though another server has taken the place.
    KeepsConnections,
    /// Of the clients: a RELEASE says no FINAL, though a request has no answer.
    ForgetsFinal,
    /// Of the clients: an EXTEND names no fence.
    NamesNoFence,
    /// Of the clients: a request with KEEP that was denied is taken to leave no place.
    LeavesNoPlace,
    /// A replica that is promoted grants at once.
    PromotedWithoutQuarantine,
    /// Its quarantine counts from the last message of its primary.
    QuarantineWithoutLag,
    /// Its quarantine covers the leases that have reached it, and not its primary's promise.
    QuarantineOfWhatArrived,
    /// A replica that has its primary's data set, and nothing of the stream, takes its quarantine from the
    /// data set.
    QuarantineOfDataSet,
    /// A primary that becomes a replica, and is promoted before it has a data set, takes its quarantine from its
    /// own leases.
    TrustsOwnBound,
    /// A primary tells its replica what it has promised after other things, when it looks at its state file.
    TellsLate,
    /// A server that took over in ignorance tells its own replica the length of that wait as the
    /// length of leases.
    HandsIgnoranceOn,
    /// A server that took over in ignorance does not tell its own replica of that.
    HandsNothingOn,
    /// The quarantine that an operator has ended is still told, and written down.
    ForgetsTheEnd,
    /// Its fences go on from its clock and from the leases that have reached it.
    PromotedWithoutFence,
    /// A replica that is promoted before it has received a promise does so.
    UntoldWithoutFence,
    /// A promoted replica drops the leases that have reached it.
    PromotedWithoutLeases,
    /// A replica grants.
    ReplicaGrants,
    /// A replica ends leases by its own clock.
    ReplicaEnds,
    /// A replica does not receive renewals.
    RenewsInSilence,
    /// A lock that is done is granted.
    GrantsOverRecords,
    /// RELEASE … DONE does not compare the token.
    FinishesAnybody,
    /// A completion record's time begins again when the server starts.
    RecordsBeginAnew,
    /// A lock that was evicted is free.
    GrantsEvicted,
    /// The key of an evicted lock is free when its first holder's lease would have ended.
    EvictsFirstEnd,
    /// An evicted lock does not count at a shutdown.
    EndsEvicted,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 48] = [
        Flaw::NoQuarantine,
        Flaw::ShortQuarantine,
        Flaw::NewGrants,
        Flaw::NewWaitsShorter,
        Flaw::CountsAnew,
        Flaw::ForgetsBound,
        Flaw::ForgetsCounter,
        Flaw::ReleasesAnybody,
        Flaw::KeepsDeadWaiters,
        Flaw::IgnoresProposals,
        Flaw::SharesAll,
        Flaw::SharesMore,
        Flaw::ForgetsAhead,
        Flaw::RefusesNobody,
        Flaw::PromisesByClock,
        Flaw::ExtendsEnded,
        Flaw::Shortens,
        Flaw::RenewsNoAsker,
        Flaw::AnswersRestored,
        Flaw::EndsWithConnection,
        Flaw::TellsTooEarly,
        Flaw::TellsNobody,
        Flaw::TrustsAddresses,
        Flaw::KeepsConnections,
        Flaw::ForgetsFinal,
        Flaw::NamesNoFence,
        Flaw::LeavesNoPlace,
        Flaw::PromotedWithoutQuarantine,
        Flaw::QuarantineWithoutLag,
        Flaw::QuarantineOfWhatArrived,
        Flaw::QuarantineOfDataSet,
        Flaw::TrustsOwnBound,
        Flaw::TellsLate,
        Flaw::HandsIgnoranceOn,
        Flaw::HandsNothingOn,
        Flaw::ForgetsTheEnd,
        Flaw::PromotedWithoutFence,
        Flaw::UntoldWithoutFence,
        Flaw::PromotedWithoutLeases,
        Flaw::ReplicaGrants,
        Flaw::ReplicaEnds,
        Flaw::RenewsInSilence,
        Flaw::GrantsOverRecords,
        Flaw::FinishesAnybody,
        Flaw::RecordsBeginAnew,
        Flaw::GrantsEvicted,
        Flaw::EvictsFirstEnd,
        Flaw::EndsEvicted,
    ];

    /// The lives in which it shows.
    #[must_use]
    pub fn shows_in(self) -> Lives {
        use Flaw as F;
        match self {
            F::PromotedWithoutQuarantine
            | F::QuarantineWithoutLag
            | F::QuarantineOfWhatArrived
            | F::QuarantineOfDataSet
            | F::TrustsOwnBound
            | F::TellsLate
            | F::HandsIgnoranceOn
            | F::HandsNothingOn
            | F::ForgetsTheEnd
            | F::PromotedWithoutFence
            | F::UntoldWithoutFence
            | F::PromotedWithoutLeases
            | F::ReplicaGrants
            | F::ReplicaEnds
            | F::RenewsInSilence => Lives::WithReplicas,
            F::TrustsAddresses | F::KeepsConnections => Lives::WithAddresses,
            F::NamesNoFence | F::AnswersRestored => Lives::OfTheLibrary,
            F::SharesAll
            | F::SharesMore
            | F::ForgetsAhead
            | F::RefusesNobody
            | F::PromisesByClock => Lives::UnderAttack,
            F::NewGrants | F::NewWaitsShorter | F::CountsAnew => Lives::LosingDisks,
            F::GrantsOverRecords | F::FinishesAnybody | F::RecordsBeginAnew | F::Shortens => {
                Lives::WithJobs
            }
            F::GrantsEvicted | F::EvictsFirstEnd | F::EndsEvicted => Lives::Evicting,
            F::TellsTooEarly => Lives::InOrder,
            _ => Lives::Any,
        }
    }
}
