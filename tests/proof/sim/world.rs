//! All clients and servers, and everything between them, in virtual time: events, in the order of their time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use dlock_core::quorum::{Answer, Ask, Roster, Rules};
use dlock_core::simulated::Report;
use dlock_core::{Fence, Instant, KeyBuf, Millis};

use super::attack::Attack;
use super::clock::Clock;
use super::dice::Dice;
use super::flaw::Flaw;
use super::judge::{self, Judge};
use super::life::NOWHERE;
use super::map::{Kind, Map};
use super::replication::Pair;
use super::server::{Request, Server, told};
use super::task::{Machine, Task};

/// The whole state of a life.
pub struct World<R: Rules> {
    /// True time, in microseconds.
    pub now: u64,
    /// Chance.
    pub dice: Dice,
    /// The rules of the machines.
    pub rules: R,
    /// The number of nodes.
    pub nodes: usize,
    /// The servers: one of each node, and then the replicas, if there are any.
    pub servers: Vec<Server>,
    /// The nodes with replicas.
    pub pairs: BTreeMap<usize, Pair>,
    /// A primary refuses writes after this long without its replica.
    pub max_lag: Option<u64>,
    /// The delay of replication.
    pub lag: u64,
    /// The clients' processes.
    pub processes: Vec<Process>,
    /// The node behind each address.
    pub leads: Vec<usize>,
    /// The servers' or clients' flaw.
    pub flaw: Option<Flaw>,
    /// The clients.
    pub tasks: Vec<Task<R>>,
    /// The connections.
    pub wires: BTreeMap<u64, Wire>,
    /// The promises that must hold.
    pub judge: Judge,
    /// Locks.
    pub keys: Vec<KeyBuf>,
    /// The time since which nothing fails any more.
    pub calm_since: Option<u64>,
    /// True if no new clients come.
    pub closed: bool,
    /// The state of the network.
    pub conditions: NetworkConditions,
    /// The places of all, where order is judged and nothing fails.
    pub map: Option<Map>,
    /// With a map: the time of the last release of the lock, and its process.
    pub given_back: Option<(u64, usize)>,
    /// The client that proposes fences far ahead, if there is one.
    pub attack: Option<Attack>,
    /// Clients treat connections as the library does.
    pub is_library: bool,
    /// Clients leave locks done.
    pub has_jobs: bool,
    /// Addresses change all the time.
    pub is_restless: bool,
    /// The first node evicts locks.
    pub evicts: bool,
    /// The number of claims by clients that had waited for a while, and how many of them came more than one
    /// round trip to the nodes after the release.
    pub hand_overs: (u64, u64),
    /// True if the run prints its events.
    pub tells: bool,
    /// The number of claims, and how many of them took a second round.
    pub claims: (u64, u64),
    /// The same, of those that began when nothing had failed for a while.
    pub calm_claims: (u64, u64),
    queue: BinaryHeap<Due>,
    /// Numbers for events and connections.
    pub next: u64,
    pub(super) alarms: Vec<u64>,
}

/// A process with clients.
#[derive(Debug)]
pub struct Process {
    /// Its clocks.
    pub clock: Clock,
    /// The process does nothing until then.
    pub paused_until: u64,
    /// The places of the nodes.
    pub roster: Roster<usize>,
    /// Its connections to the nodes.
    pub wires: Vec<Option<u64>>,
    /// The times until which it cannot reach each node.
    pub cut_until: Vec<u64>,
    /// True for each server that its messages never reach.
    pub blind_to: Vec<bool>,
    /// True for each node that did not answer lately.
    pub suspects: Vec<bool>,
    /// Connections that did not answer, and were replaced. Late answers on them count.
    pub retired: BTreeMap<usize, u64>,
    /// The largest fence that it has seen.
    pub seen: Fence,
    /// The server that the process finds for each node that was taken over.
    pub finds: BTreeMap<usize, usize>,
}

