//! Ties: each of two clients has nodes that the other lacks. The nodes have one order for all, and the
//! client that has the first of them goes on.

use super::Ask;
use super::acquisition::Acquisition;
use super::phase::{Gathering, Phase};
use super::rules::Rules;
use crate::words::{Instant, Millis, Time};

impl<R: Rules> Acquisition<R> {
    /// Looks for a tie: it has grants, and lacks a node before them. If so, plans a ping of
    /// that node.
    pub(super) fn look_for_ties(&mut self, time: Time) {
        let timeout = self.time_out();
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let entitled = self.ballot.is_entitled();
        gathering.since = entitled.then(|| gathering.since.unwrap_or(time.now));
        let gives_back = self.ballot.gives_way() && self.ballot.rules.gives_back();
        if !self.ballot.has(gathering.gate) && !gives_back {
            (gathering.ping_at, gathering.pings) = (None, None);
        } else if gathering.ping_at.is_none() {
            // The holder may do without nodes that it was given back this often.
            let pause = timeout.0.div_ceil(4) << gathering.returns.min(4);
            gathering.ping_at = Some(time.now.plus(Millis(pause)));
        }
    }

    /// Pings the nodes that it lacks before its gate or its first grant: those that answer decide who
    /// goes on.
    pub(super) fn ping_before(&mut self, time: Time) {
        let timeout = self.time_out();
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        gathering.ping_at = Some(time.now.plus(timeout));
        let own = Some(gathering.gate).filter(|gate| self.ballot.has(*gate));
        let Some(own) = own.or(self.ballot.first()) else { return };
        let attempt = self.ballot.attempt();
        let mut first = None;
        for node in self.ballot.lacking().filter(|node| self.ballot.rules.gives_way(own, *node)) {
            let id = self.out.push(node, attempt, Ask::Ping, self.plan.ttl);
            first.get_or_insert(id);
        }
        gathering.pings = first;
    }

    /// Handles a ping's answer of a node that it lacks. A client that has its gate, and lacks this node
    /// before it, queues there. A client whose grants are all behind this node gives them back, and waits
    /// for them anew: the holder, or a client before it, had not asked there yet.
    pub(super) fn gives_way_to(&mut self, node: usize, time: Time) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let gate = gathering.gate;
        if !self.ballot.lacking().any(|lacking| lacking == node) {
            return;
        }
        if self.ballot.has(gate) {
            if self.ballot.rules.gives_way(gate, node) {
                self.ballot.withdraw(&mut self.out);
                self.queue_at(node, time);
            }
        } else if self.ballot.gives_way() && self.ballot.rules.gives_back() {
            self.stand_back(time);
        }
    }

    /// Time at which it gives back grants that do no good, because a majority says no: most likely to a holder
    /// that these nodes have forgotten, which waits there to have them again. After a few times only the last
    /// resort is left, which is random: clients that have the nodes in another order may do the same.
    pub(super) fn stands_back_at(&self, gathering: &Gathering) -> Option<Instant> {
        let since = gathering
            .since
            .filter(|_| self.ballot.is_denied() && gathering.returns < MOST_RETURNS)?;
        let pause = self.time_out().0.saturating_mul(STANDS_BACK << gathering.returns);
        Some(since.plus(Millis(pause)))
    }

    /// Gives everything back, and queues anew after a rest.
    pub(super) fn stand_back(&mut self, time: Time) {
        let Phase::Gathering(Gathering { gate, .. }) = self.phase else { return };
        self.ballot.withdraw(&mut self.out);
        self.rest(Some(gate), time);
    }

    /// Time at which it gives up its turn. The client that has the first of the nodes goes on; but two
    /// may be sure of that, if they see different nodes, or have them in another order.
    pub(super) fn last_resort(&self, gathering: &Gathering) -> Option<Instant> {
        Some(gathering.since?.plus(self.back_off.patience(self.time_out())))
    }
}

/// A client whose grants do no good gives them back after this many time-outs, after twice as many the next
/// time, and this often.
const STANDS_BACK: u64 = 2;
const MOST_RETURNS: u32 = 3;
