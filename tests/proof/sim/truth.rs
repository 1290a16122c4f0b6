//! The leases that a guard may rely on, derived from what the nodes have done. A lease that was granted in an
//! answer counts for its whole length, if it has not ended at the node since.
//!
//! These rules are independent of the product's rules, with one exception that no rule can avoid: a node may
//! act at any moment between its request and its answer.

use std::collections::{BTreeMap, BTreeSet};

use dlock_core::quorum::{Answer, Ask, Rules, Sound};
use dlock_core::simulated::Report;
use dlock_core::{Fence, Instant, KeyBuf, Millis};

use super::judge;
use super::task::Machine;
use super::world::{Event, World};

/// The truth of one client, and one of its attempts.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    attempt: u32,
    /// The leases that the client has learned of, by place.
    known: BTreeMap<usize, Known>,
    /// The leases that have ended without the client's knowledge.
    lost: BTreeMap<usize, Known>,
    /// The places whose lease was over by the client's clock when it learned of the end: the lease may have
    /// run until then.
    too_late: BTreeSet<usize>,
    /// The last end of one of the attempt's leases, by server.
    ended: BTreeMap<usize, u64>,
    /// The places that have refused, or were given back. They count from a later grant on.
    denied: BTreeSet<usize>,
    /// The time of each request's execution, by its connection, number and task.
    carried: BTreeMap<(usize, u32, u64), u64>,
    /// The largest fence that a place was to be raised to.
    raised: BTreeMap<usize, Fence>,
    /// True if, for all that the client can know, no majority had its lease at some moment.
    gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    server: usize,
    fence: Fence,
    /// The beginning of its certain hold; zero: early enough.
    since: Instant,
    /// The time of the last request for it.
    sent: Instant,
    end: Instant,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Under {
    /// The connection over which it was sent.
    pub wire: u64,
    /// The attempt that sent it.
    pub attempt: u32,
    /// The command.
    pub ask: Ask,
    /// The record over which it may be granted.
    pub over: Option<Fence>,
    /// The length of the lease that was asked for.
    pub ttl: Millis,
    /// The time of the request.
    pub sent: Instant,
    /// True if it is sent again when its connection breaks.
    pub again: bool,
}

impl Truth {
    fn sure(&self, claimed: Fence, now: Instant) -> impl Iterator<Item = &Known> {
        self.known.values().filter(move |known| known.fence >= claimed && now < known.end)
    }

    /// True if a majority has had the lease without a gap until now.
    pub fn keeps(&self, claimed: Fence, now: Instant, needed: usize) -> bool {
        !self.gap && self.sure(claimed, now).count() >= needed
    }

    /// Starts anew for another attempt.
    fn begin(&mut self, attempt: u32) {
        if self.attempt < attempt {
            let carried = std::mem::take(&mut self.carried);
            *self = Truth { attempt, carried, ..Truth::default() };
        }
    }

    /// Notes a gap if no majority has the lease now. If a node may have lacked the lease since its last
    /// request, a majority of others must have had it all the time.
    fn look(&mut self, claimed: Fence, now: Instant, needed: usize) {
        self.gap |= self.sure(claimed, now).count() < needed;
        for lost in self.lost.values().filter(|lost| now < lost.end) {
            let others = self.sure(claimed, now).filter(|other| other.since <= lost.sent);
            self.gap |= others.count() < needed;
        }
    }

