//! Two nodes, a primary and its replica, all clients, and the invariants.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::judge::{Cause, Hold, Judge, Verdict};
use crate::lock::Holder;
use crate::node::host::WaitOutcome;
use crate::node::{Node, Waiting};
use crate::simulated::{MemoryHost, Replicated, Report, Value};
use crate::words::{ClientId, Fence, Instant, KeyBuf, Mode, Time, WaiterId};

pub struct Side {
    pub node: Node,
    pub host: MemoryHost,
}

/// A connection with an unanswered request, from its own view.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    pub client: ClientId,
    pub side: usize,
    pub granted: bool,
}

pub struct World {
    pub sides: [Side; 2],
    /// The index of the primary.
    pub lead: usize,
    pub judge: Judge,
    /// The keys of evicted locks, as the replica stored them when it led.
    pub shut_there: BTreeMap<Box<[u8]>, u64>,
    /// Microseconds on the monotonic clock, and on the wall's.
    pub now: u64,
    pub unix: u64,
    pub clients: Vec<ClientId>,
    pub blocked: BTreeMap<WaiterId, Blocked>,
    next_client: u64,
    /// True if requests have been held back since the last iteration.
    pub is_paused: bool,
    /// The total time that requests were held back, at most.
    pub still: u64,
    /// The last iteration, and the one before, after which all had been read that came until then.
    pub turned: u64,
    pub heard: u64,
}

impl World {
    pub fn new() -> World {
        let side = |first_waiter| {
            let mut node = Node::default();
            node.waiting.next_id = first_waiter;
            Side { node, host: MemoryHost::default() }
        };
        let mut world = World {
            sides: [side(0), side(1 << 32)],
            lead: 0,
            judge: Judge::default(),
            shut_there: BTreeMap::new(),
            now: 0,
            unix: 1_000_000,
            clients: Vec::new(),
            blocked: BTreeMap::new(),
            next_client: 1,
            is_paused: false,
            still: 0,
            turned: 0,
            heard: 0,
        };
        world.sides[1].node.follow(&mut MemoryHost::default(), Instant(0));
        for _ in 0..6 {
            let client = world.connect();
            world.clients.push(client);
        }
        world.look_at_clock();
        world
    }

    pub fn time(&self) -> Time {
        Time { now: Instant(self.now), unix: self.unix }
    }

    pub fn pass(&mut self, micros: u64) {
        self.now += micros;
        self.unix += micros;
        self.judge.now = self.now;
        for side in &mut self.sides {
            side.host.now = Instant(self.now);
        }
        self.look_at_clock();
    }

    /// The nodes look at their clocks.
    pub fn look_at_clock(&mut self) {
        let time = self.time();
        self.sides.iter_mut().for_each(|side| side.node.durable.counter.look(time));
    }

    pub fn leader(&mut self) -> &mut Side {
        &mut self.sides[self.lead]
    }

    /// A connection that is free to ask.
    pub fn client(&mut self, slot: usize) -> ClientId {
        let client = self.clients[slot % self.clients.len()];
        if self.blocked.values().all(|blocked| blocked.client != client) {
            return client;
        }
        let fresh = self.connect();
        let slots = self.clients.len();
        self.clients[slot % slots] = fresh;
        fresh
    }

    pub fn connect(&mut self) -> ClientId {
        let client = ClientId(self.next_client);
        self.next_client += 1;
        client
    }

    /// Passes the primary's effects to the judge and to the replica.
    pub fn settle(&mut self, cause: Cause<'_>) -> Result<Vec<Report>, TestCaseError> {
        self.forget_places(cause);
        let side = &mut self.sides[self.lead];
        let log = core::mem::take(&mut side.host.log);
        self.judge.hear(&log, cause, &side.host, self.now)?;
        for (id, answer) in core::mem::take(&mut self.judge.answers) {
            match answer {
                // The request may have been answered before it was listed as waiting.
                WaitOutcome::Granted(_) => {
                    if let Some(blocked) = self.blocked.get_mut(&id) {
                        prop_assert!(!blocked.granted, "answered twice");
                        blocked.granted = true;
                    }
                }
                _ => prop_assert!(self.blocked.remove(&id).is_some(), "answered twice"),
            }
        }
        for event in &log {
            self.replicate(event)?;
        }
        self.check(cause)?;
        Ok(log)
    }

