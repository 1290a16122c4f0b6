//! A server carries requests out, and has its flaws in that.

use dlock_core::command::acquire::Acquire;
use dlock_core::command::extend::Extend;
use dlock_core::command::release::{DoneFor, Release};
use dlock_core::limits::MAX_FENCE;
use dlock_core::quorum::{Answer, Ask, DoneRecord, Obstacle, Wait};
use dlock_core::{Acquired, ClientId, Fence, Grant, Host, Lease, Millis, Mode, Reason, Time};

use super::flaw::Flaw;
use super::server::{Blocked, Request, Server};

impl Server {
    /// Carries a request out. `None`: the request waits, or needs no answer.
    pub fn carry_out(&mut self, request: &Request, wire: u64, now: u64) -> Option<Answer> {
        let time = self.time(now);
        let Request { ask, ref key, ttl, .. } = *request;
        let key = key.as_key();
        self.host.now = time.now;
        if let Some(answer) = self.turns_away(ask) {
            return (ask != Ask::Release).then_some(answer);
        }
        self.node.look_at_places(time.now, false);
        match ask {
            Ask::Acquire { .. } | Ask::Extend { .. } if ttl > self.max_ttl => {
                Some(Answer::TooLong(self.max_ttl))
            }
            Ask::Acquire { fence, wait } => self.acquire(request, (fence, wait), wire, time),
            Ask::Extend { fence } => Some(self.extend(request, fence, wire, time)),
            Ask::Finish { length, fence } => Some(self.finish(
                request,
                DoneFor { time: length, fence: Some(fence), meta: b"" },
                time,
            )),
            Ask::Release => {
                let token = self.released_by(request);
                // A release cannot be refused: there are no foreign locks here.
                let release = Release { token: &token, is_final: request.is_final, done: None };
                let _ = self.node.release(&mut self.host, key, &release, time);
                None
            }
            Ask::Ping if self.node.is_in_quarantine(time.now) => {
                let left = self.node.durable.quarantine_left(time.now);
                Some(Answer::Refused(Obstacle::Quarantine(
                    left.map_or(Millis(0), |(_, left)| left),
                )))
            }
            Ask::Ping => Some(Answer::Answered),
        }
    }

    fn acquire(
        &mut self,
        request: &Request,
        (fence, wait): (Option<Fence>, Option<Wait>),
        wire: u64,
        time: Time,
    ) -> Option<Answer> {
        let Request { task, id, ref token, ref key, mode, ttl, .. } = *request;
        let fence = fence.filter(|_| self.flaw != Some(Flaw::IgnoresProposals));
        if self.flaw == Some(Flaw::RenewsNoAsker)
            && let Some(holder) = self.host.holder(key, token)
        {
            return Some(Answer::Granted(holder.grant().fence));
        }
        if self.flaw == Some(Flaw::AnswersRestored)
            && let Some(fence) = self.restored(request, time)
        {
            self.answer_restored(request, fence, time);
            return Some(Answer::Granted(fence));
        }
        let (keep, turn) = wait.map_or((None, false), |wait| (wait.keep, wait.turn));
        let turn = turn && self.flaw != Some(Flaw::TellsNobody);
        let (wait, ephemeral, meta) = (wait.and_then(|wait| wait.blocks), false, b"");
        let grants_over = self.flaw == Some(Flaw::GrantsOverRecords);
        let again = if grants_over { Some(Fence(MAX_FENCE)) } else { request.over };
        let acquire = Acquire { token, ttl, mode, wait, keep, turn, fence, again, ephemeral, meta };
        match self.node.acquire(&mut self.host, key.as_key(), &acquire, ClientId(wire), time) {
            Ok(Acquired::Granted(fence)) => Some(Answer::Granted(fence)),
            Ok(Acquired::Denied) => Some(Answer::Denied),
            Ok(Acquired::Waiting(waiter)) => {
                self.blocked.insert(waiter, Blocked { wire, task, id });
                None
            }
            Err(refusal) => Some(refused(&refusal)),
        }
    }

