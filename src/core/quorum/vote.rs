//! One node's answers, and their effect on the claim.

use super::rules::Rules;
use super::{Answer, Ask, Mark, Obstacle};
use crate::words::{Fence, Instant, Millis};

/// One node's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Vote {
    pub(super) said: Said,
    /// The lease at the node.
    pub(super) lease: Lease,
    /// The requests to the node.
    pub(super) requests: Requests,
    /// The longest lease that the node accepts. Set if it refused a longer one the last time.
    pub(super) limit: Option<Millis>,
    /// True if a request waited here, so that the lock can be handed on.
    pub(super) waited: bool,
    /// The fence of a mark that does not count: requests are granted over it.
    pub(super) over: Option<Fence>,
    /// True if the node will not leave the lock done.
    pub(super) takes_no_mark: bool,
}

/// A node's last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Said {
    /// No answer yet.
    #[default]
    Nothing,
    /// Yes: the token holds the lock.
    Yes,
    /// No: another token holds the lock, or waits.
    No,
    /// No: the node has a mark.
    Done {
        /// The fence of the claim whose work is done.
        fence: Fence,
        /// Time of the answer.
        heard: Instant,
        /// End of the mark.
        until: Instant,
    },
    /// An error: the node does not serve such requests now.
    Refused(Obstacle),
    /// No answer in time, or no connection.
    Failed,
}

/// The token's requests to a node, and their effects there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Requests {
    /// The newest one, while there is no answer to it.
    pub(super) open: Option<Open>,
    /// The effects that earlier ones may have left at the node, or may yet have.
    pub(super) remains: Remains,
    /// The longest lease asked for: dlock does not repeat a RELEASE longer than this.
    pub(super) longest: Millis,
    /// True if an ACQUIRE was never answered. If the lease was ended meanwhile, it would take the lock
    /// anew.
    pub(super) doubled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    pub(super) id: u32,
    pub(super) ask: Ask,
    pub(super) sent: Instant,
    /// The length asked for. The lease can have become longer since.
    pub(super) ttl: Millis,
}

/// The effects of a token's requests at a node that only a RELEASE takes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Remains {
    /// No effect: the token has neither the lock nor a place there.
    #[default]
    Nothing,
    /// An ACQUIRE may have been carried out, and no RELEASE was sent since.
    Taken,
    /// Besides, a request that was blocked, or sent over a connection that broke, was never answered.
    /// It may arrive at any time, even after a RELEASE, and would take a place, or the lock.
    Stray,
}

/// The token's lease at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) grant: Grant,
    /// True if the claim's fence is too far ahead for the node to be raised to it.
    pub(super) behind: bool,
    /// True if another token may have had the lock here since the attempt began: the node said no, or
    /// a lease ended before its time. A later grant vouches from then on only.
    pub(super) has_gap: bool,
}

/// A node's grant of the lease, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Grant {
    /// None.
    #[default]
    Nothing,
    /// The node grants.
    Held(Held),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) fence: Fence,
    /// The earliest end of the lease.
    pub(super) end: Instant,
    /// The length asked for, and the time of the request.
    pub(super) ttl: Millis,
    pub(super) sent: Instant,
    /// True if the grant went to a blocked request, and the token has not asked again since.
    pub(super) waited: bool,
    /// The earliest end of the mark, if the node was asked to leave the lock done: the mark keeps others out,
    /// as the lease did.
    pub(super) mark_end: Option<Instant>,
    /// True if the node has the mark.
    pub(super) marked: bool,
    /// Time from which it has certainly held without a gap; zero: since the claim stands, or
    /// no other client can have had a claim on this node meanwhile.
    pub(super) since: Instant,
}

impl Said {
    /// True for an error or a failure: neither yes nor no, and not an open question either.
    pub fn is_failure(self) -> bool {
        matches!(self, Said::Failed | Said::Refused(_))
    }

    /// True if the node has a mark.
    pub(super) fn is_done(self) -> bool {
        matches!(self, Said::Done { .. })
    }
}

impl Vote {
    /// The lease that the node is known to grant.
    pub(super) fn held(&self) -> Option<Held> {
        match self.lease.grant {
            Grant::Held(held) => Some(held),
            Grant::Nothing => None,
        }
    }