    fn replicate(&mut self, event: &Report) -> Verdict {
        let time = Time { now: Instant(self.now), unix: 0 };
        let Side { node, host } = &mut self.sides[1 - self.lead];
        if let Some(sent) = Replicated::write(event) {
            prop_assert!(sent.carry_out(node, host, time), "a replica cannot: {sent:?}");
        }
        let answered = |event: &Report| matches!(event, Report::Answered(..));
        prop_assert!(!core::mem::take(&mut host.log).iter().any(answered), "a replica answers");
        Ok(())
    }

    /// Checks the invariants after every operation.
    fn check(&mut self, cause: Cause<'_>) -> Verdict {
        self.check_queues(cause)?;
        let Side { node, host } = &self.sides[self.lead];
        prop_assert!(host.index_is_true(), "the index lags");
        let held = all_held(host, &self.judge);
        for (key, (mode, holders)) in &held {
            same_holders(self.judge.held(key), *mode, holders, false)?;
        }
        self.check_counter(node)?;
        self.check_ephemeral()?;
        for key in self.judge.queues.keys() {
            let unread = node.waiting.places.end_next(Instant(self.now)) || self.is_paused;
            let put_off = node.has_pending() || self.looks_soon() || unread;
            prop_assert!(put_off || !self.first_is_due(key, None), "a lost wake-up");
        }
        let Side { node, host } = &self.sides[1 - self.lead];
        prop_assert!(host.index_is_true(), "the replica's index lags");
        for (key, (mode, holders)) in &all_held(host, &self.judge) {
            same_holders(self.judge.held(key), *mode, holders, true)?;
        }
        self.check_counter(node)?;
        prop_assert!(node.waiting.queues.is_empty() && node.ephemeral.all().count() == 0);
        Ok(())
    }

    /// Every key's next fence is above all of its earlier ones, whatever the clock says; on a replica, too, and
    /// before it is promoted.
    fn check_counter(&self, node: &Node) -> Verdict {
        for (name, highest) in &self.judge.highest {
            let next = node.durable.counter.next(name, None);
            prop_assert!(next > Some(Fence(*highest)), "{next:?} would follow {highest}");
            prop_assert!(node.durable.counter.last() >= Fence(*highest));
        }
        Ok(())
    }

    /// Exactly the grants of a connection end with it.
    fn check_ephemeral(&self) -> Verdict {
        let ends_with_connection = |hold: &&Hold| {
            let open =
                hold.client != ClientId::UNKNOWN && !self.judge.closed.contains(&hold.client);
            hold.bound && hold.ephemeral && open
        };
        let mut expected = BTreeSet::new();
        for (key, holds) in &self.judge.holds {
            let holds = holds.iter().filter(ends_with_connection);
            expected.extend(holds.map(|hold| (hold.client, key.clone(), hold.token.clone())));
        }
        let found = self.sides[self.lead].node.ephemeral.all().cloned();
        let found = found.map(|grant| (grant.client, grant.key, grant.token)).collect();
        prop_assert_eq!(expected, found, "other ephemeral grants");
        Ok(())
    }

    /// True if the first waiter could have the lock, or must no longer wait for it. A plain string that is over
    /// blocks it until `slack` microseconds later, or until a command finds it.
    fn first_is_due(&self, key: &KeyBuf, slack: Option<u64>) -> bool {
        let Some(first) = self.judge.queue(key).first() else { return false };
        match self.sides[self.lead].host.values.get(key) {
            Some(Value::Other) => true,
            Some(Value::Text { end, .. }) => {
                let over =
                    end.zip(slack).is_some_and(|(end, slack)| end.0 * 1000 + slack <= self.now);
                over && self.judge.compatible(key, first.mode)
            }
            _ => self.judge.compatible(key, first.mode),
        }
    }

    /// Checks that no work is left.
    pub fn check_done(&self) -> Verdict {
        prop_assert!(!self.sides[self.lead].node.has_pending(), "says it is done, and is not");
        for (key, queue) in &self.judge.queues {
            let away = queue.first().is_some_and(|first| first.away.is_some());
            let unread = away && self.looks_soon();
            prop_assert!(unread || !self.first_is_due(key, Some(1000)), "a lost wake-up");
        }
        for hold in self.judge.holds.values().flatten() {
            prop_assert!(hold.latest > self.now, "over, and still there: {hold:?}");
            prop_assert!(!self.judge.has_closed(hold), "nobody's: {hold:?}");
        }
        for wait in self.judge.queues.values().flatten() {
            prop_assert!(wait.until.is_none_or(|end| end + 1000 > self.now), "waits on: {wait:?}");
            let kept = |end| end + self.still + 2000 > self.heard;
            prop_assert!(wait.away.is_none_or(kept), "kept on: {wait:?}");
        }
        Ok(())
    }