    fn heard(
        &mut self,
        (place, server): (usize, usize),
        id: u32,
        (under, answer): (Under, Answer),
        (claimed, needed): (Option<Fence>, usize),
        now: Instant,
    ) {
        let carried = self.carried.remove(&(place, id, under.wire));
        if matches!(answer, Answer::Denied | Answer::Turn(_) | Answer::Done(_)) {
            self.denied.insert(place);
        }
        // The node may have been raised farther than its client knows: then it answers as if it had no lease.
        if let (Answer::Gone, Ask::Extend { fence }) = (answer, under.ask) {
            self.gap |= self.raised.get(&place).is_some_and(|raised| *raised > fence);
        }
        if tells(answer) {
            self.lost.remove(&place);
        }
        let before = self.known.get(&place).filter(|known| known.server == server).copied();
        let there = |at: u64| self.ended.get(&server).is_none_or(|ended| at > *ended);
        if !carried.is_some_and(there) {
            return;
        }
        let fence = match (answer, under.ask) {
            (Answer::Granted(fence), _) => fence,
            (Answer::Extended, Ask::Extend { fence }) => fence,
            _ => return,
        };
        // A server that has granted to another client since gives a larger fence.
        let first = !self.ended.contains_key(&server) && !self.denied.contains(&place);
        // With a larger fence it may be another lease, of a node that had lost the former: the client cannot
        // tell.
        let same = before.filter(|known| known.fence == fence || answer == Answer::Extended);
        let another = before.zip(claimed).filter(|(_, claimed)| same.is_none() && fence > *claimed);
        let since = match (before, claimed) {
            _ if another.is_some() => now,
            (Some(before), _) => before.since,
            (None, Some(claimed)) if !first || fence > claimed => now,
            _ => Instant(0),
        };
        let length = under.ttl.0 * 1000 - Sound.drift(under.ttl).min(under.ttl.0 * 1000);
        let end = Instant(under.sent.0 + length).max(same.map_or(Instant(0), |known| known.end));
        self.known.insert(place, Known { server, fence, since, sent: under.sent, end });
        if let Some((before, claimed)) =
            another.filter(|(before, claimed)| before.fence >= *claimed)
        {
            self.lost.insert(place, before);
            self.look(claimed, now, needed);
            self.lost.remove(&place);
        }
    }

    /// The attempt asks a place to raise its fence.
    pub fn raises(&mut self, attempt: u32, place: usize, fence: Fence) {
        self.begin(attempt);
        let raised = self.raised.entry(place).or_insert(fence);
        *raised = fence.max(*raised);
    }

    /// A server's lease is over, or forgotten.
    fn ends(
        &mut self,
        server: usize,
        at: u64,
        claimed: Option<Fence>,
        now: Instant,
        needed: usize,
    ) {
        self.ended.insert(server, at);
        let place = self.known.iter().find(|(_, known)| known.server == server);
        let Some(place) = place.map(|(place, _)| *place) else { return };
        let Some(lost) = self.known.remove(&place) else { return };
        if let Some(claimed) = claimed.filter(|claimed| lost.fence >= *claimed) {
            self.lost.insert(place, lost);
            self.look(claimed, now, needed);
        }
    }
}

impl<R: Rules> World<R> {
    fn claimed(&self, task: usize) -> Option<Fence> {
        match &self.tasks[task].machine {
            Machine::Holding(hold) => hold.fence(),
            _ => None,
        }
    }

