//! The faults, and the time after which nothing fails any more.

use std::collections::BTreeMap;

use dlock_core::quorum::Rules;
use dlock_core::{KeyBuf, Millis};

use super::life::token;
use super::task::Machine;
use super::world::{Event, NetworkConditions, Wire, World};

impl<R: Rules> World<R> {
    pub(super) fn fault(&mut self) {
        if self.calm_since.is_some() {
            return;
        }
        let pause = self.dice.one_of(&[50_000, 500_000, 2_000_000]);
        let after = self.dice.between(1_000, pause);
        self.later(after, Event::Fault);
        if !self.pairs.is_empty() && self.dice.chance(400) {
            return self.fault_of_pairs();
        }
        let (server, process) =
            (self.dice.below(self.servers.len()), self.dice.below(self.processes.len()));
        let length = self.dice.one_of(&[5_000, 100_000, 1_500_000, 5_000_000]);
        let length = self.dice.between(1, length);
        let kind =
            if self.is_restless { self.dice.one_of(&[7, 9, 9, 9]) } else { self.dice.below(12) };
        match kind {
            _ if self.evicts && self.dice.chance(500) => self.evict(),
            0 | 1 => self.stop(server, true, length),
            2 => self.stop(server, false, length),
            3 => self.servers[server].paused_until = self.now + length,
            4 | 5 => self.processes[process].cut_until[server] = self.now + length,
            6 => self.processes[process].paused_until = self.now + length,
            7 => self.crash_process(process),
            8 => {
                let leads = self.speaks(server);
                let full = &mut self.servers[server].host.disk_is_full;
                *full = !*full && leads;
                self.processes[process].clock.step(&mut self.dice);
            }
            9 => self.addresses(self.node_of(server)),
            _ => self.operator(),
        }
    }

    /// Faults of nodes with replicas.
    fn fault_of_pairs(&mut self) {
        let node = self.dice.below(self.nodes);
        let length = self.dice.one_of(&[100_000, 1_500_000, 5_000_000]);
        let length = self.dice.between(1, length);
        match self.dice.below(6) {
            0 | 1 => self.cut_link(node, length),
            2 => self.end_quarantines(),
            _ => self.fail_over(node, length),
        }
    }

    /// An address leads elsewhere: two servers exchange theirs, or one gets two of them for a while.
    fn addresses(&mut self, address: usize) {
        let other = self.dice.below(self.leads.len());
        if self.is_restless && self.dice.chance(500) {
            let Self { leads, dice, nodes, .. } = self;
            leads.iter_mut().for_each(|leads| *leads = dice.below(*nodes));
        } else if self.dice.chance(700) {
            self.leads.swap(address, other);
        } else if self.dice.chance(500) {
            self.leads[address] = self.leads[other];
        } else {
            self.leads = (0..self.nodes).collect();
        }
        self.say(format!("the addresses lead to {:?}", self.leads));
        let ours = |wire: &Wire| wire.is_open && [address, other].contains(&wire.place);
        let open = self.wires.iter().filter(|(_, wire)| ours(wire));
        for wire in open.map(|(wire, _)| *wire).collect::<Vec<u64>>() {
            if self.dice.chance(500) {
                self.hang_up(wire);
                self.will_learn(wire);
            }
        }
    }

    pub(super) fn stop(&mut self, place: usize, crash: bool, length: u64) {
        let server = &mut self.servers[place];
        if !server.is_up {
            return;
        }
        if self.speaks(place) && !self.is_failing_over(place) {
            self.note_stop(self.node_of(place));
        }
        self.breaks_off(place);
        let server = &mut self.servers[place];
        let records = server.records();
        if crash {
            server.crash(&mut self.dice);
        } else {
            server.shut_down(self.now, &mut self.dice);
        }
        if !records.iter().all(|record| server.records().contains(record)) {
            self.judge.forget_done(self.now);
        }
        if self.dice.chance(300) && !server.loses_disk {
            server.clock.step(&mut self.dice);
        }
        self.say(format!("node {place} {}", if crash { "crashes" } else { "is shut down" }));
        let lost = self.wires.iter().filter(|(_, w)| w.server == place && w.is_open);
        let lost: Vec<u64> = lost.map(|(wire, _)| *wire).collect();
        for wire in lost {
            self.hang_up(wire);
            self.will_learn(wire);
        }
        self.later(length, Event::Start { server: place });
    }

