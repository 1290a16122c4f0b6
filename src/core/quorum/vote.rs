//! What one node has said, and what follows for the claim.

use super::rules::Rules;
use super::{Answer, Ask, Obstacle};
use crate::words::{Fence, Instant, Millis};

/// What one node has said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Vote {
    pub(super) said: Said,
    /// What the node's holder is known to have.
    pub(super) held: Option<Held>,
    /// The newest request, while there is no answer to it.
    pub(super) open: Option<Open>,
    /// An ACQUIRE may have been carried out there, and no RELEASE was sent since.
    pub(super) touched: bool,
    /// The longest lease that it was asked for: a RELEASE that does not get through is not sent for longer.
    pub(super) asked: Millis,
    /// A longer lease than it has granted was refused for good.
    pub(super) most: Option<Most>,
    /// A request that was blocked, or sent over a connection that broke, was never answered. It may arrive at
    /// any time, and would take a place, or the lock.
    pub(super) stray: bool,
    /// An ACQUIRE was never answered. If the lease was ended meanwhile, it would take the lock anew.
    pub(super) doubled: bool,
    /// It did not answer the last time, or refused. It may be asked again just now.
    pub(super) missing: bool,
    /// What it granted is given back, and the node has not said that it has heard of that. It may yet
    /// hear, and would take back whatever it granted meanwhile.
    pub(super) returning: Option<Fence>,
    /// The fence of what it took back last. If it grants no larger one, it has forgotten the return: its
    /// primary's replica took over before it heard of it, and somebody else may have had the lock since.
    pub(super) returned: Option<Fence>,
    /// When its lease is over at the node, at the latest. Whoever asks earlier renews it.
    pub(super) ends_by: Option<Instant>,
    /// It said no: somebody else had it. A grant after that counts from then on.
    pub(super) denied: bool,
    /// It was waited for here, so that the lock can be handed on.
    pub(super) waited: bool,
    /// The claim's fence is too far ahead for the node to be raised to it.
    pub(super) behind: bool,
    /// A lease has ended here before its time: what comes now is another one.
    pub(super) mended: bool,
}

/// What a node said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Said {
    /// Nothing yet.
    #[default]
    Nothing,
    /// That the token holds.
    Yes,
    /// That somebody else holds, or waits.
    No,
    /// That it does not answer such questions now.
    Refused(Obstacle),
    /// Nothing in time, or it cannot be reached.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) fence: Fence,
    /// Until when the lease runs, for certain.
    pub(super) end: Instant,
    /// For how long it was asked for, and when.
    pub(super) ttl: Millis,
    pub(super) sent: Instant,
    /// It counts: it is tied to no connection, or to the right one.
    pub(super) confirmed: bool,
    /// It was granted to a blocked request, and not asked for since.
    pub(super) waited: bool,
    /// It is known to have held without a gap from here on; zero: for as long as the claim stands, or
    /// nobody else can have had a claim on this node meanwhile.
    pub(super) since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    pub(super) id: u32,
    pub(super) ask: Ask,
    pub(super) sent: Instant,
    /// For how long it asked. The lease can have become longer since.
    pub(super) ttl: Millis,
    /// The lease is tied to a connection, which is not that of a blocked request.
    pub(super) binds: bool,
}

/// How long a lease a node grants, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Most {
    pub(super) grants: Millis,
    pub(super) refuses: Millis,
}

impl Said {
    /// Neither yes nor no, and not silence either.
    pub fn is_failure(self) -> bool {
        matches!(self, Said::Failed | Said::Refused(_))
    }
}

impl Vote {
    /// The fence that its holder is known to have.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.held.map(|held| held.fence)
    }

    /// For how long it is to be asked, where `ttl` is wanted.
    pub(super) fn length(&self, ttl: Millis) -> Millis {
        self.most.filter(|most| ttl >= most.refuses).map_or(ttl, |most| most.grants)
    }

    /// Whether it does not grant, and nothing is on its way, though it answers.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_none() && self.open.is_none() && !self.said.is_failure()
    }

    /// Whether an answer is still to come in time.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some() && self.said != Said::Failed
    }

    /// Whether it grants, and that counts.
    pub(super) fn is_confirmed(&self) -> bool {
        self.held.is_some_and(|held| held.confirmed)
    }

    /// The node has answered the open request, or not in time.
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
                // By our clock the lease had ended. The node came in time.
                (None, Ask::Extend { fence: Some(fence) }) => self.granted(fence, open, end, now),
                (None, _) => Said::Yes,
            },
            Answer::Denied | Answer::Turn(_) => {
                (self.held, self.denied) = (None, true);
                // Without KEEP nothing is left, unless another one is on its way still.
                self.touched = self.stray || (ask.keeps() && rules.leaves_place());
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
            // It holds, with the fence that it granted.
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
                (self.touched, self.ends_by) = (self.stray, None);
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

    /// What is kept of an answer besides: until when its lease may run at the node, and whether it answers.
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

    /// Nobody has answered the request, and it may arrive at any time.
    pub(super) fn may_arrive(&mut self, open: Open) {
        self.stray |= open.ask.blocks();
        self.doubled |= matches!(open.ask, Ask::Acquire { .. });
    }

    /// Whether it supports the claim, or still may.
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
