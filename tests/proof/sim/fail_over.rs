//! A replica takes over from its primary, which dies, is cut off, or is replaced without a cause.
//!
//! A former primary may take over again before it has a data set of the new one. It waits for the longest lease.
//!
//! The replica can respect only what has reached it. No promise holds for
//!
//! - a lease longer than all that the replica was told of, and a fence larger than those;
//! - a grant by a deposed primary that has not learned of its replacement, to clients that still find it;
//! - a replica that takes over, cannot write its state file, and crashes.
//!
//! In most lives the primary is fenced off, as it should be. It refuses writes after a while without its
//! replica (`min-replicas-max-lag`), and the replica takes over later than that. Then a deposed primary
//! grants nothing.

use dlock_core::limits::MAX_LEAD;
use dlock_core::quorum::{Answer, Rules};
use dlock_core::simulated::Report;
use dlock_core::{Fence, Holder, KeyBuf, Millis, Mode};

use super::clock;
use super::judge;
use super::knowledge::Knows;
use super::life::token;
use super::replication::Known;
use super::world::{Event, Wire, World};

impl<R: Rules> World<R> {
    /// The primary of a node crashes, is cut off, or is replaced without a cause.
    pub(super) fn fail_over(&mut self, node: usize, length: u64) {
        let (leader, follower) = (self.leader(node), self.follower(node));
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        let can = self.servers[follower].is_up && self.servers[leader].is_up;
        if !can || !pair.known.has_data() || pair.deposed.is_some() || pair.is_failing_over {
            return;
        }
        pair.is_failing_over = true;
        let more = self.dice.one_of(&[1_000, 200_000, 1_500_000]);
        let after = self.max_lag.map_or(0, |lag| lag + 1) + self.dice.between(1, more);
        match self.dice.below(5) {
            0 | 1 => self.stop(leader, true, length),
            2 => self.cut_link(node, after + length),
            3 if self.max_lag.is_none() => {}
            _ => return self.later(1, Event::Promote { node, planned: true }),
        }
        self.later(after, Event::Promote { node, planned: false });
    }

    pub(super) fn promote(&mut self, node: usize, planned: bool) {
        let (old, new, now) = (self.leader(node), self.follower(node), self.now);
        self.look_at_link(old);
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        if !std::mem::take(&mut pair.is_failing_over) {
            return;
        }
        let alive = self.servers[old].is_up;
        let fenced = !alive || self.servers[old].host.refuses;
        let healthy = alive && pair.follows && pair.cut_until <= now;
        let may = if planned { healthy } else { fenced || self.max_lag.is_none() };
        if !self.servers[new].is_up || !pair.known.has_data() || !may {
            if !alive {
                self.note_stop(node);
            }
            return;
        }
        if planned {
            self.catch_up(node);
        }
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        let heard = pair.heard;
        let is_synced = pair.known.is_synced;
        let lost = pair.has_lost || !pair.queue.is_empty();
        pair.queue.clear();
        let left = std::mem::take(&mut pair.left);
        let left = if alive { self.servers[old].host.grants() } else { left };
        (pair.follows, pair.leader, pair.deposed) = (false, new, Some(old));
        self.hand_over(node, old, new);
        self.judge.forget_done(now);
        let may_wait = self.servers[new].knowledge;
        self.servers[new].promote(heard, now);
        self.note_restart();
        self.check_wait(new);
        self.say(format!("server {new} knows {may_wait:?}"));
        if !lost {
            self.check_replicated((old, &left), new);
        }
        self.note_promotion(node, new, is_synced);
        self.say(format!("server {new} takes node {node} over from server {old}"));
        self.settle(new);
        if planned {
            return self.demote(node);
        }
        for process in 0..self.processes.len() {
            let most = self.dice.one_of(&[1_000, 50_000, 1_000_000, 5_000_000]);
            let after = self.dice.between(100, most);
            self.later(after, Event::Learn { process, node });
        }
        let most = self.dice.one_of(&[10_000, 1_000_000, 5_000_000]);
        let after = self.dice.between(100, most);
        self.later(after, Event::Demote { node });
    }

    /// A primary that is going to be replaced holds writes back until the replica has everything.
    fn catch_up(&mut self, node: usize) {
        let (follower, now) = (self.follower(node), self.now);
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        for (_, sent) in std::mem::take(&mut pair.queue) {
            pair.known.note(&sent, now);
            self.servers[follower].hear(sent, now);
        }
        self.settle(follower);
    }

    /// The judge goes on with what the new primary can know.
    fn hand_over(&mut self, node: usize, old: usize, new: usize) {
        let Self { judge, servers, pairs, now, .. } = self;
        let (old, new, now) = (&servers[old], &servers[new], *now);
        let Some(pair) = pairs.get(&node) else { return };
        judge.hand_over(node, now, |key, end| {
            let end = old.true_end(end);
            // The lease has run for a while: less is left than was granted.
            let left = Millis(end.saturating_sub(now) / 1000);
            let known = pair.known.covers(key, Millis(left.0 * 99 / 100), now);
            known.then(|| new.end_at(end, now))
        });
        let untold = new.knowledge.knows == Knows::Untold;
        // Without the fence its clock alone tells, which may be set back to the slowest.
        let slowest = clock::UNIX + now - now / 100;
        let unix = if untold { new.time(now).unix + MAX_LEAD } else { slowest };
        let said = pair.known.fence.max(Fence(unix));
        if old.node.durable.counter.last() > said {
            judge.forget_fences(node, now);
        }
        for (key, mode, holder) in new.host.grants() {
            let grant = holder.grant();
            judge.came_back(node, &key, grant.token, mode, grant.lease.end);
        }
    }

