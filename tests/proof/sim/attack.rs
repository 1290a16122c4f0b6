//! A client that may lock a few keys, and proposes fences for them that are ahead of the clock: by seconds,
//! or as far as nodes accept. The attacker's keys share counters with other keys.
//!
//! All clocks are right, within two seconds; but some servers begin a day ahead, until an operator sets their
//! clocks, or they start again. Meanwhile the attacker is idle: a fence granted near such a clock stays, and
//! no other promise holds.

use dlock_core::Reason;
use dlock_core::command::acquire::Acquire;
use dlock_core::command::extend::Extend;
use dlock_core::command::release::Release;
use dlock_core::durability::slot::Slot;
use dlock_core::limits::{
    MAX_FENCE_AHEAD, MAX_FLOOR_AHEAD, MAX_KEYS_AHEAD, MAX_LEAD, MAX_SHARED_AHEAD,
};
use dlock_core::quorum::Rules;
use dlock_core::simulated::Report;
use dlock_core::{
    Acquired, ClientId, Effect, Fence, Grant, Host, Key, KeyBuf, Lease, Millis, Mode, Owner,
};

use super::clock::UNIX;
use super::flaw::Flaw;
use super::judge;
use super::server::Server;
use super::world::{Event, World};

/// The attacker's keys, and the restarts that its fences count.
#[derive(Debug)]
pub struct Attack {
    /// The attacker's keys: one with the counter of each of the others, and one more.
    pub keys: Vec<KeyBuf>,
    /// The number of times that a server has started again, or has taken over. The promise before that is a
    /// floor for all keys then, and the attacker may have driven it as far as it may propose.
    restarts: u64,
}

impl<R: Rules> World<R> {
    /// Adds the attacker, from the beginning.
    pub fn add_an_attack(&mut self) {
        if self.dice.chance(300) {
            self.add_replicas();
        }
        let World { dice, servers, processes, keys, pairs, nodes, .. } = self;
        for server in servers.iter_mut() {
            server.clock.set(dice, CLOCKS);
            // If a primary crashes before it has replicated fences, its replica's clock covers them. One node
            // alone may count from its own clock.
            if pairs.is_empty() && *nodes > 1 && dice.chance(200) {
                server.clock.lead(DAY);
            }
        }
        processes.iter_mut().for_each(|process| process.clock.set(dice, CLOCKS));
        let mut hers: Vec<KeyBuf> = keys.iter().map(beside).collect();
        hers.push(KeyBuf { db: 0, name: b"hers".as_slice().into() });
        let fills = self.flaw == Some(Flaw::RefusesNobody) || self.dice.chance(5);
        // The attacker is idle while the node's clock is ahead.
        self.servers[0].fills = fills && self.servers[0].time(0).unix < UNIX + DAY;
        self.attack = Some(Attack { keys: hers, restarts: 0 });
    }

    /// Lets the attacker take a step.
    pub(super) fn attack(&mut self) {
        let Some(attack) = self.attack.as_ref().filter(|_| !self.closed) else { return };
        let key = attack.keys[self.dice.below(attack.keys.len())].clone();
        let pause = self.dice.one_of(&[5_000, 50_000, 500_000]);
        let after = self.dice.between(1_000, pause);
        self.later(after, Event::Attack);
        let place = self.dice.below(self.servers.len());
        if self.dice.chance(20) {
            self.servers[place].clock.step(&mut self.dice);
        }
        let ahead = self.dice.one_of(&[
            SECOND,
            MAX_SHARED_AHEAD - SECOND,
            MAX_SHARED_AHEAD + 4 * SECOND,
            60 * SECOND,
            MAX_FENCE_AHEAD - 20 * SECOND,
            MAX_FENCE_AHEAD,
            MAX_FENCE_AHEAD + 10 * SECOND,
        ]);
        let ttl = Millis(self.dice.one_of(&[1, 50, 1_000]));
        let server = &self.servers[place];
        if server.time(self.now).unix > UNIX + DAY {
            return;
        }
        if !server.is_up || server.paused_until > self.now || !server.leads || server.host.refuses {
            return;
        }
        self.next += 1;
        let fence = Fence(UNIX + self.now + ahead);
        self.say(format!("node {place}: she proposes {fence:?} for {:?}", key.name));
        self.servers[place].propose(&key, self.next, (fence, ttl), self.now);
        self.servers[place].spoil(&self.keys, fence, self.now);
        self.settle(place);
    }

    /// A server has started again, or has taken over.
    pub(super) fn note_restart(&mut self) {
        self.attack.iter_mut().for_each(|attack| attack.restarts += 1);
    }

    /// True if a key is the attacker's.
    pub(super) fn is_hers(&self, event: &Report) -> bool {
        let attack = self.attack.as_ref();
        attack.zip(event.key()).is_some_and(|(attack, key)| attack.keys.contains(key))
    }

