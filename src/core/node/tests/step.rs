//! The events of a server, one at a time, and the expected outcome of each.

use alloc::boxed::Box;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::judge::{Cause, Verdict};
use super::world::{Blocked, Side, World};
use crate::command::acquire::Acquire;
use crate::command::extend::Extend;
use crate::command::release::Release;
use crate::node::Acquired;
use crate::node::host::Ending;
use crate::reason::Reason;
use crate::simulated::{Report, Value};
use crate::words::{ClientId, Deadline, Fence, Instant, KeyBuf, Millis, Mode, WaiterId};

#[derive(Clone, Debug)]
pub enum Step {
    Acquire { slot: usize, key: usize, ask: Ask },
    Release { key: usize, token: usize },
    Extend { key: usize, token: usize, ttl: u64, fence: Option<Proposal> },
    Check { key: usize, token: usize },
    Break { key: usize, token: Option<usize> },
    Pass { micros: u64 },
    WallClock { unix: u64 },
    Sweep { budget: usize, may_write: bool },
    Drain { budget: usize },
    Deliver { nth: usize },
    Unblock { nth: usize },
    Disconnect { slot: usize },
    DisconnectBlocked { nth: usize },
    Remove { key: usize },
    Evict { key: usize },
    SetText { key: usize, token: usize, ttl: Option<u64> },
    SetOther { key: usize },
    Flush { db: Option<u32> },
    Flap,
    Failover,
}

#[derive(Clone, Debug)]
pub struct Ask {
    pub token: usize,
    pub ttl: u64,
    pub mode: Mode,
    pub wait: Option<u64>,
    pub keep: Option<u64>,
    pub turn: bool,
    pub fence: Option<Proposal>,
    pub ephemeral: bool,
    pub from: From,
}

/// The source of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Connection,
    Transaction,
    Script,
}

/// A fence, seen from the node's counter.
#[derive(Clone, Copy, Debug)]
pub enum Proposal {
    Near(i64),
    /// An offset from the largest that is accepted.
    Far(i64),
}

const KEYS: [(u32, &[u8]); 3] = [(0, b"one"), (0, b"two"), (1, b"one")];
const TOKENS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

fn key(nth: usize) -> KeyBuf {
    let (db, name) = KEYS[nth % KEYS.len()];
    KeyBuf { db, name: name.into() }
}

fn token(nth: usize) -> &'static [u8] {
    TOKENS[nth % TOKENS.len()]
}

impl World {
    pub fn step(&mut self, step: &Step) -> Verdict {
        match *step {
            Step::Acquire { slot, key: at, ref ask } => self.acquire(slot, &key(at), ask),
            Step::Release { key: at, token: by } => self.release(&key(at), token(by)),
            Step::Extend { key: at, token: by, ttl, fence } => {
                let fence = fence.map(|fence| self.proposal(fence));
                self.extend(&key(at), &Extend { token: token(by), ttl: Millis(ttl), fence })
            }
            Step::Check { key: at, token: by } => self.look(&key(at), token(by)),
            Step::Break { key: at, token: by } => self.break_lock(&key(at), by.map(token)),
            Step::Pass { micros } => {
                self.pass(micros);
                Ok(())
            }
            Step::WallClock { unix } => {
                self.unix = unix;
                self.look_at_clock();
                Ok(())
            }
            Step::Sweep { budget, may_write } => self.sweep(budget, may_write),
            Step::Drain { budget } => self.drain(budget),
            Step::Deliver { nth } => self.deliver(nth),
            Step::Unblock { nth } => self.unblock(nth),
            Step::Disconnect { slot } => {
                let client = self.clients[slot % self.clients.len()];
                self.close(client);
                self.settle(Cause::Quiet).map(drop)
            }
            Step::DisconnectBlocked { nth } => {
                let blocked = self.blocked.values().nth(nth % self.blocked.len().max(1)).copied();
                if let Some(blocked) = blocked {
                    self.close(blocked.client);
                }
                self.settle(Cause::Quiet).map(drop)
            }
            Step::Remove { key: at } => self.replace(&key(at), None),
            Step::Evict { key: at } => self.evict(&key(at)),
            Step::SetText { key: at, token: by, ttl } => {
                let end = ttl.map(|ttl| Deadline::after(Instant(self.now), Millis(ttl)));
                self.replace(&key(at), Some((token(by), end)))
            }
            Step::SetOther { key: at } => {
                self.replace(&key(at), None)?;
                self.put_other(&key(at))
            }
            Step::Flush { db } => self.flush(db),
            Step::Flap => self.flap(),
            Step::Failover => self.fail_over(),
        }
    }

