//! An agent: the requests to nodes that follow from a caller's request, and what their answers mean.

use dlock_core::quorum::attempts::{self, Agreed, Found};
use dlock_core::quorum::ballot::{Ballot, Outgoing};
use dlock_core::quorum::{Ask, Send};
use dlock_core::{Fence, Instant};

use super::flaw::{Bent, Flaw};
use super::node::{Say, What};
use super::{Asks, Job, Look, NODES, Phase, Plan, Reply, Setting, State, TTL, Told};

impl Setting {
    pub(super) fn begin(&self, state: &mut State, at: usize) {
        let Plan { agent, asks } = self.requests[at];
        let under_way = |(job, plan): (&Job, &Plan)| {
            plan.asks.gives_up() && !matches!(job.phase, Phase::Before | Phase::Over(_))
        };
        state.jobs[at].overlapped = state.jobs.iter().zip(&self.requests).any(under_way);
        let relied =
            state.jobs.iter().filter(|job| self.counts(state, job)).filter_map(|job| job.holds);
        state.jobs[at].relied = relied.map(|(_, until)| until).max();
        if asks.gives_up() {
            for job in &mut state.jobs {
                job.holds = None;
                job.overlapped |= !matches!(job.phase, Phase::Before | Phase::Over(_));
            }
        }
        (state.jobs[at].before, state.jobs[at].seen) = (state.told.len(), state.held());
        let own = |other: &usize| self.requests[*other].agent == agent;
        let known = |other: usize| Some((other, state.jobs[other].stood?));
        match (0..at).filter(own).filter_map(known).next_back() {
            Some((other, fence)) if asks == Asks::Check && self.is(Flaw::ChecksMemory) => {
                state.tell(at, self.suffix(other), fence, None);
            }
            Some((other, fence)) => {
                // Another request rests on it from now on: it is not given up any more.
                if !asks.gives_up() && !state.jobs[other].marked {
                    self.mark(state, other);
                }
                state.jobs[at].remembers = true;
                self.act(state, at, self.suffix(other), fence);
            }
            None => self.begin_anew(state, at),
        }
    }

    pub(super) fn begin_anew(&self, state: &mut State, at: usize) {
        match self.requests[at].asks {
            Asks::Acquire => self.attempt(state, at),
            _ => self.look(state, at),
        }
    }

    /// Asks for the lock by an attempt of its own.
    pub(super) fn attempt(&self, state: &mut State, at: usize) {
        let mut out = Outgoing::default();
        let mut ballot = Ballot::new(Bent(None), at as u32, NODES, TTL);
        for node in 0..NODES {
            ballot.ask(
                &mut out,
                node,
                Ask::Acquire { fence: Some(Fence(1)), wait: None },
                state.instant(),
            );
        }
        state.jobs[at].tried = true;
        state.enter(at, Phase::Asking(ballot, out));
        self.send_asked(state, at);
    }

    /// Gives its own attempt up, everywhere.
    pub(super) fn withdraw(&self, state: &mut State, at: usize) {
        state.jobs[at].stood = None;
        (0..NODES)
            .for_each(|node| state.send(at, node, None, self.suffix(at), What::Release(false)));
    }

    pub(super) fn look(&self, state: &mut State, at: usize) {
        state.enter(at, Phase::Looking([None; NODES]));
        (0..NODES).for_each(|node| state.send(at, node, Some(0), 0, What::Inspect));
    }

    /// Does what was asked for to an attempt that has stood.
    pub(super) fn act(&self, state: &mut State, at: usize, suffix: u8, fence: u64) {
        match self.requests[at].asks {
            Asks::Done if self.is(Flaw::FinishesUnjoined) => {
                self.finish(state, at, suffix, NEVER);
            }
            Asks::Acquire | Asks::Extend | Asks::Done => self.join(state, at, suffix, fence),
            Asks::Check => {
                state.enter(at, Phase::Counting(suffix, fence, [None; NODES]));
                (0..NODES)
                    .for_each(|node| state.send(at, node, Some(0), suffix, What::Check(fence)));
            }
            Asks::Release => self.release(state, at, suffix),
        }
    }

