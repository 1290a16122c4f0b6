//! The actions of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dlock_core::limits::{MAX_FENCE, MAX_FENCE_AHEAD};
use dlock_core::quorum::{
    Acquisition, Answer, Ask, Claim, Failure, LastWord, LossReason, Plan, Rules, Send, State,
    Verdict, Wait, node_timeout,
};
use dlock_core::words::Patience;
use dlock_core::{Fence, Millis, Mode};

use super::flaw::Flaw;
use super::judge::{self, Guard};
use super::map::Kind;
use super::server::{Request, Server};
use super::task::{Machine, Means, Task};
use super::truth::{Truth, Under};
use super::world::{Event, GATE, World};

impl<R: Rules> World<R> {
    /// The first events.
    pub(super) fn begin(&mut self) {
        for server in 0..self.servers.len() {
            self.start(server);
            let after = self.dice.between(1, 500_000);
            self.later(after, Event::StateFile { server });
        }
        for process in 0..self.processes.len() {
            let after = self.dice.between(1, 50_000);
            self.later(after, Event::Spawn { process });
        }
        if self.map.is_some() {
            self.calm();
            return self.later(1_000_000, Event::Close);
        }
        self.later(10_000, Event::Fault);
        if self.attack.is_some() {
            self.later(10_000, Event::Attack);
        }
        let calm = self.dice.one_of(&[3_000_000, 10_000_000, 30_000_000]);
        self.later(calm, Event::Calm);
        let takes_long = self.attack.is_some() || self.servers[0].loses_disk;
        let more = if takes_long { AGREES + 5_000_000 } else { 8_000_000 };
        self.later(calm + more, Event::Close);
    }

    // --- clients ---------------------------------------------------------------------------------

    pub(super) fn spawn(&mut self, process: usize) {
        if self.closed {
            return;
        }
        let pause = self.dice.one_of(&[5_000, 100_000, 1_000_000]);
        let pause = if self.map.is_some() { 5_000 } else { pause };
        let after = self.dice.between(1_000, pause);
        self.later(after, Event::Spawn { process });
        let of = |task: &&Task<R>| task.process == process && !task.is_over();
        if self.tasks.iter().filter(of).count() >= 2 {
            return;
        }
        let ttl = Millis(self.dice.one_of(&[200, 1_000, 1_000, 3_000, 10_000]));
        let key = self.dice.below(self.keys.len());
        let key = self.keys[key].clone();
        let mode = if self.dice.chance(200) { Mode::Shared } else { Mode::Exclusive };
        let wait = self.dice.one_of(&[
            Patience::Try,
            Patience::Forever,
            Patience::Forever,
            Patience::Within(Duration::from_millis(300)),
            Patience::Within(Duration::from_secs(5)),
        ]);
        let (mode, wait) =
            if self.map.is_some() { (Mode::Exclusive, Patience::Forever) } else { (mode, wait) };
        // The dice are always thrown in the same order, so that a seed stays the same life.
        let start_at_gate =
            (self.dice.chance(300) || !self.tries_first()) && !self.servers[GATE].is_deaf;
        let suspects = self.suspects(process);
        let seed = self.dice.number();
        let timeout = self.node_timeout(ttl, seed);
        let means = self.means(ttl);
        let plan = Plan {
            nodes: self.nodes,
            ttl,
            timeout,
            wait,
            start_at_gate,
            again: means.again.then_some(Fence(MAX_FENCE)),
            suspects,
            seen: self.processes[process].seen,
            seed,
        };
        let time = self.processes[process].clock.time(self.now);
        let acquisition = Acquisition::by(self.rules.clone(), plan, time);
        let task = self.tasks.len();
        self.tasks.push(Task {
            process,
            key,
            mode,
            wait,
            timeout,
            machine: Machine::Trying(Box::new(acquisition)),
            begun: self.now,
            open: BTreeMap::new(),
            waits: BTreeMap::new(),
            requests: BTreeMap::new(),
            newest: BTreeMap::new(),
            disowned: BTreeSet::new(),
            ended: None,
            heard_since: BTreeSet::new(),
            truth: Truth::default(),
            longer: BTreeSet::new(),
            raised: false,
            attempt: 0,
            means,
            is_astray: false,
            finishes_since: 0,
            alarm: 0,
        });
        if self.tells {
            let Task { key, mode, wait, .. } = &self.tasks[task];
            let name = String::from_utf8_lossy(&key.name);
            self.say(format!(
                "task {task} of process {process} wants {name} {mode}, ttl {ttl:?}, wait {wait:?}"
            ));
        }
        if let Some(patience) = means.patience {
            self.later(patience, Event::GiveUp { task });
        }
        self.pump(task);
    }

