//! One node's answers, and their effect on the claim.

use super::rules::Rules;
use super::{Answer, Ask, Obstacle};
use crate::words::{Fence, Instant, Millis};

/// One node's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Vote {
    pub(super) said: Said,
    /// The lease that the node is known to grant.
    pub(super) held: Option<Held>,
    /// The newest request, while there is no answer to it.
    pub(super) open: Option<Open>,
    /// The effects that earlier requests may have left at the node, or may yet have.
    pub(super) remains: Remains,
    /// The longest lease asked for: dlock does not repeat a RELEASE longer than this.
    pub(super) asked: Millis,
    /// Set if the node refused a longer lease for good.
    pub(super) most: Option<Most>,
    /// True if an ACQUIRE was never answered. If the lease was ended meanwhile, it would take the lock
    /// anew.
    pub(super) doubled: bool,
    /// True if the node did not answer the last time, or refused, even if it has a new request.
    pub(super) missing: bool,
    /// The fence of a grant given back, until the node confirms. The RELEASE may yet arrive, and would take
    /// back a grant made meanwhile.
    pub(super) returning: Option<Fence>,
    /// The fence that the node took back last. If it grants no larger one, it has forgotten the return: its
    /// primary's replica took over before it heard of it, and another client may have had the lock since.
    pub(super) returned: Option<Fence>,
    /// The latest end of the lease at the node. A request before that renews it.
    pub(super) ends_by: Option<Instant>,
    /// True if a request waited here, so that the lock can be handed on.
    pub(super) waited: bool,
    /// True if the claim's fence is too far ahead for the node to be raised to it.
    pub(super) behind: bool,
    /// True if another token may have had the lock here since the attempt began: the node said no, or
    /// a lease was given back or ended before its time. A later grant vouches from then on only.
    pub(super) has_gap: bool,
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
    /// An error: the node does not serve such requests now.
    Refused(Obstacle),
    /// No answer in time, or no connection.
    Failed,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) fence: Fence,
    /// The earliest end of the lease.
    pub(super) end: Instant,
    /// The length asked for, and the time of the request.
    pub(super) ttl: Millis,
    pub(super) sent: Instant,
    /// True if the grant counts: it is tied to no connection, or to the right one.
    pub(super) confirmed: bool,
    /// True if the grant went to a blocked request, and the token has not asked again since.
    pub(super) waited: bool,
    /// Time from which it has certainly held without a gap; zero: since the claim stands, or
    /// no other client can have had a claim on this node meanwhile.
    pub(super) since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    pub(super) id: u32,
    pub(super) ask: Ask,
    pub(super) sent: Instant,
    /// The length asked for. The lease can have become longer since.
    pub(super) ttl: Millis,
    /// True if the lease is tied to a connection, which is not that of a blocked request.
    pub(super) binds: bool,
}

/// The longest lease that a node grants, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Most {
    pub(super) grants: Millis,
    pub(super) refuses: Millis,
}

impl Said {
    /// True for an error or a failure: neither yes nor no, and not an open question either.
    pub fn is_failure(self) -> bool {
        matches!(self, Said::Failed | Said::Refused(_))
    }
}

