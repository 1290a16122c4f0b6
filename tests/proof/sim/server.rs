//! A server: a node with its clock, its state file and its connections, and its ways to crash.

use std::collections::BTreeMap;

use dlock_core::command::extend::Extend;
use dlock_core::command::release::Release;
use dlock_core::quorum::Ask;
use dlock_core::simulated::{MemoryHost, Report, Value};
use dlock_core::{
    ClientId, Deadline, Ended, Fence, Grant, KeyBuf, Millis, Mode, Node, Policy, Promise, Record,
    Settings, Start, Time, WaiterId,
};

use super::attack::ANYBODY;
use super::clock::Clock;
use super::dice::Dice;
use super::flaw::Flaw;
use super::knowledge::{Knowledge, UNKNOWN};
use super::state_file::StateFile;
use super::stream::{Sent, Stream};

/// A server.
#[derive(Debug)]
pub struct Server {
    /// The product's node.
    pub node: Node,
    /// Its keyspace and outputs.
    pub host: MemoryHost,
    /// Effects and answers since the last event.
    pub log: Vec<Report>,
    /// Its state file.
    pub file: StateFile,
    /// The stream to its replica.
    pub stream: Stream,
    /// Its clock.
    pub clock: Clock,
    /// True while the server runs.
    pub is_up: bool,
    /// The number of its starts.
    pub life: u64,
    /// The server does nothing until then.
    pub paused_until: u64,
    /// True while messages to the server are lost.
    pub is_deaf: bool,
    /// The server refuses longer leases.
    pub max_ttl: Millis,
    /// A crash may take its disk along.
    pub loses_disk: bool,
    /// True if the server does not start again.
    pub stays_away: bool,
    /// True if it considers itself a primary.
    pub leads: bool,
    /// Blocked requests, and the destinations of their answers.
    pub blocked: BTreeMap<WaiterId, Blocked>,
    ended: Option<Ended>,
    /// The locks at its last save, if it has saved its data set.
    saved: Option<BTreeMap<KeyBuf, Value>>,
    /// Its knowledge of leases that it may not have.
    pub knowledge: Knowledge,
    /// The attacker fills its table of keys that are ahead, at once.
    pub(super) fills: bool,
    /// The wall clock's time when the server last looked at its state file.
    saw: u64,
    /// A flaw: the quarantine that it has had once.
    pub(super) had: Millis,
    pub(super) flaw: Option<Flaw>,
}

/// A blocked request.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    /// The connection.
    pub wire: u64,
    /// The task that sent the request.
    pub task: usize,
    /// The request's number.
    pub id: u32,
}

/// A request as it arrives.
#[derive(Clone, Debug)]
pub struct Request {
    /// The task that sent it.
    pub task: usize,
    /// The request's number.
    pub id: u32,
    /// The command.
    pub ask: Ask,
    /// The attempt's token.
    pub token: [u8; 8],
    /// The lock.
    pub key: KeyBuf,
    /// The mode of the hold.
    pub mode: Mode,
    /// The lease.
    pub ttl: Millis,
    /// The record over which it may be granted.
    pub over: Option<Fence>,
    /// Of a RELEASE: FINAL.
    pub is_final: bool,
}

impl Server {
    /// A server that has never run.
    pub fn new(dice: &mut Dice, flaw: Option<Flaw>) -> Server {
        let mut host = MemoryHost::default();
        host.owner = ANYBODY;
        // Drawn and not used: the seeds in the mutants' test were found with this draw.
        dice.chance(150);
        Server {
            node: Node::default(),
            host,
            log: Vec::new(),
            file: StateFile {
                forgets_bound: flaw == Some(Flaw::ForgetsBound),
                ..StateFile::default()
            },
            stream: Stream::default(),
            clock: Clock::new(dice),
            is_up: false,
            life: 0,
            paused_until: 0,
            is_deaf: false,
            max_ttl: Millis(u64::MAX),
            loses_disk: false,
            stays_away: false,
            leads: true,
            blocked: BTreeMap::new(),
            ended: None,
            saved: None,
            knowledge: Knowledge::default(),
            fills: false,
            saw: 0,
            had: Millis(0),
            flaw,
        }
    }

