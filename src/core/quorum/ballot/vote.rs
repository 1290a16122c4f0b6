//! One node's answers, and their effect on the claim.

use crate::quorum::rules::Rules;
use crate::quorum::{Answer, Ask, DoneRecord, Obstacle};
use crate::words::{Fence, Instant, Millis};

/// One node's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Vote {
    pub(in crate::quorum) said: Said,
    /// The lease at the node.
    pub(in crate::quorum) lease: Lease,
    /// The newest request, while there is no answer to it.
    pub(in crate::quorum) open: Option<Open>,
    /// The longest lease that the node accepts. Set if it has refused a longer one since the last renewal.
    pub(in crate::quorum) limit: Option<Millis>,
    pub(in crate::quorum) record: RecordState,
}

/// The node's completion record, as far as it matters to this client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::quorum) enum RecordState {
    /// The node has none that matters.
    #[default]
    No,
    /// The record of a claim with this fence does not count: requests are granted over it.
    Over(Fence),
    /// The node was asked for DONE, and may have the record. This is its earliest end: until then it excludes
    /// other clients, as the lease did.
    Asked(Instant),
    /// The node has the record.
    Has,
    /// The node refuses DONE.
    Refused,
}

/// A node's last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Said {
    /// No answer yet.
    #[default]
    Nothing,
    /// The token holds the lock.
    Yes,
    /// Another token holds the lock, or waits.
    No,
    /// The node has a completion record.
    Done {
        /// The fence of the finished claim.
        fence: Fence,
        /// Time of the answer.
        heard: Instant,
        /// End of the record.
        until: Instant,
    },
    /// An error: the node does not serve such requests now.
    Refused(Obstacle),
    /// No answer in time, or no connection.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Open {
    pub(in crate::quorum) id: u32,
    pub(in crate::quorum) ask: Ask,
    pub(in crate::quorum) sent: Instant,
    /// The length asked for. The lease can have become longer since.
    pub(in crate::quorum) ttl: Millis,
}

/// The token's lease at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Lease {
    /// The grant, as far as is known.
    pub(in crate::quorum) held: Option<Held>,
    /// True if the claim's fence is too far ahead for the node to be raised to it.
    pub(in crate::quorum) behind: bool,
    /// True if another token may have had the lock here since the attempt began: the node denied, or a lease
    /// ended early. A later grant supports the claim from then on only.
    pub(in crate::quorum) has_gap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::quorum) struct Held {
    pub(in crate::quorum) fence: Fence,
    /// The earliest end of the lease.
    pub(in crate::quorum) end: Instant,
    /// The length asked for, and the time of the request.
    pub(in crate::quorum) ttl: Millis,
    pub(in crate::quorum) sent: Instant,
    /// True if the grant went to a blocked request, and the token has not asked again since.
    pub(in crate::quorum) waited: bool,
    /// The lease has certainly had no gap since this time; zero: since the claim stands, or no other client can
    /// have had a claim on this node meanwhile.
    pub(in crate::quorum) since: Instant,
}

impl Said {
    /// True for an error or a failure, which is neither a grant, nor a denial, nor an open question.
    pub fn is_failure(self) -> bool {
        matches!(self, Said::Failed | Said::Refused(_))
    }

    /// True if the node has a completion record.
    pub(in crate::quorum) fn is_done(self) -> bool {
        matches!(self, Said::Done { .. })
    }
}

impl Vote {
    /// The lease that the node is known to grant.
    pub(in crate::quorum) fn held(&self) -> Option<Held> {
        self.lease.held
    }

    /// The fence that the node is known to grant.
    pub(in crate::quorum) fn fence(&self) -> Option<Fence> {
        self.held().map(|held| held.fence)
    }

    /// The fence of the completion records that the node is asked to grant over.
    pub(in crate::quorum) fn over(&self) -> Option<Fence> {
        match self.record {
            RecordState::Over(fence) => Some(fence),
            _ => None,
        }
    }

    /// True if the node accepts only shorter leases than this.
    pub(in crate::quorum) fn refuses(&self, ttl: Millis) -> bool {
        self.limit.is_some_and(|limit| limit < ttl)
    }

    /// True if the node's last answer is a grant, a denial, or a completion record.
    pub(in crate::quorum) fn has_answered(&self) -> bool {
        matches!(self.said, Said::Yes | Said::No | Said::Done { .. })
    }

    /// True if the node's last answer is a denial, or a grant that fits into the claim.
    pub(in crate::quorum) fn has_voted(&self) -> bool {
        self.said == Said::No || (self.said == Said::Yes && !self.lease.behind)
    }

    /// True if the node answers, does not grant, and has no request under way.
    pub(in crate::quorum) fn is_idle(&self) -> bool {
        let refuses = self.said.is_failure() || self.said.is_done();
        self.held().is_none() && self.open.is_none() && !refuses
    }

    /// True if an answer may still come in time.
    pub(in crate::quorum) fn is_open(&self) -> bool {
        self.open.is_some() && self.said != Said::Failed
    }

    /// True if the node supports the claim, or still may.
    pub(in crate::quorum) fn has_hope(&self, fence: Option<Fence>) -> bool {
        let open = self.is_open();
        match (self.held(), fence) {
            (Some(held), Some(fence)) if held.fence == fence => true,
            (Some(held), Some(fence)) if held.fence > fence => false,
            (Some(_), None) => true,
            _ => open,
        }
    }

    /// True if the node grants, or may do so in a moment. A node where the request waits behind another client
    /// may not.
    pub(in crate::quorum) fn may_grant(&self) -> bool {
        match self.said {
            Said::Nothing | Said::Yes => true,
            Said::No => self.open.is_some_and(|open| !open.ask.blocks()),
            Said::Done { .. } | Said::Refused(_) | Said::Failed => false,
        }
    }