    /// The fence that the node is known to grant.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.held().map(|held| held.fence)
    }

    /// True if the node has granted a shorter lease than `ttl`, and has not refused a longer one.
    pub(super) fn is_short(&self, ttl: Millis) -> bool {
        self.limit.is_none() && self.held().is_some_and(|held| held.ttl < ttl)
    }

    /// True if the node answers, does not grant, and has no request under way.
    pub(super) fn is_idle(&self) -> bool {
        let refuses = self.said.is_failure() || self.said.is_done();
        self.held().is_none() && self.requests.open.is_none() && !refuses
    }

    /// True if an answer may still come in time.
    pub(super) fn is_open(&self) -> bool {
        self.requests.open.is_some() && self.said != Said::Failed
    }

    /// True if the node supports the claim, or still may.
    pub(super) fn has_hope(&self, fence: Option<Fence>) -> bool {
        let open = self.is_open();
        match (self.held(), fence) {
            (Some(held), Some(fence)) if held.fence == fence => true,
            (Some(held), Some(fence)) if held.fence > fence => false,
            (Some(_), None) => true,
            _ => open,
        }
    }

    /// Notes a new request.
    pub(super) fn ask(&mut self, open: Open) {
        self.requests.add(open);
        if self.said.is_failure() || self.said.is_done() {
            self.said = Said::Nothing;
        }
    }

    /// Takes the answer to the open request, or the silence at its time-out.
    pub(super) fn hear<R: Rules>(&mut self, open: Open, answer: Answer, now: Instant, rules: &R) {
        let Open { sent, ttl, .. } = open;
        // No request makes a lease shorter, answered or not, late or not.
        let end = rules.ends(rules.begins(sent, now), ttl);
        if !matches!(answer, Answer::Silent | Answer::Unreachable) {
            self.limit = self.limit_in(open, answer);
        }
        self.said = self.says(open, answer, end, now, rules);
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
            Answer::Granted(fence) => self.lease.grant(fence, open, end, now),
            Answer::Extended => self.lease.extend(open, end, now),
            Answer::Denied | Answer::Turn(_) => {
                // Without KEEP no place is left, unless another request is still on its way.
                self.has_nothing(ask.keeps() && rules.leaves_place());
                Said::No
            }
            Answer::Done(Mark { fence, left }) => {
                self.has_nothing(false);
                Said::Done { fence, heard: now, until: now.plus(left) }
            }
            Answer::Marked => {
                self.requests.took_back();
                self.lease.mark(ask);
                Said::Yes
            }
            Answer::Gone => {
                if rules.believes_gone() {
                    self.lease.grant = Grant::Nothing;
                }
                Said::No
            }
            // The token holds, with the fence that the node granted.
            Answer::TooFar if matches!(ask, Ask::Extend { .. }) => {
                self.lease.behind = true;
                Said::Yes
            }
            Answer::TooFar | Answer::TooLong(_) => Said::Refused(Obstacle::Never),
            Answer::Refused(why) => {
                self.takes_no_mark |= ask.finishes() && why == Obstacle::Never;
                Said::Refused(why)
            }
            Answer::Silent | Answer::Unreachable => {
                self.requests.may_arrive(open);
                Said::Failed
            }
            Answer::Answered => self.said,
        }
    }

    /// Notes that the token has nothing at the node, but perhaps a place.
    fn has_nothing(&mut self, has_place: bool) {
        (self.lease.grant, self.lease.has_gap) = (Grant::Nothing, true);
        if !has_place {
            self.requests.took_back();
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

impl Requests {
    fn add(&mut self, open: Open) {
        if let Some(former) = self.open.replace(open) {
            self.may_arrive(former);
        }
        if matches!(open.ask, Ask::Acquire { .. }) {
            self.remains = self.remains.max(Remains::Taken);
        }
        self.longest = self.longest.max(open.ttl);
    }

    /// Notes that the request with this id was sent once more, if it is open. Later ones go over another
    /// connection, and may overtake it.
    pub(super) fn sent_again(&mut self, id: u32) {
        if let Some(open) = self.open.filter(|open| open.id == id) {
            self.may_arrive(open);
            if self.doubled {
                self.remains = Remains::Stray;
            }
        }
    }

    /// Notes that the request has no answer, and may arrive at any time.
    fn may_arrive(&mut self, open: Open) {
        if open.ask.blocks() {
            self.remains = Remains::Stray;
        }
        self.doubled |= matches!(open.ask, Ask::Acquire { .. });
    }

    /// Notes that the token has nothing at the node, unless a stray request arrives there.
    fn took_back(&mut self) {
        if self.remains == Remains::Taken {
            self.remains = Remains::Nothing;
        }
    }

    /// Forgets the requests. Returns the RELEASE that takes back their effects, if there may be any.
    pub(super) fn withdraw(&mut self) -> Option<Ask> {
        let blocks = self.open.take().is_some_and(|open| open.ask.blocks());
        match core::mem::take(&mut self.remains) {
            Remains::Nothing => None,
            Remains::Taken => Some(Ask::Release { is_final: blocks }),
            Remains::Stray => Some(Ask::Release { is_final: true }),
        }
    }
}

impl Lease {
    pub(super) fn held_mut(&mut self) -> Option<&mut Held> {
        match &mut self.grant {
            Grant::Held(held) => Some(held),
            Grant::Nothing => None,
        }
    }

    fn grant(&mut self, fence: Fence, open: Open, end: Instant, now: Instant) -> Said {
        let Open { ask, sent, ttl, .. } = open;
        let waited = ask.blocks();
        let (mark_end, marked, since) = (None, false, now);
        let mut held = Held { fence, end, ttl, sent, waited, mark_end, marked, since };
        if let Grant::Held(before) = self.grant
            && before.fence == fence
        {
            (held.since, held.end) = (before.since, before.end.max(end));
        }
        self.grant = Grant::Held(held);
        Said::Yes
    }

    fn extend(&mut self, open: Open, end: Instant, now: Instant) -> Said {
        let Open { ask, sent, ttl, .. } = open;
        let raised = match ask {
            Ask::Extend { fence } => fence,
            _ => None,
        };
        match (&mut self.grant, raised) {
            (Grant::Held(held), _) => {
                (held.end, held.ttl, held.sent) = (held.end.max(end), ttl, sent);
                held.waited = false;
                held.fence = raised.unwrap_or(held.fence);
            }
            // By our clock the lease had ended. The request reached the node in time.
            (_, Some(fence)) => return self.grant(fence, open, end, now),
            (_, None) => {}
        }
        Said::Yes
    }

    /// Notes that the node is asked to leave the lock done, until `end` at the earliest. The node may do so, and
    /// its answer be lost: the lease may end with the mark, before its time.
    pub(super) fn may_end(&mut self, end: Instant) {
        if let Some(held) = self.held_mut() {
            let end = *held.mark_end.get_or_insert(end);
            held.end = held.end.min(end);
        }
    }

    /// Notes that the lock is left done.
    fn mark(&mut self, ask: Ask) {
        if let (Some(held), Ask::Finish { fence, .. }) = (self.held_mut(), ask) {
            (held.marked, held.waited) = (true, false);
            (held.fence, held.end) = (held.fence.max(fence), held.mark_end.unwrap_or(held.end));
        }
    }
}
