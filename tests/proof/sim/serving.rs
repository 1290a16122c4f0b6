//! The servers' part: requests arrive, servers start, answer, and learn that connections have closed.

use dlock_core::KeyBuf;
use dlock_core::quorum::{Answer, Ask, Rules};
use dlock_core::simulated::Report;

use super::flaw::Flaw;
use super::judge;
use super::requests::told;
use super::server::Request;
use super::world::{Event, GATE, Wire, World};

impl<R: Rules> World<R> {
    pub(super) fn arrive(&mut self, wire: u64, request: &Request) {
        let Some(&Wire { process, server, life, is_closed, place, .. }) = self.wires.get(&wire)
        else {
            return;
        };
        if self.processes[process].blind_to.get(server) == Some(&true) {
            return;
        }
        let (asked_as, place) = (place, server);
        self.look_at_link(place);
        let server = &mut self.servers[place];
        if is_closed || !server.is_up || server.life != life || server.is_deaf {
            return;
        }
        let answer = server.carry_out(request, wire, self.now);
        if self.has_one_gate() && place == GATE && matches!(request.ask, Ask::Acquire { .. }) {
            self.judge.comes(request.task);
        }
        if answer.is_some() {
            self.note_carried(request.task, asked_as, request.id, wire);
        }
        if self.tells {
            let Request { task, ask, .. } = request;
            self.say(format!("node {place}: task {task} {ask:?} -> {answer:?}"));
        }
        if let Some(answer) = answer {
            self.note_answer(place, request.task, answer);
            self.answer(wire, request.task, request.id, answer);
        }
        self.settle(place);
    }

    fn answer(&mut self, on: u64, task: usize, id: u32, answer: Answer) {
        let Some(&Wire { place, .. }) = self.wires.get(&on) else { return };
        if let Some(at) = self.transmit(on, false) {
            self.at(at, Event::Reply { wire: on, task, node: place, id, answer });
        }
    }

    /// After every event at a server: takes its reports, delivers its answers, and schedules the next look.
    pub fn settle(&mut self, place: usize) {
        let now = self.now;
        if self.flaw == Some(Flaw::TellsTooEarly) {
            self.servers[place].forget_absence(now);
        }
        self.servers[place].carry_on();
        self.replicate(place);
        let log = std::mem::take(&mut self.servers[place].log);
        self.hear(place, &log);
        let time = self.servers[place].time(now);
        for event in log {
            let Report::Answered(waiter, answer) = event else { continue };
            let server = &mut self.servers[place];
            let Some(blocked) = server.blocked.remove(&waiter) else {
                server.node.gone(waiter, time.now);
                continue;
            };
            if self.tells {
                self.say(format!("node {place}: task {} waited -> {answer:?}", blocked.task));
            }
            if let Some(&Wire { place, .. }) = self.wires.get(&blocked.wire) {
                self.note_carried(blocked.task, place, blocked.id, blocked.wire);
            }
            self.note_answer(place, blocked.task, told(answer));
            self.answer(blocked.wire, blocked.task, blocked.id, told(answer));
        }
        let server = &self.servers[place];
        let tells = server.file.is_news && self.flaw != Some(Flaw::TellsLate);
        let untold = tells && server.stream.has_replica && server.is_up;
        let at = if server.node.has_pending() || untold {
            Some(now + 50)
        } else if server.node.is_following() {
            None
        } else {
            server.next().map(|at| server.clock.when(at).max(now + 1))
        };
        self.alarms[place] += 1;
        let alarm = self.alarms[place];
        if let Some(at) = at {
            self.at(at, Event::Sweep { server: place, alarm });
        }
    }