    pub(super) fn needed(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// A client has won. A lease that has ended by now leaves a gap.
    pub(super) fn note_won(&mut self, task: usize, fence: Fence) {
        let (now, needed) = (self.clock_of(task).now, self.needed());
        self.tasks[task].truth.look(fence, now, needed);
    }

    /// A request of a client was carried out.
    pub(super) fn note_carried(&mut self, task: usize, place: usize, id: u32, wire: u64) {
        self.tasks[task].truth.carried.insert((place, id, wire), self.now);
    }

    /// A client receives an answer.
    pub(super) fn note_heard(
        &mut self,
        task: usize,
        place: usize,
        id: u32,
        under: Under,
        answer: Answer,
    ) {
        let Some(wire) = self.wires.get(&under.wire) else { return };
        let server = self.node_of(wire.server);
        if self.tasks[task].newest.get(&place) != Some(&id) {
            return;
        }
        let (claimed, now) = (self.claimed(task), self.clock_of(task).now);
        let needed = self.needed();
        let truth = &mut self.tasks[task].truth;
        truth.begin(under.attempt);
        if under.attempt < truth.attempt {
            return;
        }
        if let Some(claimed) = claimed {
            truth.look(claimed, now, needed);
        }
        if truth.lost.get(&place).is_some_and(|lost| lost.end <= now) {
            truth.too_late.insert(place);
        }
        let is_too_late = truth.too_late.contains(&place);
        truth.heard((place, server), id, (under, answer), (claimed, needed), now);
        let task_ = &mut self.tasks[task];
        if tells(answer) && !is_too_late && task_.ended.is_some_and(|by| self.now <= by) {
            task_.heard_since.insert(place);
        }
    }

    /// Notes the ends that a server has reported.
    pub(super) fn note_ends(&mut self, server: usize, log: &[Report]) {
        for event in log {
            match event {
                Report::Ended { token, .. } => {
                    let number = |part: &[u8]| part.try_into().map_or(0, u32::from_be_bytes);
                    let (task, attempt) = (number(&token[..4]) as usize, number(&token[4..]));
                    self.tasks[task].truth.begin(attempt);
                    if self.tasks[task].truth.attempt == attempt {
                        self.note_end(task, server);
                    }
                }
                Report::AllExpired(key, _) => {
                    let of = |task: &usize| self.tasks[*task].key == *key;
                    let all: Vec<usize> = (0..self.tasks.len()).filter(of).collect();
                    all.into_iter().for_each(|task| self.note_end(task, server));
                }
                _ => {}
            }
        }
    }

    /// A server stops, and may forget.
    pub(super) fn note_stop(&mut self, server: usize) {
        for task in 0..self.tasks.len() {
            if !self.tasks[task].is_over() {
                self.note_end(task, server);
            }
        }
    }

    pub(super) fn note_end(&mut self, task: usize, server: usize) {
        let (claimed, now) = (self.claimed(task), self.clock_of(task).now);
        let (at, needed, attempt) = (self.now, self.needed(), self.tasks[task].attempt);
        let truth = &mut self.tasks[task].truth;
        // The client may not have received an answer in this attempt yet.
        truth.begin(attempt);
        truth.ends(server, at, claimed, now, needed);
    }

    /// Another server has taken a node's place: the client cannot reach the former one's grants.
    pub(super) fn note_stranger(&mut self, process: usize, place: usize) {
        let of = |task: &usize| self.tasks[*task].process == process;
        for task in (0..self.tasks.len()).filter(of).collect::<Vec<_>>() {
            let time = self.clock_of(task);
            self.tasks[task].truth.gap = true;
            match &mut self.tasks[task].machine {
                Machine::Trying(acquisition) => acquisition.cut_off(place, time),
                Machine::Holding(hold) => hold.cut_off(place, time.now),
                Machine::Over => continue,
            }
            let alarm = self.tasks[task].alarm;
            self.later(0, Event::Wake { task, alarm });
        }
    }

    /// A client says that its lock is lost.
    pub(super) fn check_loss(&mut self, task: usize, fence: Option<Fence>) {
        let (now, needed) = (self.clock_of(task).now, self.needed());
        // A record may be shorter than the lease.
        let astray = self.tasks[task].is_astray || self.tasks[task].finishes_since > 0;
        let truth = &mut self.tasks[task].truth;
        let Some(fence) = fence.filter(|_| !truth.gap && !astray) else { return };
        if truth.keeps(fence, now, needed) {
            let how = format!("task {task} has {:?} at {now:?}", truth.known);
            self.judge.accuse(judge::HOLDS_ON, how);
        }
        let Self { tasks, calm_since, .. } = self;
        let begun = tasks[task].begun;
        if tasks[task].means.renews && calm_since.is_some_and(|calm| begun > calm + 3_000_000) {
            self.judge.accuse(judge::HOLDS_ON, format!("task {task} has lost it in calm"));
        }
    }

    /// Another client has the lock: the holders before must learn of it.
    pub(super) fn overtake(&mut self, key: &KeyBuf, fence: Fence, is_shared: bool) {
        for task in self.tasks.iter_mut().filter(|task| task.key == *key) {
            let shared = is_shared && task.mode == dlock_core::Mode::Shared;
            if let Machine::Holding(hold) = &task.machine
                && hold.fence().is_some_and(|before| before < fence)
                && !shared
                && task.ended.is_none()
            {
                task.ended = Some(self.now + hold.ttl().0 * 1_200);
                task.heard_since.clear();
            }
        }
    }
}

/// True if an answer tells of the lease. A refusal does not.
fn tells(answer: Answer) -> bool {
    !matches!(answer, Answer::Silent | Answer::Unreachable | Answer::Refused(_))
}
