//! The server around a node: its keyspace, its state file, and a list of what the node told.

use std::collections::BTreeMap;

use dlock_core::command::apply::{write_end, write_grant, write_removal};
use dlock_core::{
    Answers, Crowd, Deadline, Effect, Ended, Fence, Found, Grant, Holder, Holders, Host, Instant,
    Key, KeyBuf, Lease, LeaseBound, Millis, Mode, Owner, Promise, Renewal, Serves, WaitOutcome,
    WaiterId,
};

/// A lock in the keyspace.
#[derive(Clone, Debug)]
pub enum Value {
    /// Exclusive.
    One(Holder),
    /// Shared.
    Many(Crowd),
}

/// What a node told.
#[derive(Clone, Debug)]
pub enum Told {
    /// A token holds, until then by the node's clock; with this fence, if it is new.
    Holds(KeyBuf, Box<[u8]>, Mode, Deadline, Option<Fence>),
    /// It holds no more.
    Ended(KeyBuf, Box<[u8]>),
    /// A token's lease has another length.
    Extended(KeyBuf, Box<[u8]>),
    /// Nobody holds any more.
    AllEnded(KeyBuf),
}

/// The host.
#[derive(Debug, Default)]
pub struct Memory {
    /// The keyspace.
    pub values: BTreeMap<KeyBuf, Value>,
    /// What the node told since somebody last looked.
    pub told: Vec<Told>,
    /// What blocked requests are answered.
    pub answers: Vec<(WaiterId, WaitOutcome)>,
    /// What the state file says.
    pub file: Option<Promise>,
    /// What is being written into it.
    pub writing: Option<Promise>,
    /// It cannot be written just now.
    pub disk_is_full: bool,
    /// A flaw: the bound is not written.
    pub forgets_bound: bool,
    /// What goes to its replica, and whether it has one.
    pub stream: Vec<Sent>,
    /// Likewise.
    pub has_replica: bool,
    /// The replica is to learn what is promised.
    pub tells: bool,
    /// It has heard nothing from its replica for too long, and refuses writes.
    pub refuses: bool,
    /// Who asks.
    pub asks: Owner,
    /// A flaw: the replica does not hear of renewals.
    pub renews_in_silence: bool,
}

/// What a replica gets.
#[derive(Clone, Debug)]
pub enum Sent {
    /// The data set.
    DataSet(Vec<(KeyBuf, Mode, Holder)>),
    /// An effect, as it travels.
    Effect(KeyBuf, Vec<u8>),
    /// An extension, which travels as it came.
    Extension(KeyBuf, Box<[u8]>, Millis, Option<Fence>, bool),
    /// What the primary has promised, and whether it may wait for what nobody knows.
    Promise(Promise, bool),
}

impl Memory {
    /// When the first does.
    pub fn first_of_all(&self) -> Option<Deadline> {
        self.values.values().filter_map(first_end).min()
    }

    /// All that is held.
    pub fn grants(&self) -> Vec<(KeyBuf, Mode, Holder)> {
        let mut all = Vec::new();
        for (key, value) in &self.values {
            match value {
                Value::One(holder) => all.push((key.clone(), Mode::Exclusive, holder.clone())),
                Value::Many(crowd) => {
                    let mode = crowd.mode();
                    all.extend(crowd.grants().map(|grant| (key.clone(), mode, grant.into())));
                }
            }
        }
        all
    }

    /// The leases, as the state file counts them.
    pub fn roll(&self) -> Ended {
        let mut ended = Ended::default();
        for (key, mode, holder) in self.grants() {
            ended.add(key.as_key(), mode, &holder.grant());
        }
        ended
    }

    /// When each lease ends, and the name of its key: the one that ends last first.
    pub fn held(&self) -> Vec<(Deadline, Box<[u8]>)> {
        let end = |(key, _, holder): (KeyBuf, Mode, Holder)| (holder.grant().lease.end, key.name);
        let mut held: Vec<_> = self.grants().into_iter().map(end).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        held
    }

    /// A lock comes back with the data set: its lease begins again.
    pub fn load(&mut self, key: &KeyBuf, mode: Mode, holder: &Holder, now: Instant) {
        let old = holder.grant();
        let lease = Lease::begin(now, old.lease.ttl);
        let client = dlock_core::ClientId::UNKNOWN;
        let grant = Grant { lease, client, ephemeral: false, ..old };
        if mode == Mode::Exclusive {
            self.values.insert(key.clone(), Value::One(grant.into()));
            return;
        }
        let fresh = || Value::Many(Crowd::new(mode));
        if let Value::Many(crowd) = self.values.entry(key.clone()).or_insert_with(fresh) {
            crowd.add(grant);
        }
    }

    /// Nothing is kept that is over.
    pub fn end_over(&mut self, now: Instant) {
        let over = |value: &Value| first_end(value).is_some_and(|end| end.is_over(now));
        self.values.retain(|_, value| !over(value));
    }

