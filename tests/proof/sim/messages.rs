//! Requests and answers: the connections that they take, and what becomes of them.

use dlock_core::quorum::{Answer, Ask, LastWord, Obstacle, Rules, Send, State, Wait};
use dlock_core::{Fence, Millis};

use super::flaw::Flaw;
use super::judge;
use super::life::{NOWHERE, token};
use super::server::Request;
use super::task::{Machine, Task};
use super::truth::Under;
use super::world::{Event, World};

impl<R: Rules> World<R> {
    pub(super) fn send(&mut self, task: usize, send: Send) {
        let Send { node, attempt, id, ask, ttl, again: over } = send;
        let Task { process, timeout, .. } = self.tasks[task];
        self.tasks[task].raised |= matches!(ask, Ask::Extend { .. })
            && matches!(self.tasks[task].machine, Machine::Trying(_));
        let request = self.request(task, id, attempt, (ask, over), ttl);
        if ask == Ask::Release {
            return self.release(task, attempt, node, request);
        }
        let of = (attempt, node);
        let kept = self.waiting(task, of).filter(|_| ask.blocks());
        let wire = match ask.blocks() {
            true => kept.or_else(|| self.connect(process, node)),
            false => self.ordinary(process, node),
        };
        let again = !ask.blocks() || kept.is_some();
        if let Ask::Extend { fence } = ask {
            self.tasks[task].truth.raises(attempt, node, fence);
        }
        // A ping does not concern the lock.
        if ask != Ask::Ping {
            self.tasks[task].newest.insert(node, id);
        }
        let (wire_, sent) = (wire.unwrap_or(NOWHERE), self.clock_of(task).now);
        let under = Under { wire: wire_, attempt, ask, over, ttl, sent, again };
        self.tasks[task].open.insert((node, id), under);
        let limit = match ask {
            Ask::Acquire { wait: Some(Wait { blocks: Some(slice), .. }), .. } => {
                slice.0 + timeout.0
            }
            _ => timeout.0,
        };
        let at = self.clock_of(task).now.0 + limit * 1000;
        let at = self.when(task, dlock_core::Instant(at));
        self.at(at, Event::Timeout { task, node, id });
        let Some(wire) = wire else {
            let after = self.dice.between(100, 5_000);
            let answer = Answer::Unreachable;
            return self.later(after, Event::Reply { wire: NOWHERE, task, node, id, answer });
        };
        if self.may_send(task, of, ask) {
            self.goes_over(task, of, ask, wire);
            self.deliver_over(wire, request);
        }
    }

    /// Counts a request to a node. False: the token's last request there was sent.
    pub(super) fn may_send(&mut self, task: usize, of: (u32, usize), ask: Ask) -> bool {
        let requests = self.tasks[task].requests.entry(of).or_default();
        requests.send(ask)
    }

    pub(super) fn request(
        &self,
        task: usize,
        id: u32,
        attempt: u32,
        (ask, over): (Ask, Option<Fence>),
        ttl: Millis,
    ) -> Request {
        let Task { key, mode, .. } = &self.tasks[task];
        let (key, mode, token) = (key.clone(), *mode, token(task, attempt));
        Request { task, id, ask, token, key, mode, ttl, over, is_final: false }
    }

    pub(super) fn deliver_over(&mut self, wire: u64, request: Request) {
        if let Some(at) = self.transmit(wire, true) {
            self.at(at, Event::Request { wire, request });
        }
    }

    /// RELEASE, if one is due. Requests that wait are forgotten, and their connections close.
    fn release(&mut self, task: usize, attempt: u32, node: usize, request: Request) {
        let requests = self.tasks[task].requests.entry((attempt, node)).or_default();
        let last_word = requests.end();
        if let Some(last_word) = last_word
            && let Some(wire) = self.ordinary(self.tasks[task].process, node)
        {
            let forgets = self.flaw == Some(Flaw::ForgetsFinal);
            let is_final = last_word == LastWord::Final && !forgets;
            self.deliver_over(wire, Request { is_final, ..request });
        }
        let waits = self.tasks[task].waits.remove(&(attempt, node));
        waits.into_iter().flatten().for_each(|wire| self.hang_up(wire));
    }

    /// The connection that has waited there before, if nothing is on its way over it.
    fn waiting(&mut self, task: usize, of: (u32, usize)) -> Option<u64> {
        let wire = *self.tasks[task].waits.get(&of)?.last()?;
        let busy = self.tasks[task].open.values().any(|under| under.wire == wire);
        Some(wire).filter(|wire| !busy && self.leads_there(*wire))
    }

    /// True if a connection is open, and its server still runs and has its place.
    fn leads_there(&self, wire: u64) -> bool {
        let there = self.wires.get(&wire).filter(|wire| wire.is_open && self.is_current(wire));
        there.is_some_and(|wire| {
            let server = &self.servers[wire.server];
            server.is_up && server.life == wire.life
        })
    }

    pub(super) fn ordinary(&mut self, process: usize, node: usize) -> Option<u64> {
        let wire = self.processes[process].wires[node];
        let wire = wire.filter(|wire| self.leads_there(*wire));
        wire.or_else(|| {
            let wire = self.connect(process, node);
            self.processes[process].wires[node] = wire;
            wire
        })
    }