    fn proposal(&self, proposal: Proposal) -> Fence {
        let node = &self.sides[self.lead].node;
        let (base, delta) = match proposal {
            Proposal::Near(delta) => (node.durable.counter.last().0, delta),
            Proposal::Far(delta) => (node.durable.counter.farthest().0, delta),
        };
        Fence(base.saturating_add_signed(delta).max(1))
    }

    fn too_far(&self, fence: Option<Fence>) -> bool {
        let farthest = self.sides[self.lead].node.durable.counter.farthest();
        fence.is_some_and(|fence| fence > farthest)
    }

    fn has_other_data(&self, key: &KeyBuf) -> bool {
        matches!(self.sides[self.lead].host.values.get(key), Some(Value::Other))
    }

    fn acquire(&mut self, slot: usize, key: &KeyBuf, asked: &Ask) -> Verdict {
        let script = asked.from == From::Script;
        let client = if script { ClientId::UNKNOWN } else { self.client(slot) };
        let ask = Acquire {
            token: token(asked.token),
            ttl: Millis(asked.ttl),
            mode: asked.mode,
            wait: asked.wait.map(Millis),
            keep: asked.keep.map(|keep| Millis(keep.max(asked.ttl))),
            turn: asked.turn && asked.keep.is_some(),
            fence: asked.fence.map(|fence| self.proposal(fence)),
            again: None,
            ephemeral: asked.ephemeral && !script,
            meta: if asked.ttl.is_multiple_of(2) { b"even" } else { b"" },
        };
        let blocks = asked.from == From::Connection;
        let too_far = self.too_far(ask.fence);
        let there = self.judge.queue(key).iter().any(|wait| *wait.token == *ask.token);
        let leaves_a_trace = ask.keep.is_some() || there;
        let (before, quiet) = (self.snapshot(), self.is_quiet(key));
        let time = self.time();
        let Side { node, host } = self.leader();
        host.blocks = blocks;
        let result = node.acquire(host, key.as_key(), &ask, client, time);
        let over = |wait: &super::judge::Wait| wait.away.is_some_and(|end| end <= self.now);
        let had_ended = self.judge.queue(key).iter().any(|w| *w.token == *ask.token && over(w));
        let Side { node, .. } = &self.sides[self.lead];
        let polled = WaiterId(node.waiting.next_id.wrapping_sub(1));
        let log = self.sides[self.lead].host.log.clone();
        let now = self.now;
        self.judge.told_first(key, ask.token, &log, now);
        if result == Ok(Acquired::Denied) {
            self.forget_places(Cause::Acquire(key, &ask));
            let now = self.now;
            self.judge.polls(key, polled, &ask, now);
        }
        if let Ok(Acquired::Granted(_)) = result {
            self.judge.replaces(key, ask.token, &log);
        }
        if let Ok(Acquired::Waiting(id)) = result {
            let blocked = Blocked { client, side: self.lead, granted: false };
            prop_assert!(self.blocked.insert(id, blocked).is_none(), "the same waiter twice");
            prop_assert!(ask.wait.is_some() && blocks, "waits, and was not asked to");
            let now = self.now;
            self.judge.waits(key, id, &ask, client, now);
        }
        if had_ended {
            self.settle_position(key, ask.token);
        }
        let log = self.settle(Cause::Acquire(key, &ask))?;
        let denied = result == Ok(Acquired::Denied) && !leaves_a_trace;
        if quiet && (result.is_err() || denied) {
            prop_assert_eq!(before, self.snapshot(), "{:?} left a trace", result);
            prop_assert!(log.is_empty(), "{result:?} left a trace: {log:?}");
        }
        prop_assert_eq!(too_far, matches!(result, Err(Reason::TooFar { .. })));
        self.check_acquired(key, &ask, client, result)
            .map_err(|error| TestCaseError::fail(std::format!("{ask:?}: {result:?}: {error}")))
    }