    /// The first node evicts a lock: one node alone costs no guard its majority for good.
    fn evict(&mut self) {
        let place = self.leader(0);
        let grants = self.servers[place].host.grants();
        if !self.servers[place].is_up || grants.is_empty() {
            return;
        }
        let (key, ..) = &grants[self.dice.below(grants.len())];
        self.say(format!("node {place} evicts a lock"));
        self.note_stop(self.node_of(place));
        let server = &mut self.servers[place];
        server.evict(key);
        self.settle(place);
    }

    fn operator(&mut self) {
        let only = self.dice.chance(400).then(|| self.dice.below(self.nodes));
        let key = self.dice.below(self.keys.len());
        let key = self.keys[key].clone();
        self.break_lock(key, only);
    }

    /// An operator breaks a lock everywhere, or at one node only.
    pub(super) fn break_lock(&mut self, key: KeyBuf, only: Option<usize>) {
        self.say(format!("an operator breaks a lock, {only:?}"));
        self.judge.excuse(&key, self.now);
        let mut ended: BTreeMap<Box<[u8]>, (usize, Millis)> = BTreeMap::new();
        for node in 0..self.nodes {
            let place = self.leader(node);
            self.look_at_link(place);
            let server = &mut self.servers[place];
            let may = server.is_up && !server.host.refuses;
            if may && only.is_none_or(|only| only == node) {
                let grants = server.host.grants().into_iter();
                for (_, _, holder) in grants.filter(|(held, ..)| *held == key) {
                    let grant = holder.grant();
                    let (nodes, longest) = ended.entry(grant.token.into()).or_default();
                    (*nodes, *longest) = (*nodes + 1, grant.lease.ttl.max(*longest));
                }
                let time = server.clock.time(self.now);
                let broken = server.node.break_lock(&mut server.host, key.as_key(), None, time);
                debug_assert!(broken.is_ok());
                self.settle(place);
            }
        }
        let majority = self.nodes / 2 + 1;
        for (place, task) in self.tasks.iter_mut().enumerate() {
            let ended = ended.get(token(place, task.attempt).as_slice());
            if let Machine::Holding(hold) = &task.machine
                && let Some((nodes, longest)) = ended
                && *nodes >= majority
            {
                // A request before this moment may still lengthen it; clocks differ.
                let longest = hold.ttl().max(*longest);
                task.ended.get_or_insert(self.now + longest.0 * 1_200);
            }
        }
    }

    pub(super) fn calm(&mut self) {
        self.say("--- nothing fails from now on ---".to_owned());
        // Messages that a cut has delayed still arrive, and later ones over the same connection wait for them.
        let arrive = self.wires.values().map(|wire| wire.there.max(wire.back));
        self.calm_since = arrive.max().max(Some(self.now));
        self.conditions = NetworkConditions { slow: 0, slowest: 2_000, breaks: 0 };
        let mut leads = self.leads.clone();
        leads.sort_unstable();
        leads.dedup();
        if leads.len() < self.leads.len() {
            self.leads = (0..self.nodes).collect();
        }
        // A minority may stay away.
        let mut away = self.dice.below(self.nodes.div_ceil(2));
        for place in 0..self.servers.len() {
            let server = &mut self.servers[place];
            (server.paused_until, server.host.disk_is_full) = (self.now, false);
            if !server.is_up && away > 0 && !self.pairs.contains_key(&(place % self.nodes)) {
                away -= 1;
                server.stays_away = true;
            }
            self.start(place);
        }
        for process in &mut self.processes {
            process.paused_until = self.now;
            process.cut_until.fill(0);
        }
        self.calm_pairs();
    }

    pub(super) fn close(&mut self) {
        self.say("--- nobody new comes ---".to_owned());
        self.closed = true;
    }

    /// All clients of a process vanish. The nodes learn it from their connections.
    fn crash_process(&mut self, process: usize) {
        self.say(format!("process {process} crashes"));
        for task in 0..self.tasks.len() {
            if self.tasks[task].process == process && !self.tasks[task].is_over() {
                self.tasks[task].machine = Machine::Over;
                let key = self.tasks[task].key.clone();
                self.judge.holds(&key, task, None, self.now);
            }
        }
        let open = self.wires.iter().filter(|(_, w)| w.process == process && w.is_open);
        let open: Vec<u64> = open.map(|(wire, _)| *wire).collect();
        open.into_iter().for_each(|wire| self.hang_up(wire));
    }
}
