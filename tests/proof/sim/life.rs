//! The course of a client: it wins or loses, holds, and gives the lock back.

use dlock_core::limits::MAX_FENCE_AHEAD;
use dlock_core::quorum::{Acquisition, Claim, Failure, LossReason, Rules, State, Verdict};
use dlock_core::words::Patience;
use dlock_core::{Fence, Millis, Mode};

use super::judge::{self, Guard};
use super::map::Kind;
use super::server::Server;
use super::task::{Machine, Task};
use super::world::{Event, World};

impl<R: Rules> World<R> {
    /// Sends a machine's requests, and looks at its state.
    pub(super) fn pump(&mut self, task: usize) {
        loop {
            let send = match &mut self.tasks[task].machine {
                Machine::Trying(acquisition) => acquisition.poll(),
                Machine::Holding(hold) => hold.poll(),
                Machine::Over => None,
            };
            if let Some(send) = send {
                self.send(task, send);
                continue;
            }
            if !self.look(task) {
                break;
            }
        }
        let Some(wake) = self.tasks[task].wake() else { return };
        self.tasks[task].alarm += 1;
        let alarm = self.tasks[task].alarm;
        let at = self.when(task, wake);
        self.at(at, Event::Wake { task, alarm });
    }

    /// True if the machine's state has changed, so that it has requests to send.
    fn look(&mut self, task: usize) -> bool {
        match &self.tasks[task].machine {
            Machine::Over => false,
            Machine::Trying(acquisition) => {
                let (attempt, verdict) = (acquisition.attempt(), acquisition.verdict());
                let before = std::mem::replace(&mut self.tasks[task].attempt, attempt);
                if before != attempt && before > 0 {
                    self.forget(task, before);
                }
                match verdict {
                    Verdict::Pending => false,
                    Verdict::Won(claim) => {
                        self.won(task, claim);
                        true
                    }
                    Verdict::Lost(failure) => {
                        self.lost(task, failure);
                        false
                    }
                }
            }
            Machine::Holding(hold) => {
                let key = self.tasks[task].key.clone();
                match hold.state() {
                    State::Held(claim) => {
                        let over = self.when(task, claim.until);
                        self.judge.holds(&key, task, Some(claim.until), over);
                        false
                    }
                    State::Lost(loss) => {
                        let fence = hold.fence();
                        if matches!(loss, LossReason::NotRenewed | LossReason::Ended) {
                            self.check_loss(task, fence);
                        }
                        self.judge.holds(&key, task, None, self.now);
                        if let (LossReason::Done, Some(fence)) = (loss, fence) {
                            self.left_done(task, fence);
                        }
                        self.ended(task, loss)
                    }
                }
            }
        }
    }

    fn won(&mut self, task: usize, claim: Claim) {
        let time = self.clock_of(task);
        let Task { key, mode, begun, raised, means, .. } = &self.tasks[task];
        let (key, begun, raised, means) = (key.clone(), *begun, *raised, *means);
        let Claim { fence, until } = claim;
        let over = self.when(task, until);
        let guard = Guard { task, mode: *mode, fence, until, over, begun };
        let (tasks, processes, now) = (&self.tasks, &self.processes, self.now);
        let clock = |task: usize| processes[tasks[task].process].clock.time(now).now;
        if !self.tasks[task].is_astray {
            self.judge.won(&key, guard, now, clock);
            self.overtake(&key, fence, guard.mode == Mode::Shared);
        }
        self.note_won(task, fence);
        if self.has_one_gate() {
            self.judge.is_served(task);
        }
        self.note_hand_over(task);
        self.claims = (self.claims.0 + 1, self.claims.1 + u64::from(raised));
        if self.calm_since.is_some_and(|calm| begun > calm + 3_000_000) {
            self.calm_claims.0 += 1;
            self.calm_claims.1 += u64::from(raised);
        }
        self.say(format!("task {task} WON {fence:?}"));
        let machine = std::mem::replace(&mut self.tasks[task].machine, Machine::Over);
        let Machine::Trying(acquisition) = machine else { return };
        self.remember(task, &acquisition);
        let mut hold = acquisition.into_hold(time);
        if !means.renews {
            hold.stop_renewing();
        }
        self.tasks[task].machine = Machine::Holding(Box::new(hold));
        self.later(means.hold, Event::GiveBack { task });
        if means.lengthen.is_some() {
            let after = self.dice.between(0, means.hold);
            self.later(after, Event::Lengthen { task });
        }
        // Give up before slow nodes have answered.
        let often = if self.is_library { 300 } else { 60 };
        if self.calm_since.is_none() && self.dice.chance(often) {
            let node = self.dice.below(self.nodes);
            self.break_lock(key, Some(node));
        }
    }