    /// Counts the nodes that extend the attempt's lease with the claim's fence: a claim of the same kind.
    pub(super) fn join(&self, state: &mut State, at: usize, suffix: u8, fence: u64) {
        let fence = fence + u64::from(self.is(Flaw::JoinsWithOwnFence));
        let mut ballot = Ballot::new(Bent(self.flaw), at as u32, NODES, TTL);
        let mut out = Outgoing::default();
        for node in 0..NODES {
            let ask = Ask::Extend { fence: Fence(fence) };
            ballot.ask(&mut out, node, ask, state.instant());
        }
        state.enter(at, Phase::Joining(suffix, fence, ballot));
        let to = Some(fence).filter(|_| !self.is(Flaw::JoinsAnyFence));
        while let Some(Send { node, id, .. }) = out.pop() {
            state.send(at, node, Some(id), suffix, What::Extend(to));
        }
    }

    pub(super) fn release(&self, state: &mut State, at: usize, suffix: u8) {
        let own = self.own(state, at, suffix);
        self.forget(state, at, suffix);
        state.enter(at, Phase::Counting(suffix, 0, [None; NODES]));
        for node in 0..NODES {
            let is_final = match own {
                Some(own) => {
                    let Job { twice, unanswered, .. } = state.jobs[own];
                    let has = |nodes: u8, flaw| nodes & 1 << node != 0 && !self.is(flaw);
                    has(twice, Flaw::ReleasesTwiceSent) || has(unanswered, Flaw::ReleasesUnanswered)
                }
                None => !self.is(Flaw::ReleasesForNow),
            };
            let line = own.unwrap_or(at);
            state.send_after(line, at, node, Some(0), suffix, What::Release(is_final));
        }
    }

    /// The job that made the attempt, if its agent is the one of this job, and remembers it.
    fn own(&self, state: &State, at: usize, suffix: u8) -> Option<usize> {
        let agent = self.requests[at].agent;
        let is_own = |other: &usize| {
            let knows = state.jobs[*other].stood.is_some();
            self.requests[*other].agent == agent && self.suffix(*other) == suffix && knows
        };
        (0..at).rev().find(is_own)
    }

    /// Leaves the lock done, by a claim that is valid until then.
    pub(super) fn finish(&self, state: &mut State, at: usize, suffix: u8, until: Instant) {
        self.forget(state, at, suffix);
        state.enter(at, Phase::Finishing(suffix, until, [None; NODES]));
        (0..NODES).for_each(|node| state.send(at, node, Some(0), suffix, What::Done));
    }

    pub(super) fn mark(&self, state: &mut State, at: usize) {
        state.jobs[at].marked = true;
        state.jobs[at].unanswered = (1 << NODES) - 1;
        let what = What::Acquire { fence: Some(1), stood: state.jobs[at].stood };
        (0..NODES).for_each(|node| state.send(at, node, None, self.suffix(at), what));
    }

    /// True if the agent knows that the attempt holds, and asks nodes that forget its lease for it again.
    pub(super) fn keeps(&self, job: &Job) -> bool {
        let was_told = job.tried && job.phase == Phase::Over(Told::Yes);
        job.stood.is_some() || (was_told && self.is(Flaw::RepairsReleased))
    }

    pub(super) fn repair(&self, state: &mut State, at: usize, node: usize) {
        state.repairs -= 1;
        let what = What::Acquire { fence: state.jobs[at].stood, stood: None };
        state.send(at, node, None, self.suffix(at), what);
    }

    pub(super) fn give_up(&self, state: &mut State, at: usize) {
        match state.jobs[at].phase {
            Phase::Asking(..) | Phase::Standing(_) => self.withdraw(state, at),
            Phase::Looking(shown) if shown.iter().any(Option::is_none) => {
                return self.judge_look(state, at, &shown);
            }
            _ => {}
        }
        state.enter(at, Phase::Over(Told::Error));
    }