    /// Checks the fences that a server has granted to others.
    pub(super) fn check_near(&mut self, place: usize, log: &[Report]) {
        let Some(Attack { restarts, .. }) = self.attack else { return };
        let clocks = UNIX + self.now + self.now / 100 + CLOCKS;
        let floor = if restarts > 0 { MAX_LEAD + restarts * MAX_FLOOR_AHEAD } else { 0 };
        let most = clocks + MAX_SHARED_AHEAD + floor;
        for event in log {
            if let Report::Granted { key, holder, .. } = event
                && let fence = holder.grant().fence
                && fence.0 > most
            {
                let how = format!("node {place}: {fence:?} of {:?}, more than {most}", key.name);
                self.judge.accuse(judge::NEAR, how);
            }
        }
    }
}

impl Server {
    /// Asks in the attacker's name for one of its locks with this fence, or raises one that is held.
    fn propose(&mut self, key: &KeyBuf, number: u64, (fence, ttl): (Fence, Millis), now: u64) {
        let time = self.time(now);
        self.host.owner = HER;
        let (token, fence) = (&number.to_be_bytes(), Some(fence));
        let acquire = ask(token, ttl, fence);
        let (key, client) = (key.as_key(), ClientId(number));
        match self.node.acquire(&mut self.host, key, &acquire, client, time) {
            Ok(Acquired::Denied) => {
                let holder =
                    { self.host.grants().into_iter() }.find(|(held, ..)| held.as_key() == key);
                if let Some((_, _, holder)) = holder {
                    let extend = Extend { token: holder.grant().token, ttl, fence };
                    let _ = self.node.extend(&mut self.host, key, &extend, ClientId::UNKNOWN, time);
                }
            }
            Err(Reason::TooManyAhead { given, .. }) if self.flaw == Some(Flaw::RefusesNobody) => {
                let (lease, fence) = (Lease::begin(time.now, ttl), Fence(given));
                let grant = Grant { token, fence, lease, client, ephemeral: false, meta: b"" };
                self.host.put_one(key, grant);
                self.host.tell(key, Effect::Granted { mode: Mode::Exclusive, grant, waited: None });
            }
            _ => {}
        }
        self.host.owner = ANYBODY;
    }

    /// A flaw: the attacker's proposals move the fences of others.
    fn spoil(&mut self, others: &[KeyBuf], fence: Fence, now: u64) {
        let most = match self.flaw {
            Some(Flaw::SharesAll) => u64::MAX,
            Some(Flaw::SharesMore) => self.time(now).unix + 60 * SECOND,
            _ => return,
        };
        let to = fence.min(Fence(most));
        others.iter().for_each(|key| self.node.durable.led_elsewhere(key.as_key(), to));
    }

    /// The attacker has proposed such fences for as many keys as it may, or many attackers have.
    pub(super) fn fill(&mut self, now: u64) {
        let time = self.time(now);
        let far = Fence(UNIX + now + MAX_FENCE_AHEAD - 20 * SECOND);
        self.host.owner = HER;
        for n in 0..MAX_KEYS_AHEAD {
            let (token, name) = (&n.to_be_bytes(), n.to_be_bytes());
            let (key, ask) = (Key { db: 0, name: &name }, ask(token, Millis(1), Some(far)));
            if self.flaw == Some(Flaw::RefusesNobody) {
                self.node.durable.led_elsewhere(key, far);
                continue;
            }
            if self.node.acquire(&mut self.host, key, &ask, ClientId(n), time).is_err() {
                break;
            }
            let release = Release { token, is_final: false, done: None };
            let _ = self.node.release(&mut self.host, key, &release, time);
        }
        self.host.owner = ANYBODY;
        self.carry_on();
        self.log.clear();
        self.stream.sent.clear();
    }
}

fn ask(token: &[u8], ttl: Millis, fence: Option<Fence>) -> Acquire<'_> {
    let (wait, keep, turn, mode) = (None, None, false, Mode::Exclusive);
    Acquire { token, ttl, mode, wait, keep, turn, fence, again: None, ephemeral: false, meta: b"" }
}

/// Another key with the same counter.
fn beside(key: &KeyBuf) -> KeyBuf {
    let mut names = (0_u32..).map(|n| [b"hers".as_slice(), &n.to_be_bytes()].concat());
    let name = names.find(|name| Slot::of(name) == Slot::of(&key.name)).unwrap_or_default();
    KeyBuf { db: 0, name: name.into() }
}

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
/// The user of all other clients.
pub(super) const ANYBODY: Owner = Owner(1);
const HER: Owner = Owner(2);
/// The error of clocks, at most.
const CLOCKS: u64 = 2 * SECOND;
