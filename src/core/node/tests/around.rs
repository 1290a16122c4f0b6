//! Events around the commands: sweeps, clients that leave, keys replaced from outside,
//! and roles that change.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::judge::{Cause, Verdict};
use super::world::{Side, World};
use crate::simulated::Value;
use crate::words::{ClientId, Deadline, Fence, KeyBuf, WaiterId};

impl World {
    pub fn sweep(&mut self, budget: usize, may_write: bool) -> Verdict {
        self.sweep_for_more(budget, may_write).map(drop)
    }

    pub fn drain(&mut self, budget: usize) -> Verdict {
        for _ in 0..1000 {
            if !self.sweep_for_more(budget, true)? {
                return Ok(());
            }
        }
        prop_assert!(false, "it never ends");
        Ok(())
    }

    fn sweep_for_more(&mut self, budget: usize, may_write: bool) -> Result<bool, TestCaseError> {
        let time = self.time();
        let Side { node, host } = &mut self.sides[1 - self.lead];
        node.sweep(host, time, budget, true);
        prop_assert!(host.log.is_empty(), "a replica decides: {:?}", host.log);
        if self.is_paused || !may_write {
            self.still += self.now - self.turned;
        } else {
            self.heard = self.turned;
        }
        (self.turned, self.is_paused) = (self.now, !may_write);
        let Side { node, host } = self.leader();
        let more = node.sweep(host, time, budget, may_write);
        let log = self.settle(Cause::Sweep { may_write })?;
        prop_assert!(budget > 0 || log.is_empty());
        if may_write && !more {
            self.check_done()?;
        }
        Ok(more)
    }

    /// A granted request gets its reply.
    pub fn deliver(&mut self, nth: usize) -> Verdict {
        let granted: Vec<WaiterId> =
            self.blocked.iter().filter(|(_, b)| b.granted).map(|(id, _)| *id).collect();
        if let Some(id) = granted.get(nth % granted.len().max(1)) {
            self.blocked.remove(id);
        }
        self.settle(Cause::Quiet).map(drop)
    }

    /// A blocked request is ended by the server, without a closed connection.
    pub fn unblock(&mut self, nth: usize) -> Verdict {
        let id = self.blocked.keys().nth(nth % self.blocked.len().max(1)).copied();
        if let Some(id) = id
            && let Some(blocked) = self.blocked.remove(&id)
        {
            self.judge.departs(id, self.now);
            self.sides[blocked.side].node.gone(id, self.time().now);
        }
        self.settle(Cause::Quiet).map(drop)
    }

    /// DEL, or SET over any content.
    pub fn replace(&mut self, key: &KeyBuf, text: Option<(&[u8], Option<Deadline>)>) -> Verdict {
        let time = self.time();
        for side in &mut self.sides {
            let Side { node, host } = side;
            let (_, holders) = host.holders(key);
            let taken = host.take(key);
            if let Some((value, end)) = text {
                host.set(key, Value::Text { value: value.into(), end });
            }
            match taken {
                Some(Value::One(_) | Value::Many(_)) => {
                    for holder in &holders {
                        let grant = holder.grant();
                        node.lost(key.as_key(), grant.token, grant.client);
                    }
                    let top = holders.iter().map(|holder| holder.grant().fence).max();
                    node.removed(host, key.as_key(), top.unwrap_or(Fence(0)), time.now);
                }
                _ => node.maybe_free(key.as_key()),
            }
            assert_eq!(host.now, time.now);
        }
        self.judge.holds.remove(key);
        self.settle(Cause::Removal).map(drop)
    }

    /// The primary evicts a lock, and tells its replica that the key is gone.
    pub fn evict(&mut self, key: &KeyBuf) -> Verdict {
        let time = self.time();
        let holders = self.leader().host.holders(key).1;
        let grants = holders.iter().map(|holder| holder.grant());
        let Some(end) = grants.clone().map(|grant| grant.lease.end).max() else { return Ok(()) };
        let top = grants.clone().map(|grant| grant.fence).max().unwrap_or(Fence(0));
        for (at, Side { node, host }) in self.sides.iter_mut().enumerate() {
            host.take(key);
            for grant in grants.clone() {
                node.lost(key.as_key(), grant.token, grant.client);
            }
            match at == self.lead {
                true => node.evict(key.as_key(), end, top),
                false => node.removed(host, key.as_key(), top, time.now),
            }
        }
        self.judge.holds.remove(key);
        let shut = self.judge.shut.entry(key.name.clone()).or_default();
        *shut = (end.0 * 1000).max(*shut);
        self.settle(Cause::Quiet).map(drop)
    }