impl Vote {
    /// The fence that the node is known to grant.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.held.map(|held| held.fence)
    }

    /// The length to ask for, where `ttl` is wanted.
    pub(super) fn length(&self, ttl: Millis) -> Millis {
        self.most.filter(|most| ttl >= most.refuses).map_or(ttl, |most| most.grants)
    }

    /// True if the node answers, does not grant, and has no request under way.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_none() && self.open.is_none() && !self.said.is_failure()
    }

    /// True if an answer may still come in time.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some() && self.said != Said::Failed
    }

    /// True if the node's grant counts.
    pub(super) fn is_confirmed(&self) -> bool {
        self.held.is_some_and(|held| held.confirmed)
    }

    /// Takes the answer to the open request, or the silence at its time-out.
    pub(super) fn hear<R: Rules>(&mut self, open: Open, answer: Answer, now: Instant, rules: &R) {
        let Open { ask, sent, ttl, .. } = open;
        // No request makes a lease shorter, answered or not, late or not.
        let end = rules.ends(rules.begins(sent, now), ttl);
        self.said = match answer {
            Answer::Granted(fence) if self.returned >= Some(fence) => Said::No,
            Answer::Granted(fence) => self.granted(fence, open, end, now),
            Answer::Extended => match (&mut self.held, ask) {
                (Some(held), _) => {
                    (held.end, held.ttl, held.sent) = (held.end.max(end), ttl, sent);
                    (held.confirmed, held.waited) = (true, false);
                    if let Ask::Extend { fence: Some(fence) } = ask {
                        held.fence = fence;
                    }
                    Said::Yes
                }
                // By our clock the lease had ended. The request reached the node in time.
                (None, Ask::Extend { fence: Some(fence) }) => self.granted(fence, open, end, now),
                (None, _) => Said::Yes,
            },
            Answer::Denied | Answer::Turn(_) => {
                (self.held, self.has_gap) = (None, true);
                // Without KEEP no place is left, unless another request is still on its way.
                if !(ask.keeps() && rules.leaves_place()) {
                    self.took_back();
                }
                self.ends_by = None;
                Said::No
            }
            Answer::Gone => {
                if rules.believes_gone() {
                    self.held = None;
                }
                self.ends_by = None;
                Said::No
            }
            // The token holds, with the fence that the node granted.
            Answer::TooFar if matches!(ask, Ask::Extend { .. }) => {
                self.behind = true;
                Said::Yes
            }
            Answer::TooFar => Said::Refused(Obstacle::Never),
            Answer::Refused(why) => {
                let longer = self.held.filter(|held| why == Obstacle::Never && held.ttl < ttl);
                if let Some(Held { ttl: grants, .. }) = longer {
                    self.most = Some(Most { grants, refuses: ttl });
                }
                Said::Refused(why)
            }
            Answer::Silent | Answer::Unreachable => Said::Failed,
            Answer::Done if ask == Ask::GiveBack => {
                self.took_back();
                self.ends_by = None;
                self.returned = self.returning;
                Said::No
            }
            Answer::Done => self.said,
        };
        self.heard(open, answer, now, rules);
    }

    fn granted(&mut self, fence: Fence, open: Open, end: Instant, now: Instant) -> Said {
        let Open { ask, sent, ttl, binds, .. } = open;
        let waited = ask.blocks();
        let confirmed = !(waited && binds);
        let goes_on = self.held.filter(|held| held.fence == fence);
        let since = goes_on.map_or(now, |held| held.since);
        let end = goes_on.map_or(end, |held| held.end.max(end));
        self.held = Some(Held { fence, end, ttl, sent, confirmed, waited, since });
        Said::Yes
    }

    /// Keeps the latest end of the lease at the node, and whether the node answers.
    fn heard<R: Rules>(&mut self, open: Open, answer: Answer, now: Instant, rules: &R) {
        let unanswered = matches!(answer, Answer::Silent | Answer::Unreachable);
        if unanswered {
            self.may_arrive(open);
        }
        if matches!(answer, Answer::Granted(_) | Answer::Extended) {
            let latest = open.ttl.0.saturating_mul(1000).saturating_add(rules.drift(open.ttl));
            self.ends_by = self.ends_by.max(Some(Instant(now.0.saturating_add(latest))));
        }
        self.returning = self.returning.filter(|_| unanswered);
        self.missing = self.said.is_failure() && answer != Answer::TooFar;
    }

    /// Notes that the request has no answer, and may arrive at any time.
    pub(super) fn may_arrive(&mut self, open: Open) {
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

    /// True if the node supports the claim, or still may.
    pub(super) fn has_hope(&self, fence: Option<Fence>) -> bool {
        let open = self.is_open();
        match (self.held, fence) {
            (Some(held), Some(fence)) if held.fence == fence => held.confirmed || open,
            (Some(held), Some(fence)) if held.fence > fence => false,
            (Some(held), None) if held.confirmed => true,
            _ => open,
        }
    }
}