impl Process {
    fn new(nodes: usize, dice: &mut Dice) -> Process {
        Process {
            clock: Clock::new(dice),
            paused_until: 0,
            roster: Roster::new(nodes),
            wires: vec![None; nodes],
            cut_until: vec![0; nodes],
            blind_to: vec![false; nodes],
            suspects: vec![false; nodes],
            retired: BTreeMap::new(),
            seen: Fence(0),
            finds: BTreeMap::new(),
        }
    }
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// The process at the client's end.
    pub process: usize,
    /// The node, by its place in the process's list.
    pub place: usize,
    /// The server at the other end.
    pub server: usize,
    /// The number of servers that had had the place before, at its opening.
    pub tenure: u64,
    /// The life of the server at the other end.
    pub life: u64,
    /// True while the client has it open.
    pub is_open: bool,
    /// True once the server has closed it.
    pub is_closed: bool,
    /// The arrival of the last message there: those behind it come later.
    pub there: u64,
    /// The arrival of the last message back here.
    pub back: u64,
}

/// The conditions of the network: each fault hits this many of a thousand messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkConditions {
    /// A message is slow.
    pub slow: u64,
    /// The longest time that a slow message takes, in microseconds.
    pub slowest: u64,
    /// The connection breaks.
    pub breaks: u64,
}

/// An event and its time. Among events of one time, the first that was scheduled comes first.
#[derive(Debug)]
struct Due(Reverse<(u64, u64)>, Box<Event>);

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.0 == other.0
    }
}

impl Eq for Due {}

/// The events of a life.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request arrives at a server.
    Request { wire: u64, request: Request },
    /// An answer arrives at a client.
    Reply { wire: u64, task: usize, node: usize, id: u32, answer: Answer },
    /// No answer has come in time.
    Timeout { task: usize, node: usize, id: u32 },
    /// A server learns that a connection has closed.
    Closed { wire: u64 },
    /// A server should have learned that a connection has closed.
    CheckClosed { wire: u64 },
    /// A client learns it.
    Broken { wire: u64 },
    /// A machine is to be woken.
    Wake { task: usize, alarm: u64 },
    /// A client gives up.
    GiveUp { task: usize },
    /// A client gives the lock back.
    GiveBack { task: usize },
    /// A client makes its lease longer.
    Lengthen { task: usize },
    /// An attempt has been given up; by now nothing of it is left.
    CheckGivenUp { server: usize, life: u64, key: KeyBuf, token: [u8; 8] },
    /// A node's own work.
    Sweep { server: usize, alarm: u64 },
    /// A server looks at its state file.
    StateFile { server: usize },
    /// A server starts.
    Start { server: usize },
    /// A process has a new client.
    Spawn { process: usize },
    /// The attacker proposes a fence.
    Attack,
    /// Something fails.
    Fault,
    /// Nothing fails any more.
    Calm,
    /// No more clients.
    Close,
    /// Replication begins.
    Attach { node: usize },
    /// A replicated message arrives.
    Deliver { node: usize },
    /// A replica takes over.
    Promote { node: usize, planned: bool },
    /// A deposed primary learns of its replacement.
    Demote { node: usize },
    /// A process learns of a node's new primary.
    Learn { process: usize, node: usize },
}