    /// The time by the server's clock.
    pub fn time(&self, now: u64) -> Time {
        self.clock.time(now)
    }

    /// Starts, with what is left of the data set.
    pub fn start(&mut self, now: u64) {
        let time = self.time(now);
        (self.is_up, self.life) = (true, self.life + 1);
        self.node = Node::default();
        self.node.settings = self.settings();
        self.knowledge.starts(self.leads);
        if !self.leads {
            self.node.follow(&mut self.host, time.now);
        }
        let before = self.file.says.map(|file| self.record(file));
        if let Some(Record { fence, unix, bound, .. }) = before.clone() {
            let said = Promise { fence, unix, bound, ..Promise::default() };
            self.node.durable.resume(&said, time.now);
        } else if let Some(lost) = self.node.settings.lost(time.unix) {
            let forgets = self.flaw == Some(Flaw::CountsAnew);
            let lost = Promise { fence: if forgets { Fence(0) } else { lost.fence }, ..lost };
            self.node.durable.resume(&lost, time.now);
            self.file.write(lost);
        }
        self.host.now = time.now;
        let back = self.host.grants();
        self.host.retain(|value| matches!(value, Value::Done(..)));
        if self.flaw == Some(Flaw::RecordsBeginAnew) {
            self.begin_records_anew();
        }
        for (key, mode, holder) in back {
            let grant = holder.grant();
            self.node.heard_of(key.as_key(), grant.fence, grant.lease.ttl);
            self.host.load(&key, mode, &holder, time.now);
        }
        let back = self.host.roll();
        let held = self.host.last_end().map_or(Millis(0), |end| end.left(time.now));
        let start = Start { before: before.as_ref(), back, held };
        self.node.begin(&start, self.leads, time);
        self.ended = None;
        self.promise_now(time);
        if std::mem::take(&mut self.fills) {
            self.fill(now);
        }
    }

    /// Carries out the node's effects: promises go into the state file, the rest to the replica.
    pub fn carry_on(&mut self) {
        self.host.failed.clear();
        for promise in self.host.promises.drain(..) {
            self.file.writing = None;
            self.file.write(promise);
        }
        for event in self.host.log.drain(..) {
            self.stream.send(&event);
            self.log.push(event);
        }
    }

    /// Writes the state file, and waits until it is done.
    pub fn promise_now(&mut self, time: Time) {
        let promise = self.next_promise(time);
        self.file.writing = None;
        self.file.write(promise);
        self.node.promised(promise);
    }

    fn next_promise(&mut self, time: Time) -> Promise {
        let next = self.node.next_promise(self.host.last_end(), time);
        self.with_what_it_had(next)
    }

    fn with_what_it_had(&mut self, promise: Promise) -> Promise {
        if self.flaw != Some(Flaw::ForgetsTheEnd) {
            return promise;
        }
        self.had = self.had.max(promise.quarantine);
        Promise { quarantine: self.had, ..promise }
    }

    /// Tells the replica of the promise.
    pub fn tell(&mut self, time: Time) {
        if !std::mem::take(&mut self.file.is_news) || !self.stream.has_replica {
            return;
        }
        let mut promise = self.node.promise(time);
        promise = self.with_what_it_had(promise);
        if self.flaw == Some(Flaw::HandsIgnoranceOn) {
            (promise.bound, promise.quarantine) = (promise.longest(), Millis(0));
        }
        self.stream.sent.push(Sent::Promise(promise, self.knowledge.may_wait()));
    }

