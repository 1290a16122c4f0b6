//! The messages and the time between the agents and the nodes, and a record of what callers were told.

use dlock_core::Instant;

use super::node::{Place, What};
use super::{
    Asks, Job, MAJORITY, Message, ONE_FENCE, Phase, RISING, Reply, Setting, State, TICK, TRUE, Told,
};

impl State {
    pub(super) fn instant(&self) -> Instant {
        Instant(u64::from(self.now) * TICK)
    }

    /// True if a majority holds the attempt.
    pub(super) fn has(&self, suffix: u8) -> bool {
        self.places.iter().filter(|place| place.is_held_by(suffix)).count() >= MAJORITY
    }

    /// The attempts that a majority holds.
    pub(super) fn held(&self) -> u8 {
        (0..8).filter(|suffix| self.has(*suffix)).fold(0, |held, suffix| held | 1 << suffix)
    }

    /// True if a majority has the node's lease besides, and nobody counts answers.
    pub(super) fn can_forget(&self, node: usize) -> bool {
        let counts = |job: &Job| {
            use Phase::{Counting, Finishing, Joining, Looking};
            matches!(job.phase, Looking(..) | Joining(..) | Counting(..) | Finishing(..))
        };
        let suffix = self.places[node].holder.and_then(|holder| holder.suffix);
        let holds = |place: &&Place| suffix.is_some_and(|suffix| place.is_held_by(suffix));
        self.places.iter().filter(holds).count() > MAJORITY && !self.jobs.iter().any(counts)
    }

    pub(super) fn is_over(&self, asks: Asks, told: Told, setting: &Setting) -> bool {
        let mut jobs = self.jobs.iter().zip(&setting.requests);
        jobs.any(|(job, plan)| plan.asks == asks && job.phase == Phase::Over(told))
    }

    /// True if the message can be the next of its connection to arrive. The message that a claim has stood may go over
    /// another one, and a RELEASE overtake it. The nodes are alike, so those that hear of the first request do so in
    /// their order.
    pub(super) fn is_next(&self, at: usize, message: &Message) -> bool {
        let first =
            |of: &Message| of.job == 0 && matches!(of.what, What::Acquire { stood: None, .. });
        let before = |(other, earlier): (usize, &Message)| {
            let overtakes = earlier.what.is_stood() && matches!(message.what, What::Release(_));
            let same = earlier.line == message.line && earlier.node == message.node && other < at;
            let same = same && !overtakes;
            !earlier.again
                && (same || (first(earlier) && first(message) && earlier.node < message.node))
        };
        message.again || !self.messages.iter().enumerate().any(before)
    }

    /// True if its agent has released the attempt at the node over the same connection: then it sends this once.
    pub(super) fn is_withdrawn(&self, message: &Message) -> bool {
        let withdraws = |later: &Message| {
            let same = later.line == message.line && later.node == message.node;
            same && later.job != message.job && matches!(later.what, What::Release(_))
        };
        self.messages.iter().any(withdraws)
    }

    /// Carries a message out. Returns the reply.
    pub(super) fn arrive(&mut self, at: usize, again: bool) -> Option<Reply> {
        let message = self.messages.remove(at);
        let Message { job, node, id, suffix, what, line, .. } = message;
        if again {
            self.twice -= 1;
            self.jobs[line].twice |= 1 << node;
            self.post(Message { again, id: None, ..message });
        }
        if what.is_stood() && !message.again && !again {
            self.jobs[line].unanswered &= !(1 << node);
        }
        let say = self.places[node].carry_out(suffix, what, self.now);
        Some(Reply { job, node, id: id?, say })
    }

    pub(super) fn send(
        &mut self,
        job: usize,
        node: usize,
        id: Option<u32>,
        suffix: u8,
        what: What,
    ) {
        self.send_after(job, job, node, id, suffix, what);
    }

    /// Sends a message that arrives after those of another job to this node.
    pub(super) fn send_after(
        &mut self,
        line: usize,
        job: usize,
        node: usize,
        id: Option<u32>,
        suffix: u8,
        what: What,
    ) {
        self.post(Message { job, node, line, again: false, id, suffix, what });
    }

    pub(super) fn post(&mut self, message: Message) {
        self.messages.push(message);
        self.messages.sort_by_key(|message| (message.job, message.node, message.again));
    }

    pub(super) fn enter(&mut self, at: usize, phase: Phase) {
        self.jobs[at].phase = phase;
        self.replies.retain(|reply| reply.job != at);
        self.messages
            .iter_mut()
            .filter(|message| message.job == at)
            .for_each(|message| message.id = None);
    }

    /// The caller hears that an attempt holds, with this fence, until then.
    pub(super) fn tell(&mut self, at: usize, suffix: u8, fence: u64, until: Option<Instant>) {
        let job = &mut self.jobs[at];
        job.holds = until.map(|until| (suffix, until));
        if job.seen & 1 << suffix == 0 {
            self.broken = Some(TRUE);
        }
        let before = job.before;
        self.note(Some(suffix), fence, before);
        self.enter(at, Phase::Over(Told::Yes));
    }

    pub(super) fn no(&mut self, at: usize, asks: Asks) {
        let job = &self.jobs[at];
        let relied = job.relied.is_some_and(|until| self.instant() < until) && !job.overlapped;
        if asks != Asks::Acquire && relied {
            self.broken = Some(TRUE);
        }
        self.enter(at, Phase::Over(Told::No));
    }

    /// Notes a fence that somebody is told, who began when this many had been told.
    pub(super) fn note(&mut self, who: Option<u8>, fence: u64, before: usize) {
        let mut earlier = self.told.iter().take(before);
        if earlier.any(|(of, told)| *of != who && *told >= fence) {
            self.broken = Some(RISING);
        }
        let same = |(of, told): &(Option<u8>, u64)| {
            if who.is_some() && *of == who { *told != fence } else { *told == fence }
        };
        if self.told.iter().any(same) {
            self.broken = Some(ONE_FENCE);
        }
        if !self.told.contains(&(who, fence)) {
            self.told.push((who, fence));
        }
    }

    /// Another caller takes a node. With a majority it has a claim, and all nodes hear of it at once: its delays are
    /// those of the model of two attempts.
    pub(super) fn grab(&mut self, node: usize) {
        self.others -= 1;
        if !self.places.iter().any(Place::is_others) {
            self.other_since = self.told.len();
        }
        self.places[node].grab();
        let fences = self.places.iter().filter(|place| place.is_others());
        let fences: Vec<u64> =
            fences.filter_map(|place| place.holder).map(|holder| holder.fence).collect();
        if fences.len() != MAJORITY {
            return;
        }
        let fence = fences.into_iter().max().unwrap_or(0);
        // The same claim, which has left a node and taken another.
        if self.told.contains(&(None, fence)) {
            return;
        }
        self.places
            .iter_mut()
            .filter(|place| place.is_others())
            .for_each(|place| place.raise(fence));
        self.note(None, fence, self.other_since);
    }

    /// Notes which attempts a majority holds at this moment.
    pub(super) fn note_moment(&mut self) {
        let held = self.held();
        let now = self.instant();
        for job in &mut self.jobs {
            job.holds = job.holds.filter(|(_, until)| now < *until);
            match job.phase {
                Phase::Before => {}
                // Nothing asks for these any more.
                Phase::Over(_) => (job.seen, job.relied, job.before) = (0, None, 0),
                _ => job.seen |= held,
            }
        }
        let order = |reply: &Reply| (reply.job, reply.node, reply.id);
        self.replies.sort_unstable_by_key(order);
    }
}