impl<R: Rules> World<R> {
    /// Makes a world in which nothing has happened yet.
    pub fn new(seed: u64, rules: R, flaw: Option<Flaw>, tells: bool) -> World<R> {
        let mut dice = Dice::new(seed);
        let nodes = dice.one_of(&[1, 3, 3, 3, 5]);
        let mut servers: Vec<Server> = (0..nodes).map(|_| Server::new(&mut dice, flaw)).collect();
        for server in servers.iter_mut().take((nodes - 1) / 2).filter(|_| dice.chance(200)) {
            server.max_ttl = LONG;
        }
        let count = dice.between(2, 4);
        let processes = (0..count).map(|_| Process::new(nodes, &mut dice)).collect();
        let keys = dice.one_of(&[1, 1, 2, 3]);
        let key = |n: u8| KeyBuf { db: 0, name: [b'k', b'0' + n].as_slice().into() };
        World {
            now: 0,
            rules,
            alarms: vec![0; servers.len()],
            leads: (0..nodes).collect(),
            flaw,
            nodes,
            servers,
            pairs: BTreeMap::new(),
            max_lag: None,
            lag: 0,
            processes,
            tasks: Vec::new(),
            wires: BTreeMap::new(),
            judge: Judge::default(),
            keys: (0..keys).map(key).collect(),
            calm_since: None,
            closed: false,
            conditions: NetworkConditions {
                slow: dice.one_of(&[10, 50, 200]),
                slowest: dice.one_of(&[20_000, 200_000, 2_000_000]),
                breaks: dice.one_of(&[0, 5, 20]),
            },
            map: None,
            attack: None,
            is_library: false,
            has_jobs: false,
            is_restless: false,
            evicts: false,
            given_back: None,
            hand_overs: (0, 0),
            tells,
            claims: (0, 0),
            calm_claims: (0, 0),
            queue: BinaryHeap::new(),
            next: 0,
            dice,
        }
    }

    /// Runs all events.
    pub fn run(&mut self) {
        self.begin();
        let mut events = 0;
        while let Some(Due(Reverse((at, _)), event)) = self.queue.pop() {
            self.now = self.now.max(at);
            self.happen(*event);
            events += 1;
            if self.judge.broken.is_some() && !self.judge.goes_on {
                return;
            }
            if events > MOST_EVENTS || self.now > LONGEST {
                // A waiter goes on waiting where no majority can agree on a fence.
                if !self.nodes_agree() {
                    return;
                }
                let waiting: Vec<_> = self.unserved().collect();
                self.judge.accuse(judge::SERVED, format!("it does not end: tasks {waiting:?}"));
                return;
            }
        }
        self.end();
    }

    fn end(&mut self) {
        let waiting = self.unserved().next();
        if let Some(task) = waiting {
            self.judge.accuse(judge::SERVED, format!("task {task} waits for ever"));
        }
        for (place, server) in self.servers.iter().enumerate().filter(|(_, s)| s.is_up) {
            let pending = server.node.has_pending() || server.node.waiting.requests() > 0;
            if pending || server.host.values.len() > server.records().len() {
                let how = format!("node {place}: {:?}", server.host.values);
                self.judge.accuse(judge::EMPTY, how);
            }
        }
    }

    fn unserved(&self) -> impl Iterator<Item = usize> {
        let trying = |task: &Task<R>| matches!(task.machine, Machine::Trying(_));
        let tasks = self.tasks.iter().enumerate();
        tasks.filter(move |(_, task)| trying(task)).map(|(place, _)| place)
    }

    /// Schedules an event.
    pub fn at(&mut self, at: u64, event: Event) {
        self.next += 1;
        self.queue.push(Due(Reverse((at.max(self.now), self.next)), Box::new(event)));
    }