    fn lost(&mut self, task: usize, failure: Failure) {
        self.say(format!("task {task} lost: {failure:?}"));
        let machine = std::mem::replace(&mut self.tasks[task].machine, Machine::Over);
        let Machine::Trying(acquisition) = machine else { return };
        self.remember(task, &acquisition);
        let attempt = self.tasks[task].attempt;
        self.forget(task, attempt);
        if let Failure::Done(record) = failure {
            let key = self.tasks[task].key.clone();
            return self.judge.told_done(&key, record.fence, self.now, self.nodes / 2 + 1);
        }
        let patient = self.tasks[task].wait == Patience::Forever && failure != Failure::Held;
        if patient && failure == Failure::NoQuorum {
            self.judge.accuse(judge::SERVED, format!("task {task} waits through no outage"));
        }
        let calm = self.calm_since.is_some_and(|calm| self.now > calm + 5_000_000);
        if patient && calm && self.nodes_agree() {
            let how = format!("task {task} is told {failure:?}");
            self.judge.accuse(judge::SERVED, how);
        }
        let Task { wait, means, begun, raised, .. } = self.tasks[task];
        // One that was raised may have been too far ahead for a node.
        let does_not_wait = !wait.waits() && means.patience.is_none() && !raised;
        let calm = self.calm_since.is_some_and(|calm| begun > calm + 1_000_000);
        if does_not_wait && failure == Failure::Held && calm && self.nodes_agree() {
            self.check_free(task, acquisition.suspects());
        }
    }

    /// A client is told that the lock is held. It is wrong if a majority of the nodes has granted it to that
    /// client. It does not wait for a node that has been silent, or in quarantine a moment ago.
    fn check_free(&mut self, task: usize, suspects: &[bool]) {
        let Task { key, attempt, .. } = &self.tasks[task];
        let token = token(task, *attempt);
        let grants =
            |node: &usize| self.servers[self.leader(*node)].host.holder(key, &token).is_some();
        let awaited = |node: &usize| suspects.get(*node) != Some(&true);
        let granted: Vec<usize> = (0..self.nodes).filter(awaited).filter(grants).collect();
        if granted.len() > self.nodes / 2 {
            let how = format!("task {task} was granted it by {granted:?}");
            self.judge.accuse(judge::FREE, how);
        }
    }

    /// True if a majority of the nodes can agree on a fence. A node refuses a fence too far ahead of its
    /// clock. A node that is far ahead of the others counts as one that is away.
    ///
    /// Where all clocks are right nodes must agree, whatever an attacker proposes. After a crash they agree
    /// once the clocks have passed what one node accepts and another does not.
    pub(super) fn nodes_agree(&self) -> bool {
        if self.attack.is_some() {
            return self.calm_since.is_some_and(|calm| self.now > calm + AGREES);
        }
        let leaders = || (0..self.nodes).map(|node| &self.servers[self.leader(node)]);
        let up = || leaders().filter(|server| server.is_up);
        let unix = |server: &Server| server.time(self.now).unix;
        let mut far: Vec<u64> =
            up().map(|s| s.node.durable.counter.last().0.max(unix(s))).collect();
        far.sort_unstable();
        let reach = up().map(unix).min().unwrap_or(0) + MAX_FENCE_AHEAD - 10_000_000;
        let majority = self.nodes / 2 + 1;
        far.get(majority - 1).is_some_and(|last| *last < reach)
    }

    /// A hold is over: it is given back. True if there are requests to send.
    fn ended(&mut self, task: usize, loss: LossReason) -> bool {
        self.check_finished(task, loss);
        let Machine::Holding(hold) = &mut self.tasks[task].machine else { return false };
        if loss != LossReason::Released {
            hold.release();
        }
        while let Some(send) = match &mut self.tasks[task].machine {
            Machine::Holding(hold) => hold.poll(),
            _ => None,
        } {
            self.send(task, send);
        }
        self.say(format!("task {task} holds no more: {loss:?}"));
        self.tasks[task].machine = Machine::Over;
        let attempt = self.tasks[task].attempt;
        self.forget(task, attempt);
        false
    }

    fn remember(&mut self, task: usize, acquisition: &Acquisition<R>) {
        let process = &mut self.processes[self.tasks[task].process];
        process.suspects = acquisition.suspects().to_vec();
        process.seen = process.seen.max(acquisition.seen());
    }

    /// An attempt is over: its waiting connections close. While nothing fails, all of it is soon gone.
    fn forget(&mut self, task: usize, attempt: u32) {
        let waits = std::mem::take(&mut self.tasks[task].waits);
        for (of, wires) in waits {
            if of.0 == attempt {
                wires.into_iter().for_each(|wire| self.hang_up(wire));
            } else {
                self.tasks[task].waits.insert(of, wires);
            }
        }
        let begun = self.tasks[task].begun;
        if self.calm_since.is_some_and(|calm| begun > calm + 3_000_000) {
            for node in 0..self.nodes {
                let server = self.leader(node);
                let (life, key) = (self.servers[server].life, self.tasks[task].key.clone());
                let token = token(task, attempt);
                self.later(200_000, Event::CheckGivenUp { server, life, key, token });
            }
        }
    }

