//! Marks: a lock that its last holder left done. It is done where a majority of the nodes has the mark of one
//! claim.
//!
//! A mark keeps others out as the holder's lease did, so the holder counts it for its claim while it asks the
//! other nodes. A client takes a node with a mark, by AGAIN, only when that mark cannot be a majority's: when so
//! many nodes grant the lock to this client, or have a later claim's mark, that too few are left. (Where an
//! earlier claim's mark was, another client may have had the lock since, and left it done.) These nodes are
//! asked again after the mark was heard of: somebody may have broken the lock there before. While the holder's
//! claim is valid no other client has so many nodes; so a mark that the holder counts is not taken away before
//! it has a majority, or its claim has ended.

use alloc::vec::Vec;

use super::acquisition::Acquisition;
use super::ballot::{Ballot, Outgoing};
use super::phase::Phase;
use super::rules::Rules;
use super::vote::{Marking, Said, Vote};
use super::{Ask, Failure, Mark};
use crate::words::{Fence, Instant, Millis, Time};

impl<R: Rules> Acquisition<R> {
    /// Ends the acquisition if the lock is done; and asks those nodes again that have a mark which does not
    /// count. True if it has ended.
    pub(super) fn heeds_marks(&mut self, time: Time) -> bool {
        if !self.ballot.said().any(Said::is_done) {
            return false;
        }
        let again = self.plan.again;
        if let Some(mark) = self.ballot.done(time.now)
            && again < Some(mark.fence)
        {
            self.outage.end();
            self.lose(Failure::Done(mark));
            return true;
        }
        let proposal = self.ballot.highest().unwrap_or_else(|| self.proposal(time));
        for node in self.ballot.pass_over(again, time.now) {
            match self.phase {
                Phase::Gathering(_) => self.wait_at(node, time),
                _ => {
                    let ask = Ask::Acquire { fence: Some(proposal), wait: None };
                    self.ballot.ask(&mut self.out, node, ask, time.now);
                }
            }
        }
        self.ballot.confirm_beside_marks(&mut self.out, time.now);
        false
    }
}

impl<R: Rules> Ballot<R> {
    /// The mark that a majority of the nodes has, and for how long it still has it.
    fn done(&self, now: Instant) -> Option<Mark> {
        let needed = self.rules.marks(self.votes.len());
        self.marks(now).find_map(|(fence, _)| {
            let same = self.marks(now).filter(|(other, _)| self.rules.is_same_work(*other, fence));
            let mut ends: Vec<Instant> = same.map(|(_, until)| until).collect();
            ends.sort_unstable_by(|a, b| b.cmp(a));
            let until = ends.get(needed.checked_sub(1)?)?;
            Some(Mark { fence, left: Millis(until.since(now).div_ceil(1000)) })
        })
    }

    /// The nodes to ask again: their mark is over by our clock, or requests are granted over it from now on,
    /// because it cannot be a majority's, or because the lock is taken though it is done.
    fn pass_over(&mut self, again: Option<Fence>, now: Instant) -> Vec<usize> {
        let mut passed = Vec::new();
        for node in 0..self.votes.len() {
            let Some(vote) = self.votes.get(node).filter(|vote| vote.open.is_none()) else {
                continue;
            };
            let Said::Done { fence, heard, until } = vote.said else { continue };
            let counts = again < Some(fence) && self.may_be_done(fence, heard, now);
            if counts && now < until {
                continue;
            }
            if let Some(vote) = self.votes.get_mut(node).filter(|_| !counts) {
                vote.mark = Marking::Over(fence);
            }
            passed.push(node);
        }
        passed
    }

    /// Asks for those grants again that are older than a mark of which the client has heard.
    fn confirm_beside_marks(&mut self, out: &mut Outgoing, now: Instant) {
        let heard = |vote: &Vote| match vote.said {
            Said::Done { heard, .. } => Some(heard),
            _ => None,
        };
        let Some(newest) = self.votes.iter().filter_map(heard).max() else { return };
        for node in 0..self.votes.len() {
            let is_old = |vote: &Vote| {
                let idle = vote.open.is_none() && !vote.said.is_failure();
                idle && vote.held().is_some_and(|held| held.sent < newest)
            };
            if self.votes.get(node).is_some_and(is_old) {
                self.ask(out, node, Ask::again(self.votes.len()), now);
            }
        }
    }

    /// True if a node was asked over its mark.
    pub(super) fn has_passed_over(&self) -> bool {
        self.votes.iter().any(|vote| vote.over().is_some())
    }

    fn may_be_done(&self, fence: Fence, heard: Instant, now: Instant) -> bool {
        let is_other = |vote: &&Vote| match (vote.held(), vote.said) {
            (Some(held), _) => heard <= held.sent && now < held.end,
            (None, Said::Done { fence: other, .. }) => self.rules.outdates(other, fence),
            (None, _) => false,
        };
        let others = self.votes.iter().filter(is_other).count();
        let marks = self.marks(now).filter(|(other, _)| self.rules.is_same_work(*other, fence));
        self.rules.may_be_done(marks.count(), others, self.votes.len())
    }

    /// The marks of which nodes have told, and their ends.
    fn marks(&self, now: Instant) -> impl Iterator<Item = (Fence, Instant)> {
        self.votes.iter().filter_map(move |vote| match vote.said {
            Said::Done { fence, until, .. } => (now < until).then_some((fence, until)),
            _ => None,
        })
    }

    // --- the holder ------------------------------------------------------------------------------

    /// Asks a node again over a mark that a former holder left late: it must not keep the node from the next
    /// one. A late request must not take away the mark of its own holder.
    pub(super) fn pass_over_earlier(
        &mut self,
        out: &mut Outgoing,
        node: usize,
        mark: Mark,
        now: Instant,
    ) {
        if self.fence().is_none_or(|fence| fence <= mark.fence) {
            return;
        }
        if let Some(vote) = self.votes.get_mut(node) {
            vote.mark = Marking::Over(mark.fence);
            self.renew_at(out, node, now);
        }
    }

    /// Leaves the lock done at each node that grants it, and has not answered that yet.
    pub fn finish(&mut self, out: &mut Outgoing, length: Millis, now: Instant) {
        let Some(fence) = self.fence() else { return };
        for node in 0..self.votes.len() {
            let is_due = |vote: &Vote| {
                let asks = vote.open.is_some_and(|open| open.ask.finishes());
                let is_over = matches!(vote.mark, Marking::Has | Marking::Refused);
                vote.held().is_some() && !is_over && !(asks && vote.is_open())
            };
            if self.votes.get(node).is_some_and(is_due) {
                self.ask(out, node, Ask::Finish { length, fence }, now);
                let end = self.rules.ends(self.rules.begins(now, now), length);
                if let Some(vote) = self.votes.get_mut(node) {
                    vote.may_have_mark(end);
                }
            }
        }
    }

    /// True if a majority of the nodes has the mark.
    pub fn is_finished(&self) -> bool {
        let marked = |vote: &&Vote| vote.held().is_some() && vote.mark == Marking::Has;
        self.votes.iter().filter(marked).count() >= self.rules.marks(self.votes.len())
    }

    /// True if a majority of the nodes may yet have the mark.
    pub fn can_finish(&self) -> bool {
        let may = |vote: &&Vote| vote.held().is_some() && vote.mark != Marking::Refused;
        self.votes.iter().filter(may).count() >= self.majority()
    }
}