    /// Checks the leases of a replica that has received everything.
    fn check_replicated(&mut self, (old, left): (usize, &[(KeyBuf, Mode, Holder)]), new: usize) {
        let there = self.servers[new].host.grants();
        for (key, _, holder) in left {
            let grant = holder.grant();
            let same = there
                .iter()
                .find(|(held, _, other)| held == key && other.grant().token == grant.token);
            let end = |server: usize, end| self.servers[server].true_end(end);
            let until = end(old, grant.lease.end);
            let slack = grant.lease.ttl.0 * 20 + 3_000;
            let kept = same.is_some_and(|(_, _, other)| {
                let other = other.grant();
                other.fence == grant.fence && end(new, other.lease.end) + slack >= until
            });
            if !kept && until > self.now {
                let how = format!("server {new} instead of {old}: {grant:?}, {same:?}");
                self.judge.accuse(judge::REPLICATED, how);
            }
        }
    }

    /// Leases that the new primary lacks have ended, as far as guards can rely on them. A former primary without
    /// a new data set may lack renewals of all others.
    fn note_promotion(&mut self, node: usize, new: usize, is_synced: bool) {
        let time = self.servers[new].time(self.now);
        let grants = self.servers[new].host.grants();
        for task in
            (0..self.tasks.len()).filter(|task| !self.tasks[*task].is_over()).collect::<Vec<_>>()
        {
            let name = token(task, self.tasks[task].attempt);
            let holds = grants.iter().any(|(key, _, holder)| {
                let grant = holder.grant();
                let runs = !grant.lease.end.is_over(time.now);
                *key == self.tasks[task].key && *grant.token == name && runs
            });
            if holds {
                // A lock that an operator had ended may be back.
                self.tasks[task].ended = None;
            }
            if !holds || !is_synced {
                self.note_end(task, node);
            }
        }
    }

    /// A process learns which server speaks for a node.
    pub(super) fn learn(&mut self, process: usize, node: usize) {
        let leader = self.leader(node);
        let before = self.processes[process].finds.insert(node, leader).unwrap_or(node);
        if before == leader {
            return;
        }
        let left = |wire: &Wire| wire.process == process && wire.server == before && wire.is_open;
        let wires = self.wires.iter().filter(|(_, wire)| left(wire));
        for wire in wires.map(|(wire, _)| *wire).collect::<Vec<u64>>() {
            self.hang_up(wire);
            self.client_learns(wire);
        }
    }

    /// The old primary learns that it was replaced.
    pub(super) fn demote(&mut self, node: usize) {
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        let Some(old) = pair.deposed.take() else { return };
        pair.known = Known::of_former_primary();
        let now = self.now;
        self.servers[old].demote(now);
        self.settle(old);
        for process in 0..self.processes.len() {
            let after = self.dice.between(100, 50_000);
            self.later(after, Event::Learn { process, node });
        }
        self.will_attach(node);
    }

    /// Nothing fails any more: all processes find the primaries.
    pub(super) fn calm_pairs(&mut self) {
        let now = self.now;
        for node in self.pairs.keys().copied().collect::<Vec<_>>() {
            if let Some(pair) = self.pairs.get_mut(&node) {
                pair.cut_until = now;
                if std::mem::take(&mut pair.is_failing_over) {
                    self.note_stop(node);
                }
            }
            self.demote(node);
            for process in 0..self.processes.len() {
                self.learn(process, node);
            }
            self.will_attach(node);
        }
    }

    /// Notes the reports of a server that was replaced. No promise holds for its grants.
    pub(super) fn note_astray(&mut self, log: &[Report]) {
        for event in log {
            let holder = match event {
                Report::Granted { key, holder, .. } | Report::Renewed { key, holder, .. } => {
                    Some((key, holder.grant().token))
                }
                _ => None,
            };
            if let Some((key, token)) = holder {
                self.judge.excuse(key, self.now);
                let number = |part: &[u8]| part.try_into().map_or(0, u32::from_be_bytes);
                let task = &mut self.tasks[number(&token[..4]) as usize];
                task.is_astray = true;
            }
        }
    }

    /// Notes an answer of such a server.
    pub(super) fn note_answer(&mut self, server: usize, task: usize, answer: Answer) {
        let told =
            matches!(answer, Answer::Granted(_) | Answer::Extended | Answer::Gone | Answer::Denied);
        if told && self.is_deposed(server) {
            self.tasks[task].is_astray = true;
        }
    }

    /// True if the reports of a server count.
    pub(super) fn speaks(&self, server: usize) -> bool {
        self.leads(server) && self.servers[server].leads
    }

    /// True if another server is about to take over from this one.
    pub(super) fn is_failing_over(&self, server: usize) -> bool {
        let pair = self.pairs.get(&self.node_of(server));
        pair.is_some_and(|pair| pair.is_failing_over && pair.leader == server)
    }
}
