//! Queues and places, as the judge models them, and their comparison with the node's.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::judge::{Cause, Hold, Judge, MOST_PLACES, Verdict, Wait};
use super::world::{Side, World};
use crate::command::acquire::Acquire;
use crate::node::host::WaitOutcome;
use crate::simulated::{MemoryHost, Report, Value};
use crate::words::{ClientId, Instant, Key, KeyBuf, Mode, WaiterId};

impl Judge {
    /// A request waits from now on.
    pub fn waits(
        &mut self,
        key: &KeyBuf,
        id: WaiterId,
        ask: &Acquire<'_>,
        client: ClientId,
        now: u64,
    ) {
        let wait = Wait {
            id,
            token: ask.token.into(),
            mode: ask.mode,
            ttl: ask.ttl.0,
            proposal: ask.fence,
            client,
            since: now,
            until: ask.wait.filter(|wait| wait.0 > 0).map(|wait| now + wait.0 * 1000),
            keep: ask.keep.map(|keep| keep.0),
            turn: ask.turn,
            away: None,
        };
        let queue = self.queues.entry(key.clone()).or_default();
        match queue.iter_mut().find(|old| old.token == wait.token) {
            Some(old) => {
                if old.away.is_none() {
                    self.replaced.insert(old.id);
                }
                *old = Wait { since: old.since, ..wait };
            }
            None => queue.push(wait),
        }
    }

    /// A request ends without the lock: its place is kept, if it has KEEP and there is room.
    pub fn departs(&mut self, id: WaiterId, now: u64) {
        let kept = |wait: &&Wait| wait.away.is_some() && !self.served.contains(&wait.id);
        let places = self.queues.values().flatten().filter(kept).count();
        let mut waits = self.queues.values_mut().flatten();
        let Some(wait) = waits.find(|wait| wait.id == id && wait.away.is_none()) else { return };
        match wait.keep {
            Some(keep) if places < MOST_PLACES => {
                (wait.away, wait.until) = (Some(now + keep * 1000), None);
                wait.turn = false;
            }
            _ => drop(self.leaves(id)),
        }
    }

    /// A request that did not wait was denied: the effect on its token's place.
    pub fn polls(&mut self, key: &KeyBuf, id: WaiterId, ask: &Acquire<'_>, now: u64) {
        let queue = self.queues.get_mut(key);
        let there = queue.and_then(|queue| queue.iter_mut().find(|old| *old.token == *ask.token));
        match there {
            None if ask.keep.is_none() => {}
            _ => {
                self.waits(key, id, &Acquire { wait: None, ..*ask }, ClientId::UNKNOWN, now);
                self.departs(id, now);
            }
        }
    }

    /// Its token asks again, perhaps in another mode. Before that counts, waiters get turns by
    /// its old request.
    pub fn told_first(&mut self, key: &KeyBuf, token: &[u8], log: &[Report], now: u64) {
        let there = self.queue(key).iter().find(|wait| *wait.token == *token);
        let Some(asker) = there.map(|wait| wait.id) else { return };
        let replaced = |event: &Report| matches!(event, Report::Answered(of, WaitOutcome::Replaced) if *of == asker);
        let first = log.iter().position(replaced).unwrap_or(log.len());
        for (at, event) in log.iter().enumerate() {
            let Report::Answered(id, WaitOutcome::Turn(_)) = event else { continue };
            let granted = |event: &Report, wait: &Wait| matches!(event, Report::Granted { holder, .. } if *holder.grant().token == *wait.token);
            let served = |wait: &Wait| log[..at].iter().any(|event| granted(event, wait));
            if *id == asker || at < first && self.is_in_line(key, *id, served) {
                self.departs(*id, now);
                self.told.insert(*id);
            }
        }
    }

    /// Its token asks again, and gets the lock at once.
    pub fn replaces(&mut self, key: &KeyBuf, token: &[u8], log: &[Report]) {
        let waits = self.queues.get_mut(key).and_then(|queue| {
            queue.iter_mut().find(|wait| *wait.token == *token && wait.away.is_none())
        });
        if let Some(wait) = waits
            && log.contains(&Report::Answered(wait.id, WaitOutcome::Replaced))
        {
            self.replaced.insert(wait.id);
            (wait.away, wait.until) = (Some(u64::MAX), None);
        }
    }