    /// Schedules an event this much later.
    pub fn later(&mut self, by: u64, event: Event) {
        self.at(self.now + by, event);
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = self.is_paused(&event) {
            return self.at(until, event);
        }
        match event {
            Event::Request { wire, request } => self.arrive(wire, &request),
            Event::Reply { wire, task, node, id, answer } => {
                if wire == NOWHERE || self.wires.get(&wire).is_some_and(|wire| wire.is_open) {
                    self.reply(task, node, id, answer);
                }
            }
            Event::Timeout { task, node, id } => self.time_out(task, node, id),
            Event::Closed { wire } => self.server_closes(wire),
            Event::CheckClosed { wire } => self.check_closed(wire),
            Event::Broken { wire } => self.client_learns(wire),
            Event::Wake { task, alarm } => self.wake(task, alarm),
            Event::GiveUp { task } => self.give_up(task),
            Event::GiveBack { task } => self.give_back(task),
            Event::Lengthen { task } => self.lengthen(task),
            Event::CheckGivenUp { server, life, key, token } => {
                self.check_given_up(server, life, &key, &token);
            }
            Event::Sweep { server, alarm } => {
                if self.alarms[server] == alarm && self.servers[server].is_up {
                    self.look_at_link(server);
                    self.servers[server].sweep(self.now);
                    self.settle(server);
                }
            }
            Event::StateFile { server } => self.look_at_state_file(server),
            Event::Start { server } => self.start(server),
            Event::Spawn { process } => self.spawn(process),
            Event::Attack => self.attack(),
            Event::Fault => self.fault(),
            Event::Calm => self.calm(),
            Event::Close => self.close(),
            Event::Attach { node } => self.attach(node),
            Event::Deliver { node } => self.deliver(node),
            Event::Promote { node, planned } => self.promote(node, planned),
            Event::Demote { node } => self.demote(node),
            Event::Learn { process, node } => self.learn(process, node),
        }
    }

    fn is_paused(&self, event: &Event) -> Option<u64> {
        let until = match event {
            Event::Request { wire, .. } | Event::Closed { wire } | Event::CheckClosed { wire } => {
                self.servers[self.wires.get(wire)?.server].paused_until
            }
            Event::Sweep { server, .. } | Event::StateFile { server } => {
                self.servers[*server].paused_until
            }
            Event::Broken { wire } => self.processes[self.wires.get(wire)?.process].paused_until,
            Event::Reply { task, .. }
            | Event::Timeout { task, .. }
            | Event::Wake { task, .. }
            | Event::GiveUp { task }
            | Event::GiveBack { task }
            | Event::Lengthen { task } => self.processes[self.tasks[*task].process].paused_until,
            _ => return None,
        };
        (until > self.now).then_some(until)
    }

    // --- servers ---------------------------------------------------------------------------------

    fn arrive(&mut self, wire: u64, request: &Request) {
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
            server.delivered(waiter);
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

    fn look_at_state_file(&mut self, server: usize) {
        if self.servers[server].is_up {
            self.servers[server].look_at_state_file(self.now, &mut self.dice);
            self.check_file(server);
            self.settle(server);
        }
        let busy = self.calm_since.is_none() || !self.queue.is_empty();
        let alone = self.queue.iter().all(|due| matches!(*due.1, Event::StateFile { .. }));
        if busy && !alone {
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
                // A lock that an operator had ended may be back, with an older data set.
                if grants.iter().any(|(_, _, holder)| *holder.grant().token == name) {
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

    fn server_closes(&mut self, wire: u64) {
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

    fn check_closed(&mut self, wire: u64) {
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

    fn check_given_up(&mut self, place: usize, life: u64, key: &KeyBuf, token: &[u8]) {
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

    /// The time by a client's clock.
    pub fn clock_of(&self, task: usize) -> dlock_core::Time {
        self.processes[self.tasks[task].process].clock.time(self.now)
    }

    /// The moment when a client's clock shows that time.
    pub fn when(&self, task: usize, at: Instant) -> u64 {
        self.processes[self.tasks[task].process].clock.when(at)
    }

    /// True if nothing fails, and all queue at the same node.
    pub fn has_one_gate(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.kind == Kind::OneGate)
    }

    /// Tells what happens.
    pub fn say(&self, what: String) {
        if self.tells {
            println!("{:>12.3} ms  {what}", self.now as f64 / 1000.0);
        }
    }
}

/// The clients' gate, while nothing fails.
pub const GATE: usize = 0;
/// A run that has not ended by then will not.
const MOST_EVENTS: u64 = 400_000;
/// The largest error of clocks that are kept right.
const LONGEST: u64 = 3_600 * 1_000_000;
/// A node that grants no long leases grants this long.
const LONG: Millis = Millis(12_000);