    /// Checks that nothing is stored when everything is over.
    pub fn check_forgotten(&self) -> Verdict {
        prop_assert!(self.judge.holds.is_empty() && self.judge.queues.is_empty());
        for side in &self.sides {
            prop_assert!(side.host.values.is_empty(), "{:?}", side.host.values);
            let node = &side.node;
            prop_assert!(
                node.waiting.queues.is_empty() && node.waiting.stands.is_empty(),
                "{node:?}"
            );
            prop_assert!(node.waiting.ends.is_empty(), "{node:?}");
            prop_assert_eq!((node.waiting.places(), node.waiting.requests()), (0, 0));
            prop_assert_eq!(node.waiting.rechecks.keys().next(), None);
            prop_assert!(node.ephemeral.all().count() == 0, "{node:?}");
            prop_assert!(!node.has_pending(), "{node:?}");
        }
        Ok(())
    }

    /// The state that an error must not change.
    pub fn snapshot(&self) -> String {
        let Side { node, host } = &self.sides[self.lead];
        let Node { waiting, ephemeral, durable, .. } = node;
        let counter = &durable.counter;
        let Waiting { queues, stands, ends, .. } = waiting;
        // A plain string that is over may go with any access.
        let is_text = |value: &Value| matches!(value, Value::Text { .. });
        let values: Vec<_> = host.values.iter().filter(|(_, value)| !is_text(value)).collect();
        std::format!("{values:?} {queues:?} {stands:?} {ends:?} {ephemeral:?} {counter:?}")
    }

    /// True if nothing is due at the key, so that a command finds it as it was left.
    pub fn is_quiet(&self, key: &KeyBuf) -> bool {
        let over = self.judge.held(key).iter().any(|hold| hold.end <= self.now);
        let ends =
            |wait: &super::judge::Wait| wait.turn || wait.away.is_some_and(|end| end <= self.now);
        let ended = self.judge.queue(key).iter().any(ends);
        !over && !ended && !self.first_is_due(key, Some(0))
    }
}

type Held = (Option<Mode>, Vec<Holder>);

/// The content of each key where there is a lock, or should be one.
fn all_held(host: &MemoryHost, judge: &Judge) -> BTreeMap<KeyBuf, Held> {
    let keys = host.values.keys().chain(judge.holds.keys());
    keys.map(|key| (key.clone(), host.holders(key))).collect()
}

/// True if these are the same holders in the same order, with leases that never end early and, except on a
/// replica, not late.
fn same_holders(holds: &[Hold], mode: Option<Mode>, holders: &[Holder], replica: bool) -> Verdict {
    type Shown<'a> = (Box<[u8]>, u64, bool, Box<[u8]>);
    let shown = |hold: &Hold| -> Shown<'_> {
        (hold.token.clone(), hold.fence.0, hold.ephemeral, hold.meta.clone())
    };
    let stored = |holder: &Holder| -> Shown<'_> {
        let grant = holder.grant();
        (grant.token.into(), grant.fence.0, grant.ephemeral, grant.meta.into())
    };
    let expected: Vec<Shown<'_>> = holds.iter().map(shown).collect();
    let found: Vec<Shown<'_>> = holders.iter().map(stored).collect();
    prop_assert_eq!(expected, found, "other holders");
    for (hold, holder) in holds.iter().zip(holders) {
        prop_assert_eq!(Some(hold.mode), mode);
        let end = holder.grant().lease.end.0 * 1000;
        prop_assert!(end >= hold.end, "ends early: {holder:?}, not before {}", hold.end);
        prop_assert!(replica || end <= hold.latest, "ends late: {holder:?}, not {}", hold.latest);
    }
    Ok(())
}

/// The ways of clients to leave.
impl World {
    /// A blocked request leaves: by itself, or with its connection.
    pub fn leave(&mut self, id: WaiterId) {
        let Some(blocked) = self.blocked.remove(&id) else { return };
        self.judge.departs(id, self.now);
        self.judge.gone.insert(id);
        self.sides[blocked.side].node.gone(id, Instant(self.now));
    }

    pub fn close(&mut self, client: ClientId) {
        let ids: Vec<WaiterId> = self
            .blocked
            .iter()
            .filter(|(_, blocked)| blocked.client == client)
            .map(|(id, _)| *id)
            .collect();
        self.judge.closed.insert(client);
        for side in &mut self.sides {
            side.node.closed(client);
        }
        for id in ids {
            self.leave(id);
        }
        let fresh = self.connect();
        for slot in &mut self.clients {
            if *slot == client {
                *slot = fresh;
            }
        }
    }
}