    fn check_acquired(
        &self,
        key: &KeyBuf,
        ask: &Acquire<'_>,
        client: ClientId,
        result: Result<Acquired, Reason>,
    ) -> Verdict {
        let hold = self.judge.hold(key, ask.token);
        let queue = self.judge.queue(key);
        let there = queue.iter().find(|wait| *wait.token == *ask.token);
        match result {
            Ok(Acquired::Granted(fence)) => {
                let away = ask.turn && hold.is_some_and(|hold| hold.away);
                let client = if away { ClientId::AWAY } else { client };
                prop_assert!(hold.is_some_and(|hold| hold.mode.is_like(ask.mode)));
                let hold = hold.map(|hold| (hold.fence, hold.client));
                prop_assert_eq!(hold, Some((fence, client)));
                prop_assert!(there.is_none(), "holds and waits");
                return Ok(());
            }
            Ok(Acquired::Waiting(id)) if self.blocked.get(&id).is_some_and(|it| it.granted) => {}
            Ok(_) if hold.is_some() => {
                return Err(TestCaseError::fail("holds, and is not told"));
            }
            Ok(_) => prop_assert!(!self.has_other_data(key), "not refused"),
            Err(Reason::TooFar { .. }) => {}
            Err(Reason::WrongType) => prop_assert!(self.has_other_data(key)),
            Err(Reason::OtherMode { held, asked }) => {
                prop_assert_eq!((hold.map(|h| h.mode), ask.mode), (Some(held), asked));
                prop_assert!(!held.is_like(asked));
            }
            Err(other) => return Err(TestCaseError::fail(std::format!("{other:?}"))),
        }
        if result == Ok(Acquired::Denied) {
            let foreign = self.sides[self.lead].host.has_foreign(key);
            let free = queue.is_empty() && !foreign && self.judge.compatible(key, ask.mode);
            prop_assert!(!free, "denied what is free");
            let blocks = self.sides[self.lead].host.blocks;
            prop_assert!(ask.wait.is_none() || !blocks, "does not wait");
        }
        Ok(())
    }

    /// True if the token certainly holds, false if it certainly does not, `None` within the last fraction of a
    /// millisecond.
    fn holds(&self, key: &KeyBuf, token: &[u8]) -> Option<bool> {
        match self.judge.hold(key, token) {
            Some(hold) if self.now < hold.end => Some(true),
            Some(hold) if self.now < hold.latest => None,
            _ => Some(false),
        }
    }

    /// The same, and false once the connection has closed that the grant ends with.
    fn keeps(&self, key: &KeyBuf, token: &[u8]) -> Option<bool> {
        let has_closed =
            self.judge.hold(key, token).is_some_and(|hold| self.judge.has_closed(hold));
        if has_closed { Some(false) } else { self.holds(key, token) }
    }

    fn release(&mut self, key: &KeyBuf, token: &[u8]) -> Verdict {
        let held = self.holds(key, token);
        let (before, quiet) = (self.snapshot(), self.is_quiet(key));
        let time = self.time();
        let Side { node, host } = self.leader();
        let result =
            node.release(host, key.as_key(), &Release { token, is_final: false, done: None }, time);
        let log = self.settle(Cause::Release(key, token))?;
        let Ok(released) = result else {
            prop_assert!(self.has_other_data(key) && (!quiet || before == self.snapshot()));
            return Ok(());
        };
        prop_assert!(!self.has_other_data(key));
        let ended = |event: &Report| match event {
            Report::Ended { token: ended, why, .. } => {
                **ended == *token && *why == Ending::Released
            }
            _ => false,
        };
        prop_assert_eq!(log.iter().filter(|event| ended(event)).count(), usize::from(released));
        prop_assert!(held.is_none_or(|held| released == held), "{:?} {}", held, released);
        let waits = self.judge.queue(key).iter().any(|wait| *wait.token == *token);
        prop_assert!(released || !waits, "released, and waits on");
        Ok(())
    }

