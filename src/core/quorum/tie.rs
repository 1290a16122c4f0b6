//! Ties: each of two has nodes that the other lacks. The nodes are in one order for all, and whoever has
//! the first of them goes on.

use super::Ask;
use super::acquisition::Acquisition;
use super::phase::{Gathering, Phase};
use super::rules::Rules;
use crate::words::{Instant, Millis, Time};

impl<R: Rules> Acquisition<R> {
    /// Whether it may be tied with somebody: it has nodes, and lacks one before them. It asks that one soon
    /// whether it is there.
    pub(super) fn look_for_ties(&mut self, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let entitled = self.ballot.is_entitled();
        gathering.since = entitled.then(|| gathering.since.unwrap_or(time.now));
        let gives_back = self.ballot.gives_way() && self.rules.gives_back();
        if !self.ballot.has(gathering.gate) && !gives_back {
            (gathering.ping_at, gathering.pings) = (None, None);
        } else if gathering.ping_at.is_none() {
            // Whoever holds may do without the nodes that it has given back so often.
            let pause = self.plan.timeout.0.div_ceil(4) << gathering.returns.min(4);
            gathering.ping_at = Some(time.now.plus(Millis(pause)));
        }
    }

    /// It has its gate, or others, and lacks nodes before that: those that are there decide who goes on.
    pub(super) fn ping_before(&mut self, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        gathering.ping_at = Some(time.now.plus(self.plan.timeout));
        let own = Some(gathering.gate).filter(|gate| self.ballot.has(*gate));
        let Some(own) = own.or(self.ballot.first()) else { return };
        let attempt = self.ballot.attempt();
        let mut first = None;
        for node in self.ballot.lacking().filter(|node| self.rules.gives_way(own, *node)) {
            let id = self.out.push(node, attempt, Ask::Ping, self.plan.ttl);
            first.get_or_insert(id);
        }
        gathering.pings = first;
    }

    /// A node answers that it lacks. Who has its gate, and lacks that before it, queues there. Who has
    /// nothing but nodes behind that gives them back, and stands in line for them anew: the holder, or whoever
    /// is before it, was not there yet.
    pub(super) fn gives_way_to(&mut self, node: usize, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let gate = gathering.gate;
        if !self.ballot.lacking().any(|lacking| lacking == node) {
            return;
        }
        if self.ballot.has(gate) {
            if self.rules.gives_way(gate, node) {
                self.ballot.withdraw(&mut self.out);
                self.queue_at(node, time);
            }
        } else if self.ballot.gives_way() && self.rules.gives_back() {
            gathering.returns += 1;
            self.ballot.give_back(&mut self.out, time.now);
            self.step(time);
        }
    }

    /// Whoever has the first of the nodes goes on. But there may be two who are sure of that: who see
    /// different nodes, or have them in another order.
    pub(super) fn last_resort(&self, gathering: &Gathering) -> Option<Instant> {
        let patience = self.plan.timeout.0.saturating_mul(LAST_RESORT << self.resorts.min(3));
        Some(gathering.since?.plus(Millis(patience)))
    }
}

/// After so many time-outs one gives up its turn that has the gate, and gets nowhere; after twice as
/// many the next time, and up to eight times as many.
const LAST_RESORT: u64 = 16;