    /// Other data at a free key.
    pub fn put_other(&mut self, key: &KeyBuf) -> Verdict {
        for Side { node, host } in &mut self.sides {
            host.set(key, Value::Other);
            node.maybe_free(key.as_key());
        }
        self.settle(Cause::Removal).map(drop)
    }

    pub fn flush(&mut self, db: Option<u32>) -> Verdict {
        let goes = |key: &KeyBuf| db.is_none_or(|db| db == key.db);
        let now = self.time().now;
        for Side { node, host } in &mut self.sides {
            let keys: Vec<KeyBuf> = host.values.keys().filter(|key| goes(key)).cloned().collect();
            for key in &keys {
                host.take(key);
            }
            node.flushed(host, db, now);
        }
        self.judge.holds.retain(|key, _| !goes(key));
        if db.is_none() {
            (self.judge.shut, self.shut_there) = (BTreeMap::new(), BTreeMap::new());
        }
        self.settle(Cause::Removal)?;
        prop_assert!(self.judge.queues.keys().all(|key| !goes(key)), "not told of the flush");
        Ok(())
    }

    /// The primary becomes a replica, without a primary, and then a primary again.
    pub fn flap(&mut self) -> Verdict {
        self.demote()?;
        let time = self.time();
        self.leader().node.lead(time);
        self.settle(Cause::Quiet).map(drop)
    }

    /// Primary and replica change places.
    pub fn fail_over(&mut self) -> Verdict {
        self.demote()?;
        self.lead = 1 - self.lead;
        // There is no quarantine here.
        core::mem::swap(&mut self.judge.shut, &mut self.shut_there);
        // The other node's iterations are not its own: it has read no request yet.
        (self.heard, self.is_paused) = (0, true);
        let time = self.time();
        self.leader().node.lead(time);
        let host = &self.sides[self.lead].host;
        for (key, holds) in &mut self.judge.holds {
            for (hold, holder) in holds.iter_mut().zip(host.holders(key).1) {
                let lease = holder.grant().lease;
                // The lease has its full length again: it ends late, and never early.
                hold.latest = lease.end.0 * 1000;
                hold.since = lease.since.0;
                hold.client = ClientId::UNKNOWN;
                hold.away = holder.grant().client == ClientId::AWAY;
            }
        }
        self.settle(Cause::Quiet).map(drop)
    }

    fn demote(&mut self) -> Verdict {
        let now = self.time().now;
        let Side { node, host } = self.leader();
        node.follow(host, now);
        for hold in self.judge.holds.values_mut().flatten() {
            hold.bound = false;
        }
        self.settle(Cause::Follow)?;
        prop_assert!(self.judge.queues.is_empty(), "not told of the new role");
        Ok(())
    }

    /// All clients leave, time passes, and both nodes have led: nothing may be left.
    pub fn finish(&mut self) -> Verdict {
        self.drain(2)?;
        let mut clients = self.clients.clone();
        clients.extend(self.blocked.values().map(|blocked| blocked.client));
        for client in clients {
            self.close(client);
        }
        self.flush_strings()?;
        for _ in 0..2 {
            self.pass(10_000_000);
            self.drain(3)?;
            self.fail_over()?;
        }
        self.check_forgotten()
    }

    fn flush_strings(&mut self) -> Verdict {
        let strings = self.sides.iter().flat_map(|side| &side.host.values);
        let strings = strings.filter(|(_, v)| matches!(v, Value::Text { .. } | Value::Other));
        let keys: Vec<KeyBuf> = strings.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.replace(&key, None)?;
        }
        Ok(())
    }
}