    fn extend(&mut self, key: &KeyBuf, ask: &Extend<'_>) -> Verdict {
        let too_far = self.too_far(ask.fence);
        let (before, quiet) = (self.snapshot(), self.is_quiet(key));
        let held = self.keeps(key, ask.token);
        let fence = self.judge.hold(key, ask.token).map(|hold| hold.fence);
        let time = self.time();
        let Side { node, host } = self.leader();
        let result = node.extend(host, key.as_key(), ask, super::bench::OTHER, time);
        let log = self.settle(Cause::Extend(key, ask))?;
        // Only a larger fence than the grant's is a proposal.
        let refused = matches!(result, Err(Reason::TooFar { .. }));
        prop_assert!(too_far || !refused);
        if let Some(held) = held.filter(|_| quiet) {
            prop_assert_eq!(refused, too_far && held && fence < ask.fence);
        }
        if quiet && !matches!(result, Ok(true)) {
            prop_assert_eq!(before, self.snapshot(), "{:?} left a trace", result);
            prop_assert!(log.is_empty(), "{result:?} left a trace: {log:?}");
        }
        let Ok(extended) = result else {
            prop_assert!(too_far || self.has_other_data(key));
            return Ok(());
        };
        let told = |event: &&Report| matches!(event, Report::Renewed { .. });
        prop_assert_eq!(log.iter().filter(told).count(), usize::from(extended));
        let allowed = ask.fence.is_none_or(|ask| fence.is_none_or(|fence| fence <= ask));
        if let Some(held) = held.filter(|_| quiet) {
            prop_assert_eq!(extended, held && allowed);
        }
        if let Some(fence) = ask.fence.filter(|_| extended) {
            prop_assert_eq!(self.judge.hold(key, ask.token).map(|hold| hold.fence), Some(fence));
        }
        Ok(())
    }

    /// CHECK, on the primary and on the replica.
    fn look(&mut self, key: &KeyBuf, token: &[u8]) -> Verdict {
        let time = self.time();
        let held = self.keeps(key, token);
        let fence = self.judge.hold(key, token).map(|hold| hold.fence);
        let other = self.has_other_data(key);
        let before = self.snapshot();
        for (side, Side { node, host }) in self.sides.iter_mut().enumerate() {
            let result = node.check(host, key.as_key(), token, time);
            if other {
                prop_assert_eq!(result, Err(Reason::WrongType));
                continue;
            }
            match (held, result) {
                (Some(true), Ok(found)) => prop_assert_eq!(found, fence),
                (Some(false), Ok(found)) if side == self.lead => prop_assert_eq!(found, None),
                (_, Ok(found)) => prop_assert!(found.is_none() || found == fence),
                (_, Err(error)) => return Err(TestCaseError::fail(std::format!("{error:?}"))),
            }
        }
        prop_assert_eq!(before, self.snapshot(), "left a trace");
        self.settle(Cause::Quiet).map(drop)
    }

    fn break_lock(&mut self, key: &KeyBuf, token: Option<&[u8]>) -> Verdict {
        let certain = |hold: &&super::judge::Hold| token.is_none_or(|token| *hold.token == *token);
        let holds: Vec<_> = self.judge.held(key).iter().filter(certain).collect();
        let tokens: Vec<Box<[u8]>> = holds.iter().map(|hold| hold.token.clone()).collect();
        let least = holds.iter().filter(|hold| self.now < hold.end).count();
        let mut there = self.judge.queue(key).iter();
        let place = there.any(|wait| wait.away.is_some() && token == Some(&*wait.token));
        let time = self.time();
        let Side { node, host } = self.leader();
        let result = node.break_lock(host, key.as_key(), token, time);
        let log = self.settle(Cause::Break(key, token))?;
        let broken = |event: &Report| matches!(event, Report::Ended { why: Ending::Broken, .. });
        let Ok(count) = result else {
            prop_assert!(self.has_other_data(key) && log.is_empty());
            return Ok(());
        };
        let count = count - usize::from(place);
        prop_assert_eq!(log.iter().filter(|event| broken(event)).count(), count);
        prop_assert!((least..=tokens.len()).contains(&count));
        for event in &log {
            if let Report::Ended { token, why: Ending::Broken, .. } = event {
                prop_assert!(tokens.contains(token), "broke another");
            }
        }
        Ok(())
    }
}
