//! Completion records in the quorum. A lock is done if a majority of the nodes has the record of one claim.
//!
//! A record excludes other clients as the holder's lease did. So the holder counts it for its claim while it
//! asks the other nodes.
//!
//! A client takes a node with a record, by AGAIN, only if a majority cannot have that record. This is so when
//! too few nodes are left beside two groups: nodes that grant the lock to this client, and nodes with a later
//! claim's record. (A node with an earlier claim's record may have granted the lock to another client since,
//! which left it done.) The client asks these nodes again after its first sight of the record: the lock may
//! have been broken there before.
//!
//! While the holder's claim is valid no other client has so many nodes. So a record that the holder counts
//! stays until a majority has it, or the claim has ended.

use alloc::vec::Vec;

use super::{Acquisition, Phase};
use crate::quorum::ballot::vote::{RecordState, Said, Vote};
use crate::quorum::ballot::{Ballot, Outgoing};
use crate::quorum::rules::Rules;
use crate::quorum::{Ask, DoneRecord, Failure};
use crate::words::{Fence, Instant, Millis, Time};

impl<R: Rules> Acquisition<R> {
    /// Ends the acquisition if the lock is done. Otherwise asks again the nodes with a record that does not
    /// count. True if it has ended.
    pub(in crate::quorum) fn heeds_records(&mut self, time: Time) -> bool {
        if !self.ballot.said().any(Said::is_done) {
            return false;
        }
        let again = self.plan.again;
        if let Some(record) = self.ballot.done(time.now)
            && again < Some(record.fence)
        {
            self.missing_since = None;
            self.lose(Failure::Done(record));
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
        self.ballot.confirm_beside_records(&mut self.out, time.now);
        false
    }
}

impl<R: Rules> Ballot<R> {
    /// The completion record of a majority, and its time left.
    fn done(&self, now: Instant) -> Option<DoneRecord> {
        let needed = self.rules.records(self.votes.len());
        self.records(now).find_map(|(fence, _)| {
            let same =
                self.records(now).filter(|(other, _)| self.rules.is_same_work(*other, fence));
            let mut ends: Vec<Instant> = same.map(|(_, until)| until).collect();
            ends.sort_unstable_by(|a, b| b.cmp(a));
            let until = ends.get(needed.checked_sub(1)?)?;
            Some(DoneRecord { fence, left: Millis(until.since(now).div_ceil(1000)) })
        })
    }

    /// True if a node has a record, and an answer is outstanding that may make a majority of them.
    pub(in crate::quorum) fn may_report_done(&self) -> bool {
        self.said().any(Said::is_done)
            && self.votes.iter().any(Vote::is_open)
            && self.do_most(|vote| vote.said.is_done() || vote.is_open())
    }

    /// The nodes to ask again: their record is over by our clock, or requests are granted over it from now on.
    /// The reason is that a majority cannot have the record, or that AGAIN covers it.
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
                vote.record = RecordState::Over(fence);
            }
            passed.push(node);
        }
        passed
    }

    /// Asks again for grants that are older than the client's first sight of a record.
    fn confirm_beside_records(&mut self, out: &mut Outgoing, now: Instant) {
        let heard = |vote: &Vote| match vote.said {
            Said::Done { heard, .. } => Some(heard),
            _ => None,
        };
        let Some(newest) = self.votes.iter().filter_map(heard).max() else { return };
        let is_old = |vote: &Vote| {
            let idle = vote.open.is_none() && !vote.said.is_failure();
            idle && vote.held().is_some_and(|held| held.sent < newest)
        };
        for node in self.nodes_that(is_old) {
            self.ask(out, node, Ask::again(self.votes.len()), now);
        }
    }

    fn may_be_done(&self, fence: Fence, heard: Instant, now: Instant) -> bool {
        let is_other = |vote: &&Vote| match (vote.held(), vote.said) {
            (Some(held), _) => heard <= held.sent && now < held.end,
            (None, Said::Done { fence: other, .. }) => self.rules.outdates(other, fence),
            (None, _) => false,
        };
        let others = self.votes.iter().filter(is_other).count();
        let records = self.records(now).filter(|(other, _)| self.rules.is_same_work(*other, fence));
        self.rules.may_be_done(records.count(), others, self.votes.len())
    }

    /// The records that nodes have reported, and their ends.
    fn records(&self, now: Instant) -> impl Iterator<Item = (Fence, Instant)> {
        self.votes.iter().filter_map(move |vote| match vote.said {
            Said::Done { fence, until, .. } => (now < until).then_some((fence, until)),
            _ => None,
        })
    }

    // --- the holder ------------------------------------------------------------------------------

    /// Asks a node again over a record that a former holder left late: it must not keep the node from the next
    /// holder. A late request must not remove the record of its own holder.
    pub(in crate::quorum) fn pass_over_earlier(
        &mut self,
        out: &mut Outgoing,
        node: usize,
        record: DoneRecord,
        now: Instant,
    ) {
        if self.fence().is_none_or(|fence| fence <= record.fence) {
            return;
        }
        if let Some(vote) = self.votes.get_mut(node) {
            vote.record = RecordState::Over(record.fence);
            self.renew_at(out, node, now);
        }
    }

    /// Sends DONE to each node that grants the lock, or grants it in this moment, and has not answered that yet.
    pub fn finish(&mut self, out: &mut Outgoing, length: Millis, now: Instant) {
        let Some(fence) = self.fence() else { return };
        let end = self.rules.ends(self.rules.begins(now, now), length);
        let is_due = |vote: &Vote| {
            let ask = vote.open.filter(|_| vote.is_open()).map(|open| open.ask);
            let asks = ask.is_some_and(Ask::finishes);
            let grants = vote.held().is_some() || ask.is_some_and(|ask| !ask.blocks());
            let is_over = matches!(vote.record, RecordState::Has | RecordState::Refused);
            grants && !is_over && !asks
        };
        for node in self.nodes_that(is_due) {
            self.ask(out, node, Ask::Finish { length, fence }, now);
            if let Some(vote) = self.votes.get_mut(node) {
                vote.may_have_record(end);
            }
        }
    }

    /// True if the record that was asked for may be over.
    pub fn is_record_over(&self, now: Instant) -> bool {
        let is_over = |vote: &Vote| matches!(vote.record, RecordState::Asked(end) if end <= now);
        self.votes.iter().any(is_over)
    }

    /// True if a majority has the record.
    pub fn is_finished(&self) -> bool {
        let recorded = |vote: &&Vote| vote.held().is_some() && vote.record == RecordState::Has;
        self.votes.iter().filter(recorded).count() >= self.rules.records(self.votes.len())
    }

    /// True if a majority may still get the record.
    pub fn can_finish(&self) -> bool {
        self.do_most(|vote| vote.held().is_some() && vote.record != RecordState::Refused)
    }
}