    /// The judge reads the reports of a server that speaks for its node.
    fn hear(&mut self, place: usize, log: &[Report]) {
        let node = self.node_of(place);
        let others: Vec<Report> =
            log.iter().filter(|event| !self.is_hers(event)).cloned().collect();
        if !self.speaks(place) {
            if self.servers[place].leads {
                self.note_astray(&others);
            }
            return;
        }
        self.check_near(place, &others);
        self.note_ends(node, &others);
        let server = &self.servers[place];
        let now = (server.time(self.now).now, self.now);
        let tasks = &self.tasks;
        let takes = |token: &[u8]| {
            let task = token.first_chunk().map(|task| u32::from_be_bytes(*task) as usize);
            task.and_then(|task| tasks.get(task)).is_some_and(|task| task.means.again)
        };
        self.judge.hear(node, log, now, takes);
    }

    pub(super) fn look_at_state_file(&mut self, server: usize) {
        if self.servers[server].is_up {
            self.servers[server].look_at_state_file(self.now, &mut self.dice);
            self.check_file(server);
            self.settle(server);
        }
        if !self.is_idle() {
            self.later(500_000, Event::StateFile { server });
        }
    }

    /// A server starts, if it does not run.
    pub fn start(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if server.is_up || server.stays_away {
            return;
        }
        server.start(self.now);
        let grants = server.host.grants();
        let in_quarantine = server.node.durable.in_quarantine().is_some();
        let node = self.node_of(place);
        self.check_wait(place);
        if self.servers[place].life > 1 {
            self.note_restart();
        }
        if self.speaks(place) {
            for (key, mode, holder) in &grants {
                let grant = holder.grant();
                self.judge.came_back(node, key, grant.token, *mode, grant.lease.end);
            }
            for (place, task) in self.tasks.iter_mut().enumerate() {
                let name = super::life::token(place, task.attempt);
                // A lock that an operator had ended may be back, with an older data set. A node in quarantine
                // counts as if it had it.
                let is_back = grants.iter().any(|(_, _, holder)| *holder.grant().token == name);
                if is_back || in_quarantine {
                    task.ended = None;
                }
            }
            if self.is_failing_over(place) {
                self.note_stop(node);
            }
        }
        self.will_attach(node);
        if self.tells {
            let quarantine = self.servers[place].node.durable.in_quarantine();
            self.say(format!("node {place}: starts, {quarantine:?}"));
        }
        self.settle(place);
    }

    pub(super) fn server_closes(&mut self, wire: u64) {
        let Some(there) = self.wires.get_mut(&wire) else { return };
        // Requests in it come first.
        if self.is_library && there.there > self.now {
            let at = there.there + 1;
            return self.at(at, Event::Closed { wire });
        }
        there.is_closed = true;
        let Wire { server, life, .. } = *there;
        if self.servers[server].is_up && self.servers[server].life == life {
            self.servers[server].closed(wire, self.now);
            self.settle(server);
            self.later(1_000_000, Event::CheckClosed { wire });
        }
    }

    pub(super) fn check_closed(&mut self, wire: u64) {
        let Some(&Wire { server, life, .. }) = self.wires.get(&wire) else { return };
        let there = &self.servers[server];
        if !there.is_up || there.life != life {
            return;
        }
        if there.node.has_pending() {
            return self.later(1_000, Event::CheckClosed { wire });
        }
        if there.knows(wire, &self.keys) {
            let how = format!("node {server}: connection {wire} closed a second ago");
            self.judge.accuse(judge::CLOSED_LEAVES_NOTHING, how);
        }
    }

    pub(super) fn check_given_up(&mut self, place: usize, life: u64, key: &KeyBuf, token: &[u8]) {
        let server = &self.servers[place];
        if !server.is_up || server.life != life || server.paused_until > self.now {
            return;
        }
        let holds = server.host.holder(key, token).is_some();
        let queue = server.node.waiting.queue(key.as_key());
        if holds || queue.is_some_and(|queue| queue.get(token).is_some()) {
            let how = format!("node {place}: {token:?} is still there");
            self.judge.accuse(judge::GIVEN_UP_LEAVES_NOTHING, how);
        }
    }
}