    /// The time-out of a node, by chance: some users have set an hour.
    fn node_timeout(&self, ttl: Millis, chance: u64) -> Millis {
        let set = (self.map.is_none() && !self.is_library && chance.is_multiple_of(4))
            .then_some(Duration::from_secs(3600));
        Millis(node_timeout(set, Duration::from_millis(ttl.0)).as_millis() as u64)
    }

    /// True if some clients ask all nodes before they queue.
    fn tries_first(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.kind == Kind::Deaf)
    }

    /// The nodes that it takes for failed.
    fn suspects(&mut self, process: usize) -> Vec<bool> {
        let mut suspects = self.processes[process].suspects.clone();
        if self.map.as_ref().is_some_and(|map| map.kind == Kind::AnyGate) {
            suspects[GATE] = self.dice.chance(500);
        }
        suspects
    }

    fn means(&mut self, ttl: Millis) -> Means {
        if self.map.is_some() {
            let longest = self.dice.one_of(&[1, 1_000, 20_000]);
            let hold = self.dice.between(0, longest);
            let (lengthen, finishes, patience) = (None, None, None);
            return Means { hold, renews: true, lengthen, finishes, again: false, patience };
        }
        let longest = self.dice.one_of(&[1_000, 100_000, 1_000_000, 3 * ttl.0 * 1_000]);
        let patience = self.dice.one_of(&[3_000, 300_000, 3_000_000]);
        let factor = self.dice.one_of(&[0, 0, 0, 0, 0, 0, 0, 0, 4, 1_000]);
        // Longer ones would outlast the run.
        let short = ttl.0 <= 200 && self.pairs.is_empty();
        let factor = if short { factor } else { factor.min(4) };
        let longest = if factor > 4 { 10_000_000 } else { longest };
        let longest = if self.is_library { longest.max(4 * ttl.0 * 1_000) } else { longest };
        let finishes = (self.has_jobs && self.dice.chance(500))
            .then(|| Millis(self.dice.one_of(&[300, 1_000, 4_000, 20_000])));
        Means {
            finishes,
            again: self.has_jobs && self.dice.chance(150),
            hold: self.dice.between(100, longest),
            renews: self.dice.chance(750),
            lengthen: (factor > 0).then_some(Millis(ttl.0 * factor)),
            patience: self.dice.chance(150).then(|| self.dice.between(0, patience)),
        }
    }

    /// Sends a machine's requests, and looks at its state.
    fn pump(&mut self, task: usize) {
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
            self.check_free(task);
        }
    }

    /// A client is told that the lock is held. It is wrong if a majority of the nodes has granted it to that
    /// client.
    fn check_free(&mut self, task: usize) {
        let Task { key, attempt, .. } = &self.tasks[task];
        let token = token(task, *attempt);
        let grants =
            |node: &usize| self.servers[self.leader(*node)].host.holder(key, &token).is_some();
        let granted: Vec<usize> = (0..self.nodes).filter(grants).collect();
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

    fn send(&mut self, task: usize, send: Send) {
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
        self.check_longer(task);
        self.pump(task);
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

    fn check_ended(&mut self, task: usize) {
        let Machine::Holding(hold) = &self.tasks[task].machine else { return };
        let Task { ended, heard_since, .. } = &self.tasks[task];
        let overdue = ended.is_some_and(|by| self.now > by);
        // A node that lost the lease and does not answer looks like one that has it still.
        let told = heard_since.len() == self.nodes && !self.tasks[task].is_astray;
        if overdue && told && matches!(hold.state(), State::Held(_)) {
            self.judge.accuse(judge::ENDED_IS_LOST, format!("task {task} goes on"));
        }
    }

    pub(super) fn time_out(&mut self, task: usize, node: usize, id: u32) {
        let Some(&open) = self.tasks[task].open.get(&(node, id)) else { return };
        let time = self.clock_of(task);
        if self.tasks[task].newest.get(&node) == Some(&id) {
            self.tasks[task].longer.remove(&node);
        }
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
const AGREES: u64 = 30_000_000;
/// Events that happen at the same time may take this long.
const A_MOMENT: u64 = 100;
/// Twice the longest time-out of a node. A tie ends within one, and another may follow.
const SOON: u64 = 1_000_000;
/// The connection that was never made.
pub(super) const NOWHERE: u64 = 0;