    fn settings(&self) -> Settings {
        let off = self.flaw == Some(Flaw::NoQuarantine);
        // An operator has declared its first start.
        let newborn_quarantine = match self.flaw {
            _ if self.life <= 1 => 0,
            Some(Flaw::NewGrants) => 0,
            Some(Flaw::NewWaitsShorter) => LOST.0 / 2,
            _ => LOST.0,
        };
        let quarantine = if off { Policy::Off } else { Policy::Auto };
        Settings { max_ttl: UNKNOWN, quarantine, newborn_quarantine }
    }

    fn record(&self, file: Promise) -> Record {
        let (mut fence, unix, mut bound) = (file.fence, file.unix, file.longest());
        if self.flaw == Some(Flaw::ForgetsCounter) {
            fence = Fence(0);
        }
        if self.flaw == Some(Flaw::ForgetsAhead) && unix > 0 {
            fence = fence.min(Fence(unix + 130_000_000));
        }
        if self.flaw == Some(Flaw::PromisesByClock) {
            fence = fence.max(Fence(self.saw + 60_000_000));
        }
        if self.flaw == Some(Flaw::ShortQuarantine) {
            bound = Millis(bound.0 / 2);
        }
        Record { node_id: 1, boot: self.life, fence, unix, bound, ended: self.ended }
    }

    /// Evicts a lock.
    pub fn evict(&mut self, key: &KeyBuf) {
        let (_, holders) = self.host.holders(key);
        self.host.take(key);
        let grants = holders.iter().map(|holder| holder.grant());
        for grant in grants.clone() {
            self.node.lost(key.as_key(), grant.token, grant.client);
        }
        let top = grants.clone().map(|grant| grant.fence).max().unwrap_or(Fence(0));
        let ends = grants.map(|grant| grant.lease.end);
        match if self.flaw == Some(Flaw::EvictsFirstEnd) { ends.min() } else { ends.max() } {
            Some(end) if self.flaw != Some(Flaw::GrantsEvicted) => {
                self.node.evict(key.as_key(), end, top);
            }
            _ => {
                self.node.pass_on(key.as_key(), top);
                self.node.maybe_free(key.as_key());
            }
        }
    }

    /// A crash. A part of the data set comes back, which may be empty, or a whole older one. A write that was
    /// on its way may have been made.
    pub fn crash(&mut self, dice: &mut Dice) {
        self.is_up = false;
        self.blocked.clear();
        if let Some(promise) = self.file.writing.take()
            && dice.chance(500)
        {
            self.file.write(promise);
        }
        if self.loses_disk && dice.chance(400) {
            (self.file.says, self.ended, self.saved) = (None, None, None);
            self.host.clear();
        } else if dice.chance(300)
            && let Some(saved) = self.saved.take()
        {
            self.host.clear();
            saved.iter().for_each(|(key, value)| self.host.set(key, value.clone()));
        } else {
            let keep = dice.one_of(&[0, 0, 500, 1000]);
            self.host.retain(|_| dice.chance(keep));
        }
    }

    /// A shutdown: all of the data set comes back, if it was saved.
    pub fn shut_down(&mut self, now: u64, dice: &mut Dice) {
        let time = self.time(now);
        self.is_up = false;
        self.blocked.clear();
        self.file.writing = None;
        if self.node.is_in_quarantine(time.now) || self.node.is_following() {
            let promise = self.node.next_promise(self.host.last_end(), time);
            self.file.write(promise);
        } else {
            let promise = self.node.last_promise(self.host.last_end(), time.now);
            self.file.write(promise);
            let mut ended = self.host.roll();
            if self.node.evicted_left(time.now) > Millis(0) && self.flaw != Some(Flaw::EndsEvicted)
            {
                ended.add_evicted();
            }
            self.ended = Some(ended);
        }
        if dice.chance(300) {
            self.host.clear();
        }
    }

    /// Twice a second: writes the promise where a longer one is due, and tells the replica. Now and then it
    /// saves the data set.
    pub fn look_at_state_file(&mut self, now: u64, dice: &mut Dice) {
        let time = self.time(now);
        if dice.chance(250) {
            self.saved = Some(self.host.values.clone());
        }
        self.saw = time.unix;
        if let Some(promise) = self.file.writing.take() {
            self.file.write(promise);
            self.node.promised(promise);
        } else if !self.host.disk_is_full && self.node.should_promise(time) {
            self.file.writing = Some(self.next_promise(time));
        }
        self.tell(time);
    }

