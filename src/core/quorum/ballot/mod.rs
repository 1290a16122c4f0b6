//! The nodes' answers in one attempt, the next request to each, and the claim that follows.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

mod lengths;
pub(super) mod vote;

use self::lengths::Lengths;
use self::vote::{Held, Open, Said, Vote};
use super::rules::Rules;
use super::{Answer, Ask, Claim, Obstacle, Send, Wait};
use crate::limits::MAX_KEEP;
use crate::words::{Fence, Instant, Millis};

/// The votes of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ballot<R> {
    pub(super) rules: R,
    attempt: u32,
    pub(super) lengths: Lengths,
    pub(super) votes: Vec<Vote>,
    standing: Standing,
    /// The claim's fence, fixed when a majority has granted. Only before the claim stands may it become
    /// smaller, if nodes cannot be raised this far.
    pub(super) fence: Option<Fence>,
}

/// The standing of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// The claim has not stood yet.
    Pending,
    /// The claim has stood: a majority has reached its fence.
    Stands,
    /// The claim has stood, and at some moment since a majority may have been missing.
    Torn,
}

/// Requests to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outgoing {
    queue: VecDeque<Send>,
    next_id: u32,
}

impl Outgoing {
    /// The next request to send.
    pub fn pop(&mut self) -> Option<Send> {
        self.queue.pop_front()
    }

    /// The id of the next request.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Adds a request. Returns its id.
    pub fn push(&mut self, node: usize, attempt: u32, ask: Ask, ttl: Millis) -> u32 {
        self.push_over(node, attempt, ask, ttl, None)
    }

    fn push_over(
        &mut self,
        node: usize,
        attempt: u32,
        ask: Ask,
        ttl: Millis,
        again: Option<Fence>,
    ) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.queue.push_back(Send { node, attempt, id, ask, ttl, again });
        id
    }
}

