//! Connections: messages over one keep their order, and may be late. Connections break.

use dlock_core::quorum::{Answer, Met, Occupant, Rules};

use super::flaw::Flaw;
use super::world::{Event, Wire, World};

impl<R: Rules> World<R> {
    /// Opens a connection to the server at the node's address. A server that is down is not reached, and a
    /// node is not reached twice.
    pub fn connect(&mut self, process: usize, place: usize) -> Option<u64> {
        let node = self.reach(process, place)?;
        let server = self.finds(process, node);
        let life = self.servers[server].life;
        let tenure = self.processes[process].roster.changes(place);
        self.next += 1;
        let (there, back) = (self.now, self.now);
        let (is_open, is_closed) = (true, false);
        let wire = Wire { process, place, server, tenure, life, is_open, is_closed, there, back };
        self.wires.insert(self.next, wire);
        Some(self.next)
    }

    fn reach(&mut self, process: usize, place: usize) -> Option<usize> {
        let found = |node: usize| self.servers[self.finds(process, node)].is_up;
        let up: Vec<bool> = (0..self.nodes).map(found).collect();
        let is_up = |node: &usize| up[*node];
        if self.flaw == Some(Flaw::TrustsAddresses) {
            return Some(self.leads[place]).filter(is_up);
        }
        let seen: Vec<Option<usize>> =
            self.leads.iter().map(|at| Some(*at).filter(is_up)).collect();
        let roster = &mut self.processes[process].roster;
        let server = seen[roster.address(place)]?;
        if roster.meet(place, &server) == Met::Known {
            return Some(server);
        }
        roster.rebind(&seen);
        let server = seen[roster.address(place)]?;
        match roster.take(place, server) {
            Occupant::Same => {}
            Occupant::Stranger(_) => self.note_stranger(process, place),
            Occupant::Twin(_) => return None,
        }
        Some(server)
    }

    /// True if the server at the other end still has the place, in the client's view. The server can have
    /// another place by now, and would have two votes.
    pub fn is_current(&self, wire: &Wire) -> bool {
        let roster = &self.processes[wire.process].roster;
        roster.changes(wire.place) == wire.tenure || self.flaw == Some(Flaw::KeepsConnections)
    }

    /// The arrival time of a message; `None`: never. The message may be the connection's last.
    pub fn transmit(&mut self, on: u64, to_server: bool) -> Option<u64> {
        let &Wire { process, server, is_open, .. } = self.wires.get(&on)?;
        let delay = self.delay(process, server);
        let mut start = self.now.max(self.processes[process].cut_until[server]);
        let cut = start > self.now;
        if is_open && (self.dice.chance(self.conditions.breaks) || cut && self.dice.chance(300)) {
            self.break_wire(on);
            if !to_server || self.dice.chance(500) {
                return None;
            }
            // A request in a broken connection can arrive long after one over the next.
            start += self.dice.between(0, self.conditions.slowest);
        }
        let wire = self.wires.get_mut(&on)?;
        let last = if to_server { &mut wire.there } else { &mut wire.back };
        *last = (*last + 1).max(start + delay);
        Some(*last)
    }

    fn delay(&mut self, process: usize, server: usize) -> u64 {
        if let Some(map) = &self.map {
            return map.between(process, server);
        }
        let slow = self.dice.chance(self.conditions.slow);
        let delay = self.dice.between(100, 1500);
        if slow { delay + self.dice.between(0, self.conditions.slowest) } else { delay }
    }

    /// The network breaks a connection. Both ends learn it, sooner or later.
    fn break_wire(&mut self, on: u64) {
        self.hang_up(on);
        self.will_learn(on);
    }

    /// A client learns that a connection is broken: at once, or by the system's keep-alive.
    pub fn will_learn(&mut self, wire: u64) {
        let at_once = self.dice.chance(700);
        let most = if at_once { 20_000 } else { KEEPALIVE };
        let after = self.dice.between(100, most);
        self.later(after, Event::Broken { wire });
    }

    /// A client closes a connection.
    pub fn hang_up(&mut self, on: u64) {
        let slowest = self.conditions.slowest;
        let delay = self.dice.between(100, 2_000) + self.dice.one_of(&[0, 0, 0, slowest]);
        let Some(wire) = self.wires.get_mut(&on).filter(|wire| wire.is_open) else { return };
        wire.is_open = false;
        let Wire { process, place, there, .. } = *wire;
        let ordinary = &mut self.processes[process].wires[place];
        *ordinary = ordinary.filter(|wire| *wire != on);
        let at = there.max(self.now) + delay;
        self.at(at, Event::Closed { wire: on });
    }

    pub fn client_learns(&mut self, wire: u64) {
        for task in 0..self.tasks.len() {
            let open = self.tasks[task].open.iter().filter(|(_, under)| under.wire == wire);
            let open: Vec<(usize, u32)> = open.map(|(request, _)| *request).collect();
            for (node, id) in open {
                if !self.sends_again(task, node, id) {
                    self.reply(task, node, id, Answer::Unreachable);
                }
            }
        }
    }
}

/// TCP notices after this long that the other end does not answer.
const KEEPALIVE: u64 = 30_000_000;