    /// The state file is written.
    pub fn write(&mut self, promise: Promise) {
        let before = self.file.take().map_or(LeaseBound::default(), |file| file.bound);
        let all = promise.bound;
        let bound = if self.forgets_bound { before.meet(&all) } else { all };
        self.file = Some(Promise { bound, ..promise });
        self.tells = true;
    }

    fn replicate(&mut self, key: &KeyBuf, effect: &Effect<'_>) {
        let mut written = Vec::new();
        match *effect {
            Effect::Renewed { .. } | Effect::Extended { .. } if self.renews_in_silence => return,
            Effect::Granted { mode, grant, .. } | Effect::Renewed { mode, grant } => {
                write_grant(mode, &grant, &mut written);
            }
            Effect::Extended { token, ttl, fence, gt } => {
                let extension = Sent::Extension(key.clone(), token.into(), ttl, fence, gt);
                return self.stream.push(extension);
            }
            Effect::Ended { token, .. } => write_end(token, &mut written),
            Effect::AllExpired { .. } => write_removal(&mut written),
        }
        self.stream.push(Sent::Effect(key.clone(), written));
    }
}

fn first_end(value: &Value) -> Option<Deadline> {
    match value {
        Value::One(holder) => Some(holder.grant().lease.end),
        Value::Many(crowd) => crowd.first_end(),
    }
}

impl Answers for Memory {
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome) {
        self.answers.push((waiter, answer));
    }
}

impl Host for Memory {
    fn find(&mut self, key: Key<'_>) -> Found<'_> {
        match self.values.get_mut(&key.to_owned()) {
            None => Found::Free,
            Some(Value::One(holder)) => Found::Held(Holders::One(holder.grant())),
            Some(Value::Many(crowd)) => Found::Held(Holders::Many(crowd)),
        }
    }

    fn first_end(&mut self, key: Key<'_>) -> Option<Deadline> {
        self.values.get(&key.to_owned()).and_then(first_end)
    }

    fn put_one(&mut self, key: Key<'_>, grant: Grant<'_>) {
        self.values.insert(key.to_owned(), Value::One(grant.into()));
    }

    fn renew_one(&mut self, key: Key<'_>, renewal: Renewal<'_>) {
        if let Some(Value::One(holder)) = self.values.get_mut(&key.to_owned()) {
            let renewed = Holder::from(holder.grant().renewed(&renewal));
            *holder = renewed;
        }
    }

    fn put_many(&mut self, key: Key<'_>, crowd: Crowd) {
        self.values.insert(key.to_owned(), Value::Many(crowd));
    }

    fn changed(&mut self, _key: Key<'_>) {}

    fn forget_expiry(&mut self, _key: Key<'_>) {}

    fn remove(&mut self, key: Key<'_>) {
        self.values.remove(&key.to_owned());
    }

    fn remove_rest(&mut self, _key: Key<'_>) {}

    fn foreign_is(&mut self, _key: Key<'_>, _value: &[u8]) -> bool {
        false
    }

    fn remove_foreign(&mut self, _key: Key<'_>) {}

    fn expire_foreign(&mut self, _key: Key<'_>, _ttl: Millis) {}

    fn expire_foreign_at(&mut self, _key: Key<'_>, _unix_ms: u64) {}

    fn tell(&mut self, key: Key<'_>, effect: Effect<'_>) {
        let key = key.to_owned();
        if self.has_replica {
            self.replicate(&key, &effect);
        }
        self.told.push(match effect {
            Effect::Granted { mode, grant, .. } => {
                Told::Holds(key, grant.token.into(), mode, grant.lease.end, Some(grant.fence))
            }
            Effect::Renewed { mode, grant } => {
                Told::Holds(key, grant.token.into(), mode, grant.lease.end, None)
            }
            Effect::Extended { token, .. } => Told::Extended(key, token.into()),
            Effect::Ended { token, .. } => Told::Ended(key, token.into()),
            Effect::AllExpired { .. } => Told::AllEnded(key),
        });
    }

    fn memory(&mut self) -> dlock_core::Memory {
        dlock_core::Memory { used: 0, most: 1 }
    }

    fn may_block(&mut self) -> bool {
        true
    }

    fn owner(&mut self) -> Owner {
        self.asks
    }

    fn serves(&mut self, _key: Key<'_>) -> Serves {
        if self.refuses { Serves::Later } else { Serves::Yes }
    }

    fn promise(&mut self, promise: &Promise) -> bool {
        if self.disk_is_full {
            return false;
        }
        self.writing = None;
        self.write(promise.clone());
        true
    }

    fn due(&mut self, now: Instant) -> Option<KeyBuf> {
        let over = |value: &Value| first_end(value).is_some_and(|end| end.is_over(now));
        self.values.iter().find(|(_, value)| over(value)).map(|(key, _)| key.clone())
    }
}