impl<R: Rules> Ballot<R> {
    /// A ballot before the first request.
    pub fn new(rules: R, attempt: u32, nodes: usize, ttl: Millis) -> Ballot<R> {
        let votes = vec![Vote::default(); nodes];
        Ballot {
            rules,
            attempt,
            lengths: Lengths::new(ttl),
            votes,
            standing: Standing::Pending,
            fence: None,
        }
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The claim's fence, if it is known.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The largest fence that a node has granted: the other nodes are asked for it, too, which saves a second
    /// round.
    pub fn highest(&self) -> Option<Fence> {
        self.votes.iter().filter_map(Vote::fence).max()
    }

    /// Asks a node.
    pub fn ask(&mut self, out: &mut Outgoing, node: usize, ask: Ask, now: Instant) {
        let Some(vote) = self.votes.get(node) else { return };
        let ttl = if self.has_stood() { self.length_at(vote) } else { self.lengths.first };
        self.ask_for(out, node, ask, ttl, now);
    }

    fn ask_for(&mut self, out: &mut Outgoing, node: usize, ask: Ask, ttl: Millis, now: Instant) {
        let Some(vote) = self.votes.get_mut(node) else { return };
        let again = vote.over().filter(|_| matches!(ask, Ask::Acquire { .. }));
        let id = out.push_over(node, self.attempt, ask, ttl, again);
        vote.ask(Open { id, ask, sent: now, ttl });
    }

    /// Notes when the request with this id was sent; its answer comes next.
    pub fn sent(&mut self, node: usize, id: u32, at: Instant) {
        let open = self.votes.get_mut(node).and_then(|vote| vote.open.as_mut());
        if let Some(open) = open.filter(|open| open.id == id) {
            open.sent = at;
        }
    }

    /// Takes a node's answer, or its silence. Returns the request if it is the node's newest one.
    pub fn answer(&mut self, node: usize, id: u32, answer: Answer, now: Instant) -> Option<Send> {
        let vote = self.votes.get_mut(node)?;
        let open = vote.open.filter(|open| self.rules.counts_for(id, open.id))?;
        // After silence the request stays open: a late answer still counts.
        if answer != Answer::Silent {
            vote.open = None;
        }
        let before = vote.held();
        vote.hear(open, answer, now, &self.rules);
        let first = before.is_none() && !vote.lease.has_gap;
        if let (Some(held), Some(fence)) = (vote.lease.held.as_mut(), self.fence)
            && self.rules.vouches_back(held.fence, fence)
        {
            held.since = match before {
                // An earlier request raised the fence; its answer was late, or lost.
                Some(before) if before.fence < held.fence => before.since,
                None if first => Instant(0),
                _ => held.since,
            };
        }
        let goes_on = vote.held().map(|held| held.since) == before.map(|held| held.since);
        if let (false, Some(before)) = (goes_on, before) {
            self.ended(node, before, now);
        }
        let Open { ask, ttl, .. } = open;
        Some(Send { node, attempt: self.attempt, id, ask, ttl, again: None })
    }

    /// Fixes the fence when a majority has granted, and raises the nodes below it.
    pub fn settle(&mut self, out: &mut Outgoing, now: Instant) {
        let held: Vec<Fence> = self.votes.iter().filter_map(|vote| vote.fence()).collect();
        let Some(claimed) = self.rules.claimed(&held, self.majority()).or(self.fence) else {
            return;
        };
        let fence = match self.fence {
            None => claimed,
            // A lease was lost meanwhile, and granted anew with a larger fence.
            Some(fence) if !self.has_stood() && claimed > fence => claimed,
            Some(fence) if !self.has_stood() && claimed < fence && self.cannot_raise() => {
                self.votes.iter_mut().for_each(|vote| vote.lease.behind = false);
                claimed
            }
            Some(fence) => fence,
        };
        self.fence = Some(fence);
        let lags = |vote: &Vote| {
            let idle = vote.open.is_none() && !vote.lease.behind && vote.said == Said::Yes;
            idle && vote.fence().is_some_and(|held| held < fence)
        };
        for node in self.nodes_that(lags) {
            self.ask(out, node, Ask::Extend { fence }, now);
        }
    }

    /// True if some nodes cannot be raised to the fence (the clock of the highest may be far ahead), and no
    /// raise is under way. Then the other nodes may make a claim with a smaller fence.
    fn cannot_raise(&self) -> bool {
        let raising =
            |vote: &Vote| vote.open.is_some_and(|open| matches!(open.ask, Ask::Extend { .. }));
        self.votes.iter().any(|vote| vote.lease.behind) && !self.votes.iter().any(raising)
    }

    /// Notes that the claim stands. Leases must keep it from now on.
    pub fn stand(&mut self) {
        self.standing = Standing::Stands;
        let held = self.votes.iter_mut().filter_map(|vote| vote.lease.held.as_mut());
        held.for_each(|held| held.since = Instant(0));
    }

    /// Notes that a node's lease has ended early: by a command, or because the node has forgotten it. The same
    /// may have happened at other nodes in the same moment, and another client may have held the lock since. So
    /// at each moment since this node was last asked, the other nodes must be a majority, with leases held
    /// since that moment or earlier.
    fn ended(&mut self, node: usize, lease: Held, now: Instant) {
        if let Some(vote) = self.votes.get_mut(node) {
            vote.lease.has_gap = true;
        }
        let Some(fence) = self.fence.filter(|_| self.has_stood()) else { return };
        if now >= lease.end {
            return;
        }
        let ends = self.supporters(fence).map(|held| held.end);
        let ends = ends.filter(|end| (lease.sent..now).contains(end));
        // True if the other nodes were too few at this moment.
        let is_gap = |at: &Instant| {
            let steady = |held: &Held| *at < held.end && self.rules.is_steady(held.since, *at);
            self.supporters(fence).filter(steady).count() < self.majority()
        };
        if [lease.sent, now].into_iter().chain(ends).any(|at| is_gap(&at)) {
            self.standing = Standing::Torn;
        }
    }

    fn has_stood(&self) -> bool {
        self.standing != Standing::Pending
    }

    /// The claim, if it stands.
    pub fn claim(&self) -> Option<Claim> {
        let fence = self.fence.filter(|_| self.standing != Standing::Torn)?;
        let ends: Vec<Instant> = self.supporters(fence).map(|held| held.end).collect();
        let until = self.rules.until(&ends, self.majority())?;
        Some(Claim { fence, until })
    }

    /// True if the claim can still come to stand, with outstanding answers.
    fn has_hope(&self) -> bool {
        // While answers are outstanding, the fence may become smaller for nodes that are behind.
        let open = self.votes.iter().any(Vote::is_open);
        self.do_most(|vote| vote.has_hope(self.fence) || (vote.lease.behind && open))
    }

    /// True if the outstanding answers may decide: for a claim, for another holder, or for a completion record.
    pub fn may_decide(&self) -> bool {
        let may_vote = self.can_vote() && !self.has_voted();
        self.has_hope() || may_vote || self.may_report_done()
    }

    /// The nodes' last answers, in the nodes' order.
    pub fn said(&self) -> impl Iterator<Item = Said> {
        self.votes.iter().map(|vote| vote.said)
    }

    /// The first node that denied the lock.
    pub fn denier(&self) -> Option<usize> {
        self.said().position(|said| said == Said::No)
    }

    /// True if a majority has answered yes or no.
    pub fn has_answered(&self) -> bool {
        self.do_most(Vote::has_answered)
    }

    /// The same without nodes that have not answered their newest request.
    pub fn has_answered_last(&self) -> bool {
        self.do_most(|vote| vote.has_answered() && vote.open.is_none())
    }

    /// True if a majority has granted or denied the lock, with fences that fit into one claim.
    pub fn has_voted(&self) -> bool {
        self.do_most(Vote::has_voted)
    }

    /// True if a majority may yet do so.
    fn can_vote(&self) -> bool {
        self.do_most(|vote| vote.has_voted() || vote.is_open())
    }

    /// True if a majority may yet answer yes or no.
    pub fn can_answer(&self) -> bool {
        self.do_most(|vote| !vote.said.is_failure())
    }

    /// True if too many nodes refuse permanently for a majority.
    pub fn is_refused(&self) -> bool {
        !self.do_most(|vote| vote.said != Said::Refused(Obstacle::Never))
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.votes.len()
    }

    /// The smallest number of nodes that is a majority.
    pub fn majority(&self) -> usize {
        self.rules.majority(self.votes.len())
    }

    /// Asks each node without an earlier request under way for the lease anew: to extend it where it is held,
    /// to grant it with the claim's fence elsewhere. A node may accept by now what it has refused before.
    pub fn renew(&mut self, out: &mut Outgoing, now: Instant) {
        self.votes.iter_mut().for_each(|vote| vote.limit = None);
        for node in 0..self.votes.len() {
            self.renew_at(out, node, now);
        }
    }

    /// Asks one node for the lease anew.
    pub fn renew_at(&mut self, out: &mut Outgoing, node: usize, now: Instant) {
        let Some(vote) = self.votes.get(node) else { return };
        if vote.is_open() {
            return;
        }
        let ask = match (vote.fence(), self.fence) {
            (Some(held), Some(fence)) if held < fence => Ask::Extend { fence },
            (Some(held), _) => Ask::Extend { fence: held },
            (None, fence) => Ask::Acquire { fence, wait: None },
        };
        self.ask(out, node, ask, now);
    }

    /// Asks again the nodes that may have lost the lease before another node granted it: then they can support
    /// the claim if that node loses it next.
    pub fn ask_doubtful(&mut self, out: &mut Outgoing, now: Instant) {
        let Some(newest) = self.votes.iter().filter_map(|vote| vote.held()?.since.into()).max()
        else {
            return;
        };
        let doubtful = |vote: &Vote| {
            !vote.said.is_failure()
                && vote.held().is_some_and(|held| held.since < newest && held.sent < newest)
        };
        for node in self.nodes_that(doubtful) {
            self.renew_at(out, node, now);
        }
    }

    /// Notes that another server has taken the node's place.
    pub fn cut_off(&mut self, node: usize, now: Instant) {
        let Some(vote) = self.votes.get_mut(node) else { return };
        // Without a grant there is nothing to lose, and an outstanding answer still counts.
        let Some(before) = vote.held() else { return };
        (vote.lease.held, vote.open) = (None, None);
        vote.said = Said::Failed;
        self.ended(node, before, now);
    }

    /// Waits at a node that does not grant, for a part of the lease. Its place is kept until the next request:
    /// otherwise later clients could get the node first, again and again. The lease is no longer than the place
    /// may be kept; a grant is extended.
    pub fn wait_behind(&mut self, out: &mut Outgoing, node: usize, now: Instant) {
        let Some(vote) = self.votes.get(node) else { return };
        if vote.held().is_none() && vote.open.is_none() {
            let ttl = self.length_at(vote).min(Millis(MAX_KEEP));
            let blocks = Some(Millis((ttl.0 / 4).max(1)));
            let wait = Some(Wait { blocks, keep: Some(ttl), turn: false });
            self.ask_for(out, node, Ask::Acquire { fence: self.fence, wait }, ttl, now);
        }
    }

    /// Waits at a node that has denied a request.
    pub fn wait_where_denied(&mut self, out: &mut Outgoing, node: usize, wait: Wait, now: Instant) {
        let denied = |vote: &Vote| vote.said == Said::No && vote.open.is_none();
        if self.votes.get(node).is_some_and(|vote| denied(vote) && vote.held().is_none()) {
            self.ask(out, node, Ask::Acquire { fence: self.fence, wait: Some(wait) }, now);
        }
    }

    /// True if no answer is outstanding, and all leases are full.
    pub fn is_settled(&self) -> bool {
        self.votes.iter().all(|vote| !vote.is_open() && self.is_full(vote))
    }

    /// Releases at each node that was asked, even without an answer. The token is not used again.
    pub fn withdraw(&mut self, out: &mut Outgoing) {
        let ttl = self.lengths.wanted().max(self.lengths.first);
        for (node, vote) in self.votes.iter_mut().enumerate() {
            let was_asked = vote.open.is_some() || vote.said != Said::Nothing;
            let answered = vote.open.take().is_none() && vote.said != Said::Failed;
            vote.said = Said::Nothing;
            if was_asked && (answered || self.rules.releases_unanswered()) {
                let ttl = vote.held().map_or(ttl, |held| held.ttl.max(ttl));
                out.push(node, self.attempt, Ask::Release, ttl);
            }
        }
    }

    /// True if a majority of the nodes does this.
    pub(super) fn do_most(&self, does: impl Fn(&Vote) -> bool) -> bool {
        self.votes.iter().filter(|vote| does(vote)).count() >= self.majority()
    }

    pub(super) fn nodes_that(&self, does: impl Fn(&Vote) -> bool) -> Vec<usize> {
        let nodes = self.votes.iter().enumerate().filter(|(_, vote)| does(vote));
        nodes.map(|(node, _)| node).collect()
    }

    /// The leases that support the claim.
    pub(super) fn supporters(&self, fence: Fence) -> impl Iterator<Item = Held> {
        let held = self.votes.iter().filter_map(|vote| vote.held());
        held.filter(move |held| self.supports(*held, fence))
    }

    /// True if a lease supports the claim.
    pub(super) fn supports(&self, held: Held, fence: Fence) -> bool {
        let supports = self.rules.supports(held.fence, fence);
        supports || (self.has_stood() && self.rules.keeps(held.fence, fence))
    }
}