    /// Moves a place that had ended, and has come anew, to the end.
    pub fn move_to_end(&mut self, key: &KeyBuf, token: &[u8], since: u64) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if let Some(at) = queue.iter().position(|wait| *wait.token == *token) {
            let wait = queue.remove(at);
            queue.push(Wait { since, ..wait });
        }
    }

    /// True if a place may be gone without a report.
    pub fn may_be_gone(
        &self,
        key: &KeyBuf,
        wait: &Wait,
        cause: Cause<'_>,
        host: &MemoryHost,
    ) -> bool {
        let over = wait.away.is_some_and(|end| end <= self.now);
        let other_data = matches!(host.values.get(key), Some(Value::Other));
        let asked = match cause {
            Cause::Release(at, by) => at == key && *by == *wait.token,
            Cause::Break(at, by) => at == key && by == Some(&*wait.token),
            Cause::Removal | Cause::Follow => true,
            _ => false,
        };
        wait.away.is_some() && (over || other_data || asked)
    }

    /// Drops the places that the node keeps no longer, if that is right.
    pub fn forget_places(
        &mut self,
        stands: impl Fn(&KeyBuf, &[u8]) -> bool,
        cause: Cause<'_>,
        host: &MemoryHost,
        now: u64,
    ) {
        self.now = now;
        let waits = |(key, queue): (&KeyBuf, &Vec<Wait>)| {
            queue.iter().map(|wait| (key.clone(), wait.clone())).collect::<Vec<_>>()
        };
        let all: Vec<(KeyBuf, Wait)> = self.queues.iter().flat_map(waits).collect();
        for (key, wait) in all {
            let served = host.log.iter().any(|event| match event {
                Report::Granted { key: at, holder, .. } => {
                    *at == key && *holder.grant().token == *wait.token
                }
                _ => false,
            });
            if served {
                self.served.insert(wait.id);
            } else if !stands(&key, &wait.token) && self.may_be_gone(&key, &wait, cause, host) {
                self.leaves(wait.id);
            }
        }
    }

    /// The first in the queue leaves it. Places before it may have ended.
    pub fn take_first(
        &mut self,
        key: &KeyBuf,
        token: &[u8],
        cause: Cause<'_>,
        host: &MemoryHost,
    ) -> Option<Wait> {
        loop {
            let first = self.queue(key).first()?.clone();
            self.leaves(first.id);
            if *first.token == *token || !self.may_be_gone(key, &first, cause, host) {
                return Some(first);
            }
        }
    }

    /// Checks the grant of a waiter: by its request, or by the one that it makes now.
    pub fn check_turn(&mut self, first: &Wait, hold: &Hold, ask: Option<&Acquire<'_>>) -> Verdict {
        let ttl = (hold.end - self.now) / 1000;
        match (first.away, ask) {
            (None, _) => {
                let client = if first.turn { ClientId::AWAY } else { first.client };
                prop_assert_eq!((first.mode, client), (hold.mode, hold.client));
                prop_assert_eq!(first.ttl, ttl);
                prop_assert!(first.proposal <= Some(hold.fence), "below its proposal");
                self.granted.insert(first.id, hold.fence);
            }
            (Some(_), Some(ask)) if !hold.away => {
                prop_assert_eq!((ask.mode, ask.ttl.0), (hold.mode, ttl));
                prop_assert!(ask.fence <= Some(hold.fence), "below its proposal");
            }
            // By the request with TURN that it makes now.
            (Some(_), Some(Acquire { turn: true, mode, ttl: asked, fence, .. }))
                if (*mode, asked.0) == (hold.mode, ttl) && *fence <= Some(hold.fence) => {}
            (Some(_), _) => {
                prop_assert_eq!((first.mode, ClientId::AWAY), (hold.mode, hold.client));
                prop_assert!(!hold.ephemeral, "ends with a connection that need not be there");
                prop_assert_eq!(first.ttl, ttl);
                prop_assert!(first.proposal <= Some(hold.fence), "below its proposal");
            }
        }
        Ok(())
    }

    /// True if it would be granted without the present holders and the places that may be gone; and no absent
    /// token holds the lock.
    pub fn is_in_line(&self, key: &KeyBuf, id: WaiterId, gone: impl Fn(&Wait) -> bool) -> bool {
        let waits = |wait: &&Wait| wait.id == id || !gone(wait);
        let queue: Vec<&Wait> = self.queue(key).iter().filter(waits).collect();
        let Some(at) = queue.iter().position(|wait| wait.id == id) else { return false };
        let mode = queue[at].mode;
        let room = match mode {
            Mode::Exclusive => 1,
            Mode::Shared => usize::MAX,
            Mode::Limit(n) => usize::from(n),
        };
        let absent = self.held(key).iter().any(|hold| hold.away && hold.mode == Mode::Exclusive);
        at < room && queue[..at].iter().all(|wait| wait.mode == mode) && !absent
    }
}