    pub(super) fn restart(&self, state: &mut State, agent: u8) {
        state.restarts -= 1;
        for at in (0..state.jobs.len()).filter(|at| self.requests[*at].agent == agent) {
            state.jobs[at].stood = None;
            if !matches!(state.jobs[at].phase, Phase::Before | Phase::Over(_)) {
                state.enter(at, Phase::Over(Told::Error));
            }
        }
    }

    // --- what it hears ------------------------------------------------------------------------

    pub(super) fn hear(&self, state: &mut State, reply: Reply) {
        let Reply { job: at, node, id, say } = reply;
        let now = state.instant();
        let mut phase = state.jobs[at].phase.clone();
        match (&mut phase, say) {
            (Phase::Asking(ballot, out), Say::Votes(answer)) => {
                ballot.answer(node, id, answer, now);
                ballot.settle(out, now);
            }
            (Phase::Joining(_, _, ballot), Say::Votes(answer)) => {
                ballot.answer(node, id, answer, now);
                ballot.settle(&mut Outgoing::default(), now);
            }
            (Phase::Looking(shown), Say::Shows(attempt)) => shown[node] = Some(attempt),
            (Phase::Counting(.., said) | Phase::Finishing(.., said), Say::Is(yes)) => {
                said[node] = Some(yes);
            }
            _ => return,
        }
        state.jobs[at].phase = phase.clone();
        match phase {
            Phase::Asking(ballot, _) => self.judge_attempt(state, at, &ballot),
            Phase::Joining(suffix, fence, ballot) => {
                self.judge_join(state, at, (suffix, fence), &ballot)
            }
            Phase::Looking(shown) if shown.iter().all(Option::is_some) => {
                self.judge_look(state, at, &shown)
            }
            Phase::Counting(suffix, fence, said) => {
                self.judge_count(state, at, (suffix, fence), &said)
            }
            Phase::Finishing(suffix, until, said) => {
                self.judge_finish(state, at, (suffix, until), &said)
            }
            _ => {}
        }
    }

    pub(super) fn judge_attempt(&self, state: &mut State, at: usize, ballot: &Ballot<Bent>) {
        self.send_asked(state, at);
        match ballot.claim() {
            Some(claim) if claim.until > state.instant() => {
                state.jobs[at].stood = Some(claim.fence.0);
                state.enter(at, Phase::Standing(claim));
            }
            None if ballot.has_hope() => {}
            _ => {
                self.withdraw(state, at);
                self.look(state, at);
            }
        }
    }

    pub(super) fn judge_look(&self, state: &mut State, at: usize, shown: &[Look; NODES]) {
        let asks = self.requests[at].asks;
        let nodes =
            shown.map(|node| node.map(|node| node.map(|(shown, _)| shown).into_iter().collect()));
        let any = shown.iter().flatten().flatten().next().copied();
        let silent = shown.iter().filter(|node| node.is_none()).count();
        match (attempts::find(&Bent(None), &nodes), asks) {
            (_, Asks::Release) if self.is(Flaw::ActsOnOne) && any.is_some() => {
                self.release(state, at, any.map_or(0, |(shown, _)| shown.suffix));
            }
            (Found::Stood { suffix, .. } | Found::Unsettled(suffix), Asks::Acquire)
                if self.is(Flaw::ReleasesOthers) =>
            {
                (0..NODES)
                    .for_each(|node| state.send(at, node, None, suffix, What::Release(false)));
                state.no(at, asks);
            }
            (Found::Unsettled(suffix), Asks::Acquire | Asks::Extend)
                if self.is(Flaw::JoinsUnsettled) =>
            {
                let fence = shown.iter().flatten().flatten().map(|(_, fence)| *fence).max();
                self.join(state, at, suffix, fence.unwrap_or(1));
            }
            (Found::Stood { suffix, fence }, _) => self.act(state, at, suffix, fence.0),
            (Found::Unsettled(suffix), Asks::Release) => self.release(state, at, suffix),
            (Found::Unsettled(_), Asks::Acquire) | (Found::Nothing, _) => state.no(at, asks),
            (Found::Unknown, _) if self.is(Flaw::SilentIsNo) && silent < NODES => {
                state.no(at, asks)
            }
            (Found::Unsettled(_), _) if self.is(Flaw::UnsettledIsNo) => state.no(at, asks),
            (Found::Unsettled(_) | Found::Unknown, _) => state.enter(at, Phase::Over(Told::Error)),
        }
    }