    /// Notes a new request.
    pub(in crate::quorum) fn ask(&mut self, open: Open) {
        self.open = Some(open);
        if self.said.is_failure() || self.said.is_done() {
            self.said = Said::Nothing;
        }
    }

    /// Takes the answer to the open request, or the silence at its time-out.
    pub(in crate::quorum) fn hear<R: Rules>(
        &mut self,
        open: Open,
        answer: Answer,
        now: Instant,
        rules: &R,
    ) {
        let Open { sent, ttl, .. } = open;
        // No request makes a lease shorter, whether answered, late or lost.
        let end = rules.ends(rules.begins(sent, now), ttl);
        self.limit = self.limit_in(open, answer).or(self.limit);
        self.said = self.says(open, answer, end, now, rules);
        if let (Some(held), Answer::Refused(Obstacle::Quarantine(left))) =
            (&mut self.lease.held, answer)
        {
            held.end = rules.lacks(held.end, rules.ends(rules.begins(sent, now), left));
        }
        // The lease may end early, with the record.
        if let (Some(held), RecordState::Asked(end)) = (&mut self.lease.held, self.record) {
            held.end = held.end.min(end);
        }
    }

    /// The meaning of an answer, for the lease and the requests at the node.
    fn says<R: Rules>(
        &mut self,
        open: Open,
        answer: Answer,
        end: Instant,
        now: Instant,
        rules: &R,
    ) -> Said {
        let ask = open.ask;
        match answer {
            Answer::Granted(fence) => {
                if self.record == RecordState::Has {
                    self.record = RecordState::No;
                }
                self.lease.grant(fence, open, end, now)
            }
            Answer::Extended => self.lease.extend(open, end, now),
            Answer::Denied | Answer::Turn(_) => {
                self.lease.is_not_here();
                Said::No
            }
            Answer::Done(DoneRecord { fence, left }) => {
                self.lease.is_not_here();
                Said::Done { fence, heard: now, until: now.plus(left) }
            }
            Answer::Finished => {
                self.has_record(open, end, now);
                Said::Yes
            }
            Answer::Gone => {
                if rules.believes_gone() {
                    self.lease.held = None;
                }
                Said::No
            }
            // The token holds, with the fence that the node granted.
            Answer::TooFar if matches!(ask, Ask::Extend { .. }) => {
                self.lease.behind = true;
                // The lease has had no gap until now.
                if let Some(held) = &mut self.lease.held {
                    held.sent = open.sent;
                }
                Said::Yes
            }
            // Until the node's clock has caught up.
            Answer::TooFar => Said::Refused(Obstacle::Busy),
            Answer::TooLong(_) => Said::Refused(Obstacle::Never),
            Answer::Refused(why) => {
                if ask.finishes() && why == Obstacle::Never {
                    self.record = RecordState::Refused;
                }
                Said::Refused(why)
            }
            Answer::Silent | Answer::Unreachable => Said::Failed,
            Answer::Answered => self.said,
        }
    }

    /// Notes that the node was asked for DONE, until `end` at the earliest. The node may have the record even
    /// if its answer is lost.
    pub(in crate::quorum) fn may_have_record(&mut self, end: Instant) {
        let end = if let RecordState::Asked(end) = self.record { end } else { end };
        self.record = RecordState::Asked(end);
        if let Some(held) = &mut self.lease.held {
            held.end = held.end.min(end);
        }
    }

    /// Notes that the node has the record.
    fn has_record(&mut self, open: Open, end: Instant, now: Instant) {
        let Ask::Finish { fence, .. } = open.ask else { return };
        // The answer to an ACQUIRE before it may be on its way, or lost.
        if self.lease.held.is_none() {
            self.lease.grant(fence, open, end, now);
        }
        if let Some(held) = &mut self.lease.held {
            (held.fence, held.waited) = (held.fence.max(fence), false);
            if let RecordState::Asked(end) = self.record {
                held.end = end;
            }
            self.record = RecordState::Has;
        }
    }

    /// The longest lease that the node accepts, if its answer refuses a longer one.
    fn limit_in(&self, open: Open, answer: Answer) -> Option<Millis> {
        match answer {
            Answer::TooLong(limit) => Some(limit),
            // The state file covers the lease that the node has granted.
            Answer::Refused(Obstacle::NotDurable) => {
                self.held().map(|held| held.ttl).filter(|ttl| *ttl < open.ttl)
            }
            _ => None,
        }
    }
}

impl Lease {
    /// Notes that another token has the lock here, or it is done.
    fn is_not_here(&mut self) {
        (self.held, self.has_gap) = (None, true);
    }

    fn grant(&mut self, fence: Fence, open: Open, end: Instant, now: Instant) -> Said {
        let Open { ask, sent, ttl, .. } = open;
        let waited = ask.blocks();
        let mut held = Held { fence, end, ttl, sent, waited, since: now };
        if let Some(before) = self.held.filter(|before| before.fence == fence) {
            (held.since, held.end) = (before.since, before.end.max(end));
        }
        self.held = Some(held);
        Said::Yes
    }

    fn extend(&mut self, open: Open, end: Instant, now: Instant) -> Said {
        let Open { ask, sent, ttl, .. } = open;
        let Ask::Extend { fence } = ask else { return Said::Yes };
        // The lease had ended by our clock, but the request reached the node in time.
        let Some(held) = &mut self.held else { return self.grant(fence, open, end, now) };
        (held.end, held.ttl, held.sent) = (held.end.max(end), ttl, sent);
        (held.fence, held.waited) = (fence, false);
        Said::Yes
    }
}