    fn extend(&mut self, request: &Request, fence: Fence, wire: u64, time: Time) -> Answer {
        let Request { ref token, ref key, ttl, .. } = *request;
        // Requests that raise a fence name it.
        let grant = self.host.holder(key, token);
        let has_more = grant.is_some_and(|grant| grant.grant().fence > fence);
        let is_named = !has_more || self.flaw != Some(Flaw::NamesNoFence);
        let extend = Extend { token, ttl, fence: is_named.then_some(fence) };
        let free = !self.host.values.contains_key(key);
        match self.node.extend(&mut self.host, key.as_key(), &extend, ClientId(wire), time) {
            Ok(true) => {
                if self.flaw == Some(Flaw::Shortens) {
                    self.shorten(request, time);
                }
                Answer::Extended
            }
            Ok(false) if free && self.flaw == Some(Flaw::ExtendsEnded) => Answer::Extended,
            Ok(false) => Answer::Gone,
            Err(refusal) => refused(&refusal),
        }
    }

    /// In quarantine, the fence of the token's grant.
    fn restored(&self, request: &Request, time: Time) -> Option<Fence> {
        let holder = self.host.holder(&request.key, &request.token)?;
        let is_exclusive = request.mode == Mode::Exclusive;
        (is_exclusive && self.node.is_in_quarantine(time.now)).then(|| holder.grant().fence)
    }

    /// Extends that grant, as for a client that names its fence.
    fn answer_restored(&mut self, request: &Request, fence: Fence, time: Time) {
        let Request { ref token, ref key, ttl, .. } = *request;
        let extend = Extend { token, ttl, fence: Some(fence) };
        let (key, client) = (key.as_key(), ClientId::UNKNOWN);
        let _ = self.node.extend(&mut self.host, key, &extend, client, time);
    }

    /// Lets the lease end as this EXTEND says, even if that is earlier.
    fn shorten(&mut self, request: &Request, time: Time) {
        if request.mode == Mode::Exclusive
            && let Some(holder) = self.host.holder(&request.key, &request.token)
        {
            let lease = Lease::begin(time.now, request.ttl);
            self.host.renew_one(request.key.as_key(), Grant { lease, ..holder.grant() });
        }
    }

    fn finish(&mut self, request: &Request, terms: DoneFor<'_>, time: Time) -> Answer {
        let key = request.key.as_key();
        let token: Box<[u8]> = match self.flaw {
            Some(Flaw::FinishesAnybody) => self.released_by(request),
            _ => request.token.into(),
        };
        let release = Release { token: &token, is_final: false, done: Some(terms) };
        match self.node.release(&mut self.host, key, &release, time) {
            Ok(true) => Answer::Finished,
            Ok(false) => Answer::Gone,
            Err(refusal) => refused(&refusal),
        }
    }

    /// The token that a RELEASE is applied to.
    fn released_by(&self, request: &Request) -> Box<[u8]> {
        if !matches!(self.flaw, Some(Flaw::ReleasesAnybody | Flaw::FinishesAnybody)) {
            return request.token.into();
        }
        let (_, holders) = self.host.holders(&request.key);
        holders.first().map_or(request.token.into(), |holder| holder.grant().token.into())
    }
}

fn refused(refusal: &Reason) -> Answer {
    match refusal {
        &Reason::Quarantine { left, .. } => Answer::Refused(Obstacle::Quarantine(left)),
        &Reason::Done { left, fence } => {
            Answer::Done(DoneRecord { fence, left: left.unwrap_or(Millis(u64::MAX)) })
        }
        Reason::TooFar { .. } | Reason::TooManyAhead { .. } => Answer::TooFar,
        Reason::TooLong { most, .. } => Answer::TooLong(Millis(*most)),
        Reason::NotDurable => Answer::Refused(Obstacle::NotDurable),
        Reason::TooManyWaiters | Reason::TooManyLocks { .. } => Answer::Refused(Obstacle::Busy),
        _ => Answer::Refused(Obstacle::Never),
    }
}

/// The answer to a blocked request.
pub fn told(answer: dlock_core::WaitOutcome) -> Answer {
    match answer {
        dlock_core::WaitOutcome::Granted(fence) => Answer::Granted(fence),
        dlock_core::WaitOutcome::Denied => Answer::Denied,
        dlock_core::WaitOutcome::Turn(top) => Answer::Turn(top),
        dlock_core::WaitOutcome::Demoted => Answer::Unreachable,
        dlock_core::WaitOutcome::Refused(reason) => refused(&reason),
        _ => Answer::Refused(Obstacle::Busy),
    }
}