    pub(super) fn reply(&mut self, task: usize, node: usize, id: u32, answer: Answer) {
        let Some(under) = self.tasks[task].open.remove(&(node, id)) else { return };
        let Under { wire, attempt, .. } = under;
        let is_outdated = self.wires.get(&wire).is_some_and(|wire| !self.is_current(wire));
        let answer = if is_outdated { Answer::Unreachable } else { answer };
        let leads = self.wires.get(&wire).is_some_and(|wire| self.leads(wire.server));
        let time = self.clock_of(task);
        if self.tells && !self.tasks[task].is_over() {
            self.say(format!(
                "task {task} hears from node {node} in attempt {attempt}: {answer:?}"
            ));
        }
        if !is_outdated && answer != Answer::Unreachable {
            let asked = match self.flaw {
                Some(Flaw::LeavesNoPlace) => Ask::Acquire { fence: None, wait: None },
                _ => under.ask,
            };
            let requests = self.tasks[task].requests.entry((attempt, node)).or_default();
            requests.answered(asked, answer);
        }
        self.hear_disowned(task, node, id, answer);
        self.note_heard(task, node, id, under, answer);
        // Some clients close a connection that waits as soon as it has waited.
        let waits = self.tasks[task].waits.get(&(attempt, node));
        let waited = waits.is_some_and(|wires| wires.contains(&wire));
        if waited && task.is_multiple_of(3) {
            self.hang_up(wire);
        }
        match &mut self.tasks[task].machine {
            Machine::Trying(acquisition) => {
                acquisition.sent(node, id, under.sent);
                acquisition.answer(node, id, answer, time);
            }
            Machine::Holding(hold) => {
                hold.sent(node, id, under.sent);
                hold.answer(node, id, answer, time.now);
            }
            Machine::Over => return,
        }
        self.check_disowned(task);
        self.check_ended(task);
        // An answer to an earlier request does not count for its client, and a former primary's is of its own
        // quarantine.
        let counts = self.tasks[task].newest.get(&node) == Some(&id) && leads;
        if counts && matches!(answer, Answer::Refused(Obstacle::Quarantine(_))) {
            self.check_quarantined(task);
        }
        self.pump(task);
    }

    fn check_quarantined(&mut self, task: usize) {
        let Machine::Holding(hold) = &self.tasks[task].machine else { return };
        let State::Held(claim) = hold.state() else { return };
        let server = &self.servers[self.leader(0)];
        let name = token(task, self.tasks[task].attempt);
        let lacks = server.host.holder(&self.tasks[task].key, &name).is_none();
        let Some(quarantine) = server.node.durable.in_quarantine() else { return };
        let ends = self.now + quarantine.left(server.time(self.now).now).0 * 1_000;
        let until = self.when(task, claim.until);
        if self.nodes == 1 && lacks && until > ends {
            let how = format!("task {task} is valid until {until}, and {quarantine:?} to {ends}");
            self.judge.accuse(judge::QUARANTINED, how);
        }
    }

    fn hear_disowned(&mut self, task: usize, node: usize, id: u32, answer: Answer) {
        let task = &mut self.tasks[task];
        if task.newest.get(&node) != Some(&id) {
            return;
        }
        match answer {
            Answer::Gone => task.disowned.insert(node),
            Answer::Granted(_) | Answer::Extended => task.disowned.remove(&node),
            _ => false,
        };
    }

    fn check_disowned(&mut self, task: usize) {
        let Machine::Holding(hold) = &self.tasks[task].machine else { return };
        let nodes = self.nodes;
        let disowned = self.tasks[task].disowned.len();
        if matches!(hold.state(), State::Held(_)) && disowned > nodes - (nodes / 2 + 1) {
            let how = format!("task {task}, disowned by {:?}", self.tasks[task].disowned);
            self.judge.accuse(judge::BELIEVES_NODES, how);
        }
    }

    pub(super) fn check_ended(&mut self, task: usize) {
        let Machine::Holding(hold) = &self.tasks[task].machine else { return };
        let Task { ended, heard_since, truth, .. } = &self.tasks[task];
        let now = self.clock_of(task).now;
        let keeps = hold.fence().is_some_and(|fence| truth.keeps(fence, now, self.needed()));
        let overdue = ended.is_some_and(|by| self.now > by);
        // A node that lost the lease and does not answer looks like one that has it still.
        let told = heard_since.len() == self.nodes && !self.tasks[task].is_astray;
        if overdue && told && !keeps && matches!(hold.state(), State::Held(_)) {
            self.judge.accuse(judge::ENDED_IS_LOST, format!("task {task} goes on"));
        }
    }

    pub(super) fn time_out(&mut self, task: usize, node: usize, id: u32) {
        let Some(&open) = self.tasks[task].open.get(&(node, id)) else { return };
        let time = self.clock_of(task);
        match &mut self.tasks[task].machine {
            Machine::Trying(acquisition) => acquisition.answer(node, id, Answer::Silent, time),
            Machine::Holding(hold) => hold.answer(node, id, Answer::Silent, time.now),
            Machine::Over => return,
        }
        self.say(format!("task {task}: node {node} is silent"));
        if self.is_library {
            self.stop_listening(task, node, id);
            return self.pump(task);
        }
        // A client may have had enough of a connection that does not answer.
        let process = self.tasks[task].process;
        if self.processes[process].wires[node] == Some(open.wire) && self.dice.chance(600) {
            self.processes[process].wires[node] = None;
            let old = self.processes[process].retired.insert(node, open.wire);
            old.into_iter().for_each(|old| self.hang_up(old));
        }
        self.pump(task);
    }
}
