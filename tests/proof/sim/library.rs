//! The client library's use of connections. The simulation's other clients are simpler, and worse, for they
//! receive more:
//!
//! - a request whose connection breaks is sent over another one under the same number, and counts from then
//!   on; messages still in the broken connection arrive, too, before or after;
//! - an answer after the time-out is ignored, and a connection that waited is closed then.

use dlock_core::quorum::{Ask, Rules};

use super::truth::Under;
use super::world::World;

impl<R: Rules> World<R> {
    /// A request that waits goes over this connection.
    pub(super) fn goes_over(&mut self, task: usize, of: (u32, usize), ask: Ask, wire: u64) {
        if ask.blocks() {
            let waits = self.tasks[task].waits.entry(of).or_default();
            waits.retain(|old| *old != wire);
            waits.push(wire);
        }
    }

    /// The connection of a request has broken. True if another one takes the request.
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
        if !self.may_send(task, (attempt, node), ask) {
            return false;
        }
        self.goes_over(task, (attempt, node), ask, wire);
        let sent = self.clock_of(task).now;
        self.tasks[task].open.insert((node, id), Under { wire, sent, again: false, ..under });
        self.say(format!("task {task} sends its request to node {node} again"));
        let request = self.request(task, id, attempt, (ask, over), ttl);
        self.deliver_over(wire, request);
        true
    }

    /// No answer has come in time: later ones are ignored.
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