impl World {
    /// Drops the judge's places that have ended or were dropped. Returns the node's.
    pub fn forget_places(&mut self, cause: Cause<'_>) -> BTreeMap<KeyBuf, Vec<WaiterId>> {
        let Side { node, host } = &self.sides[self.lead];
        let mut found = BTreeMap::new();
        for (db, names) in &node.waiting.queues {
            for (name, queue) in names {
                let ids: Vec<WaiterId> = queue.iter().map(|waiter| waiter.id).collect();
                found.insert(Key { db: *db, name }.to_owned(), ids);
            }
        }
        let stands = |key: &KeyBuf, token: &[u8]| {
            node.waiting.queue(key.as_key()).is_some_and(|queue| queue.get(token).is_some())
        };
        self.judge.forget_places(stands, cause, host, self.now);
        found
    }

    /// A place that may have ended is where the node has it: unmoved, or at the end.
    pub fn settle_position(&mut self, key: &KeyBuf, token: &[u8]) {
        let queue = self.sides[self.lead].node.waiting.queue(key.as_key());
        let last = queue.and_then(|queue| queue.iter().last());
        if let Some(last) = last.filter(|last| *last.token == *token) {
            self.judge.move_to_end(key, token, last.since.0);
        }
    }

    pub fn check_queues(&mut self, cause: Cause<'_>) -> Verdict {
        let found = self.forget_places(cause);
        let Side { node, .. } = &self.sides[self.lead];
        let waits = |(key, queue): (&KeyBuf, &Vec<Wait>)| {
            (key.clone(), queue.iter().map(|wait| wait.id).collect::<Vec<_>>())
        };
        let expected: BTreeMap<KeyBuf, Vec<WaiterId>> =
            self.judge.queues.iter().map(waits).collect();
        prop_assert_eq!(&expected, &found, "other queues");
        let mut checked = node.waiting.rechecks.keys();
        prop_assert!(checked.all(|key| found.contains_key(key)), "checks a lock without waiters");
        let ids = expected.values().flatten();
        prop_assert!(node.waiting.stands.keys().eq(ids.clone().collect::<BTreeSet<_>>()));
        let all = self.judge.queues.values().flatten();
        let (away, present): (Vec<_>, Vec<_>) = all.partition(|wait| wait.away.is_some());
        let waits = |id| self.blocked.get(id).is_some_and(|blocked| !blocked.granted);
        prop_assert!(present.iter().all(|wait| waits(&wait.id)));
        let timed = present.iter().filter(|wait| wait.until.is_some()).count();
        prop_assert_eq!((node.waiting.ends.len(), node.waiting.places()), (timed, away.len()));
        prop_assert!(away.len() <= MOST_PLACES, "more than a share");
        // Each waiter that can be told of its turn has been, or is going to be at once.
        let put_off = node.has_pending() || self.looks_soon() || away.len() == MOST_PLACES;
        for (key, queue) in &self.judge.queues {
            let free = node.waiting.places.end_next(Instant(self.now)) || self.is_paused;
            let told = |wait: &&Wait| wait.turn && wait.away.is_none();
            let mut wait = queue.iter().filter(told);
            let untold = wait.any(|wait| self.judge.is_in_line(key, wait.id, |_| false));
            let wants = |id: WaiterId| {
                let seat = node.waiting.stands.get(&id)?;
                Some(node.waiting.queue(seat.key())?.get(&seat.token)?.asks.wants_turn)
            };
            let gave_up = queue.iter().any(|wait| wait.turn && wants(wait.id) == Some(false));
            prop_assert!(!untold || put_off || free || gave_up, "not told of its turn");
        }
        Ok(())
    }

    /// True if the node checks some lock at once.
    pub fn looks_soon(&self) -> bool {
        let soon = Instant(self.now + 2000);
        self.sides[self.lead].node.waiting.rechecks.first().is_some_and(|end| end.is_over(soon))
    }
}