    pub(super) fn wake(&mut self, task: usize, alarm: u64) {
        if self.tasks[task].alarm != alarm {
            return;
        }
        let time = self.clock_of(task);
        match &mut self.tasks[task].machine {
            Machine::Trying(acquisition) => acquisition.tick(time),
            Machine::Holding(hold) => hold.tick(time.now),
            Machine::Over => return,
        }
        self.check_ended(task);
        self.pump(task);
    }

    pub(super) fn give_up(&mut self, task: usize) {
        if let Machine::Trying(acquisition) = &mut self.tasks[task].machine {
            acquisition.abandon();
            self.say(format!("task {task} gives up"));
            self.pump(task);
        }
    }

    fn note_hand_over(&mut self, task: usize) {
        let (Some(map), Some((at, from))) = (&self.map, self.given_back.take()) else { return };
        let Task { process, begun, .. } = self.tasks[task];
        let nodes = 0..self.servers.len();
        let there_and_back = nodes.clone().map(|node| 2 * map.between(process, node)).max();
        if begun + 2 * there_and_back.unwrap_or(0) > at {
            return;
        }
        let took = self.now - at;
        if map.kind == Kind::Deaf && took > SOON {
            self.judge.accuse(judge::SOON, format!("task {task} {took} µs after"));
            return;
        }
        let way = |node| map.between(from, node) + map.between(process, node);
        let mut ways: Vec<u64> = nodes.map(way).collect();
        ways.sort_unstable();
        let late = self.now - at > ways[ways.len() / 2] + A_MOMENT;
        self.hand_overs = (self.hand_overs.0 + 1, self.hand_overs.1 + u64::from(late));
    }

    /// In calm a client succeeds in leaving a lock done.
    fn check_finished(&mut self, task: usize, loss: LossReason) {
        let Task { begun, mode, means, finishes_since, is_astray, .. } = self.tasks[task];
        let calm = self.calm_since.is_some_and(|calm| begun > calm + 3_000_000);
        let long = mode == Mode::Exclusive && means.renews && means.finishes >= Some(Millis(1_000));
        if finishes_since > 0 && calm && long && !is_astray && loss != LossReason::Done {
            self.judge
                .accuse(judge::HOLDS_ON, format!("task {task} cannot leave it done: {loss:?}"));
        }
    }

    /// A majority of the nodes has the completion record: no other client has the lock before it expires.
    fn left_done(&mut self, task: usize, fence: Fence) {
        let Task { ref key, means, finishes_since, is_astray, .. } = self.tasks[task];
        let Some(length) = means.finishes.filter(|_| !is_astray) else { return };
        // A clock may be this much fast.
        let until = finishes_since + length.0 * 994;
        self.judge.left_done(key, fence, (finishes_since, until), self.now);
    }

    pub(super) fn give_back(&mut self, task: usize) {
        let Task { process, means, .. } = self.tasks[task];
        let now = self.clock_of(task).now;
        if let (Machine::Holding(hold), Some(length)) =
            (&mut self.tasks[task].machine, means.finishes)
        {
            hold.finish(length, now);
            self.tasks[task].finishes_since = self.now;
            self.say(format!("task {task} leaves the lock done for {length:?}"));
            // The work is over, and no longer needs the lock.
            let key = self.tasks[task].key.clone();
            self.judge.holds(&key, task, None, self.now);
            return self.pump(task);
        }
        if let Machine::Holding(hold) = &mut self.tasks[task].machine {
            self.given_back = Some((self.now, process));
            hold.release();
            self.pump(task);
        }
    }

    pub(super) fn lengthen(&mut self, task: usize) {
        let now = self.clock_of(task).now;
        let Some(ttl) = self.tasks[task].means.lengthen else { return };
        if let Machine::Holding(hold) = &mut self.tasks[task].machine {
            hold.extend(ttl, now);
            self.say(format!("task {task} makes its lease {ttl:?} long"));
            self.pump(task);
        }
    }
}

pub(super) fn token(task: usize, attempt: u32) -> [u8; 8] {
    let mut token = [0; 8];
    token[..4].copy_from_slice(&(task as u32).to_be_bytes());
    token[4..].copy_from_slice(&attempt.to_be_bytes());
    token
}

/// After a crash a node may refuse for this long what another one has promised.
pub(super) const AGREES: u64 = 30_000_000;
/// Events that happen at the same time may take this long.
const A_MOMENT: u64 = 100;
/// Twice the longest time-out of a node. A tie ends within one, and another may follow.
const SOON: u64 = 1_000_000;
/// The connection that was never made.
pub(super) const NOWHERE: u64 = 0;
