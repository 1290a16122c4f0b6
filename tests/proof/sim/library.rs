//! The client library's use of connections, where the simulation's other clients are simpler (and
//! worse, for they hear of more):
//!
//! - a request whose connection breaks is sent over another one under the same number, and the machine is
//!   told so; what the broken connection still has in it arrives, too, before or after;
//! - an answer that comes after the time-out is not heard, and a connection that waited is closed then;
//! - a RELEASE goes over the connections on which an ACQUIRE was not answered, and over the last one.

use dlock_core::quorum::{Ask, Rules};

use super::flaw::Flaw;
use super::task::Machine;
use super::truth::Under;
use super::world::World;

/// The connections over which one attempt asked one node for the lock, with how many of its requests
/// have no answer.
pub type Lane = Vec<(u64, u32)>;

impl<R: Rules> World<R> {
    /// A request goes over this connection.
    pub(super) fn goes_over(&mut self, task: usize, of: (u32, usize), ask: Ask, wire: u64) {
        if ask.blocks() {
            let waits = self.tasks[task].waits.entry(of).or_default();
            waits.retain(|old| *old != wire);
            waits.push(wire);
        } else if self.is_library && matches!(ask, Ask::Acquire { .. }) {
            self.enter_lane(task, of, wire);
        }
    }

    fn enter_lane(&mut self, task: usize, of: (u32, usize), wire: u64) {
        let lane = self.tasks[task].lanes.entry(of).or_default();
        match lane.last_mut() {
            Some((last, open)) if *last == wire => *open += 1,
            _ => {
                lane.retain(|(_, open)| *open > 0);
                lane.push((wire, 1));
            }
        }
    }

    /// An answer has come over this connection.
    pub(super) fn leave_lane(&mut self, task: usize, of: (u32, usize), under: Under) {
        if under.ask.blocks() || !matches!(under.ask, Ask::Acquire { .. }) {
            return;
        }
        let Some(lane) = self.tasks[task].lanes.get_mut(&of) else { return };
        let used = lane.iter_mut().filter(|(wire, _)| *wire == under.wire);
        used.for_each(|(_, open)| *open = open.saturating_sub(1));
    }

    /// The connections over which a RELEASE goes.
    pub(super) fn lane_wires(&mut self, task: usize, of: (u32, usize)) -> Vec<u64> {
        let lane = self.tasks[task].lanes.remove(&of).unwrap_or_default();
        let mut wires: Vec<u64> = lane.iter().map(|(wire, _)| *wire).collect();
        wires.retain(|wire| self.wires.get(wire).is_some_and(|wire| wire.is_open));
        // A request that is not answered is sent again over another.
        if wires.len() < lane.len() || wires.is_empty() {
            wires.extend(self.ordinary(self.tasks[task].process, of.1));
        }
        wires
    }

    /// The connection of a request has broken. Whether it goes over another one now.
    pub(super) fn sends_again(&mut self, task: usize, node: usize, id: u32) -> bool {
        let Some(&under) = self.tasks[task].open.get(&(node, id)) else { return false };
        let Under { attempt, ask, over, ttl, again, .. } = under;
        let is_over = self.tasks[task].is_over() || attempt != self.tasks[task].attempt;
        if !self.is_library || !again || is_over {
            return false;
        }
        let process = self.tasks[task].process;
        let wire =
            if ask.blocks() { self.connect(process, node) } else { self.ordinary(process, node) };
        let Some(wire) = wire else { return false };
        self.goes_over(task, (attempt, node), ask, wire);
        self.tasks[task].open.insert((node, id), Under { wire, again: false, ..under });
        self.say(format!("task {task} sends its request to node {node} again"));
        if self.flaw != Some(Flaw::SendsAgainInSilence) {
            match &mut self.tasks[task].machine {
                Machine::Trying(acquisition) => acquisition.sent_again(node, id),
                Machine::Holding(hold) => hold.sent_again(node, id),
                Machine::Over => {}
            }
        }
        let request = self.request(task, id, attempt, (ask, over), ttl);
        self.deliver_over(wire, request);
        true
    }

    /// No answer has come in time: none is heard any more.
    pub(super) fn stop_listening(&mut self, task: usize, node: usize, id: u32) {
        let Some(under) = self.tasks[task].open.remove(&(node, id)) else { return };
        let process = self.tasks[task].process;
        if under.ask.blocks() {
            self.hang_up(under.wire);
        } else if self.processes[process].wires[node] == Some(under.wire) {
            self.processes[process].wires[node] = None;
        }
    }
}