    /// The records stand for ten minutes more.
    fn begin_records_anew(&mut self) {
        let end = Deadline::after(self.host.now, Millis(600_000));
        for value in self.host.values.values_mut() {
            if let Value::Done(_, until) = value {
                *until = end;
            }
        }
    }

    /// Its records, as they are stored, and their keys.
    pub fn records(&self) -> Vec<(KeyBuf, Vec<u8>)> {
        let record = |(key, value): (&KeyBuf, &Value)| match value {
            Value::Done(record, _) => Some((key.clone(), record.clone())),
            _ => None,
        };
        self.host.values.iter().filter_map(record).collect()
    }

    /// Holders that are away count as if they had asked.
    pub fn forget_absence(&mut self, now: u64) {
        let time = self.time(now);
        for (key, _, holder) in self.host.grants() {
            let Grant { token, client, fence, .. } = holder.grant();
            if client == ClientId::AWAY {
                let extend = Extend { token, ttl: Millis(1), fence: Some(fence) };
                let (key, client) = (key.as_key(), ClientId::UNKNOWN);
                let _ = self.node.extend(&mut self.host, key, &extend, client, time);
            }
        }
    }

    /// The node's own work.
    pub fn sweep(&mut self, now: u64) {
        let time = self.time(now);
        self.host.now = time.now;
        if self.flaw != Some(Flaw::TellsLate) {
            self.tell(time);
        }
        self.node.look_at_places(time.now, false);
        self.node.sweep(&mut self.host, time, 100, true);
    }

    /// A connection has closed.
    pub fn closed(&mut self, wire: u64, now: u64) {
        if self.flaw == Some(Flaw::KeepsDeadWaiters) {
            return;
        }
        if self.flaw == Some(Flaw::EndsWithConnection) {
            self.end_grants(wire, now);
        }
        self.node.closed(ClientId(wire));
        let gone = |(_, blocked): &(&WaiterId, &Blocked)| blocked.wire == wire;
        let gone: Vec<WaiterId> = self.blocked.iter().filter(gone).map(|(id, _)| *id).collect();
        for waiter in gone {
            self.blocked.remove(&waiter);
            self.node.gone(waiter, self.time(now).now);
        }
    }

    /// Ends the grants of a connection.
    fn end_grants(&mut self, wire: u64, now: u64) {
        let time = self.time(now);
        for (key, _, holder) in self.host.grants() {
            let Grant { token, client, .. } = holder.grant();
            if client == ClientId(wire) {
                let release = Release { token, is_final: false, done: None };
                let _ = self.node.release(&mut self.host, key.as_key(), &release, time);
            }
        }
    }

    /// True if a connection still holds something, or waits for it.
    pub fn knows(&self, wire: u64, keys: &[KeyBuf]) -> bool {
        let client = ClientId(wire);
        let holds = self.host.grants().iter().any(|(_, _, holder)| {
            let grant = holder.grant();
            grant.client == client && grant.ephemeral
        });
        let waits = |key: &KeyBuf| {
            let queue = self.node.waiting.queue(key.as_key());
            queue.is_some_and(|queue| {
                queue.iter().any(|waiter| waiter.is_present() && waiter.asks.client == client)
            })
        };
        holds || keys.iter().any(waits)
    }

    /// The time of the next task, by the server's own clock.
    pub fn next(&self) -> Option<dlock_core::Instant> {
        let first = self.host.first_of_all().into_iter().chain(self.node.next_wake()).min();
        first.map(|end| dlock_core::Instant(end.0.saturating_mul(1000)))
    }
}

/// The longest lease where disks are lost, and the length of leases that a server with an empty disk assumes.
pub const LOST: Millis = Millis(10_000);