    pub(super) fn judge_join(
        &self,
        state: &mut State,
        at: usize,
        (suffix, fence): (u8, u64),
        ballot: &Ballot<Bent>,
    ) {
        match ballot.claim() {
            Some(claim) if claim.until <= state.instant() => {
                state.enter(at, Phase::Over(Told::Error));
            }
            Some(claim) if self.requests[at].asks == Asks::Done => {
                self.finish(state, at, suffix, claim.until);
            }
            Some(claim) => state.tell(at, suffix, fence, Some(claim.until)),
            None if !ballot.is_denied() => {}
            None => {
                // Before a DONE as well: that has been searched once, and makes the space four times as large.
                let own = self.own(state, at, suffix);
                if let Some(own) = own.filter(|_| self.requests[at].asks != Asks::Done) {
                    self.withdraw(state, own);
                }
                self.deny(state, at, suffix);
            }
        }
    }

    /// Says no; but what the agent remembers saves it the look, and no more.
    pub(super) fn deny(&self, state: &mut State, at: usize, suffix: u8) {
        if !std::mem::take(&mut state.jobs[at].remembers) {
            return state.no(at, self.requests[at].asks);
        }
        self.forget(state, at, suffix);
        self.begin_anew(state, at);
    }

    pub(super) fn forget(&self, state: &mut State, at: usize, suffix: u8) {
        let agent = self.requests[at].agent;
        for (other, job) in state.jobs.iter_mut().enumerate() {
            if self.requests[other].agent == agent && self.suffix(other) == suffix {
                job.stood = None;
            }
        }
    }

    pub(super) fn judge_count(
        &self,
        state: &mut State,
        at: usize,
        (suffix, fence): (u8, u64),
        said: &[Option<bool>; NODES],
    ) {
        let asks = self.requests[at].asks;
        let rules = Bent(self.flaw.filter(|flaw| *flaw == Flaw::ReleasesOne));
        match (attempts::count(&rules, said), asks) {
            (Agreed::Open, _) => {}
            (Agreed::No, _) => self.deny(state, at, suffix),
            (Agreed::Yes, Asks::Check) => state.tell(at, suffix, fence, None),
            (Agreed::Yes, _) => {
                state.released |= 1 << suffix;
                state.enter(at, Phase::Over(Told::Yes));
            }
        }
    }

    pub(super) fn judge_finish(
        &self,
        state: &mut State,
        at: usize,
        (suffix, until): (u8, Instant),
        said: &[Option<bool>; NODES],
    ) {
        match attempts::count(&Bent(None), said) {
            Agreed::Open => {}
            Agreed::No => state.no(at, self.requests[at].asks),
            Agreed::Yes if state.instant() < until => {
                state.done |= 1 << suffix;
                state.enter(at, Phase::Over(Told::Yes));
            }
            Agreed::Yes => state.enter(at, Phase::Over(Told::Error)),
        }
    }

    /// Sends what the job's own attempt has to send.
    pub(super) fn send_asked(&self, state: &mut State, at: usize) {
        let Phase::Asking(_, out) = &mut state.jobs[at].phase else { return };
        let asked: Vec<Send> = std::iter::from_fn(|| out.pop()).collect();
        for Send { node, id, ask, .. } in asked {
            let what = match ask {
                Ask::Acquire { fence, .. } => {
                    What::Acquire { fence: fence.map(|fence| fence.0), stood: None }
                }
                Ask::Extend { fence } => What::Extend(Some(fence.0)),
                _ => continue,
            };
            state.send(at, node, Some(id), self.suffix(at), what);
        }
    }
}

const NEVER: Instant = Instant(u64::MAX);
