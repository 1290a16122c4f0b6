//! A server in memory, for tests: a keyspace of locks, plain strings and other data, and a log of all reports
//! of the node. Tests of one node and the simulation of a quorum run on it.

#![allow(clippy::expect_used, clippy::panic)]

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::command::apply;
use crate::durability::promise::Promise;
use crate::durability::record::Ended;
use crate::lock::done::{Done, Until, units};
use crate::lock::{Crowd, Found, Grant, Holder, Holders};
use crate::node::Node;
use crate::node::host::{Answers, Effect, Ending, Host, Memory, Serves, WaitOutcome};
use crate::words::{
    ClientId, Deadline, Fence, Instant, Key, KeyBuf, Lease, Mode, Owner, Time, WaiterId,
};

/// The content of a key.
#[derive(Clone, Debug)]
pub enum Value {
    /// An exclusive lock.
    One(Holder),
    /// A lock with several holders.
    Many(Crowd),
    /// A plain string.
    Text {
        /// The string.
        value: Box<[u8]>,
        /// Its expiry.
        end: Option<Deadline>,
    },
    /// A completion record, as it is stored, and its end.
    Done(Vec<u8>, Deadline),
    /// Data of another type.
    Other,
    /// A lock that was moved here, and is over. Its largest fence.
    Over(Fence),
}

/// An effect or an answer of the node. See [`Effect`] for the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Report {
    Granted { key: KeyBuf, mode: Mode, holder: Holder, waited: Option<u64> },
    Renewed { key: KeyBuf, mode: Mode, holder: Holder },
    Ended { key: KeyBuf, token: Box<[u8]>, why: Ending, held: u64 },
    Done { key: KeyBuf, record: Vec<u8>, until: Option<Until>, held: u64 },
    AllExpired(KeyBuf, usize),
    TextRemoved(KeyBuf),
    Answered(WaiterId, WaitOutcome),
}

/// A server's keyspace and outputs. Panics when a node breaks the rules of [`Host`].
#[derive(Debug)]
pub struct MemoryHost {
    /// The keyspace.
    pub values: BTreeMap<KeyBuf, Value>,
    /// Effects and answers since the log was last taken.
    pub log: Vec<Report>,
    /// The clock of plain strings.
    pub now: Instant,
    /// True if requests may block.
    pub blocks: bool,
    /// Keys that another server serves by now.
    pub moved: BTreeSet<KeyBuf>,
    /// Locks with an expiry from another command.
    pub expiring: BTreeSet<KeyBuf>,
    /// The memory of locks, and its limit.
    pub memory: Memory,
    /// The user of the current request.
    pub owner: Owner,
    /// The user's done locks elsewhere.
    pub done_elsewhere: u64,
    /// The server refuses writes just now.
    pub refuses: bool,
    /// The state file cannot be written.
    pub disk_is_full: bool,
    /// The promises written because a grant waited for them.
    pub promises: Vec<Promise>,
    /// The promises that may have been written.
    pub failed: Vec<Promise>,
    /// The first end at each lock, as far as the node reported it.
    index: BTreeSet<(Deadline, KeyBuf)>,
}

impl Default for MemoryHost {
    fn default() -> MemoryHost {
        MemoryHost {
            values: BTreeMap::new(),
            log: Vec::new(),
            now: Instant(0),
            blocks: true,
            moved: BTreeSet::new(),
            expiring: BTreeSet::new(),
            memory: Memory { used: 0, most: 1 << 40 },
            owner: Owner(1),
            done_elsewhere: 0,
            refuses: false,
            disk_is_full: false,
            promises: Vec::new(),
            failed: Vec::new(),
            index: BTreeSet::new(),
        }
    }
}

impl MemoryHost {
    /// Puts a plain string or other data at the key, over any content.
    pub fn set(&mut self, key: &KeyBuf, value: Value) {
        self.take(key);
        self.values.insert(key.clone(), value);
    }

    /// Removes any content of the key.
    pub fn take(&mut self, key: &KeyBuf) -> Option<Value> {
        self.index.retain(|(_, indexed)| indexed != key);
        self.values.remove(key)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// Keeps only the keys that `keep` selects.
    pub fn retain(&mut self, mut keep: impl FnMut(&Value) -> bool) {
        self.values.retain(|_, value| keep(value));
        self.index.retain(|(_, key)| self.values.contains_key(key));
    }

    /// Puts a grant back, as from a file or a primary: its lease begins again.
    pub fn load(&mut self, key: &KeyBuf, mode: Mode, holder: &Holder, now: Instant) {
        let old = holder.grant();
        let lease = Lease::begin(now, old.lease.ttl);
        let grant = Grant { lease, client: ClientId::UNKNOWN, ephemeral: false, ..old };
        if mode == Mode::Exclusive {
            self.set(key, Value::One(grant.into()));
        } else {
            let fresh = || Value::Many(Crowd::new(mode));
            let value = self.values.entry(key.clone()).or_insert_with(fresh);
            let Value::Many(crowd) = value else { panic!("a holder of another mode is there") };
            crowd.add(mode, grant);
        }
        self.changed(key.as_key());
    }

    /// The mode of the lock, and its holders in order.
    pub fn holders(&self, key: &KeyBuf) -> (Option<Mode>, Vec<Holder>) {
        match self.values.get(key) {
            Some(Value::One(holder)) => (Some(Mode::Exclusive), [holder.clone()].into()),
            Some(Value::Many(crowd)) => {
                (Some(crowd.mode()), crowd.grants().map(Holder::from).collect())
            }
            _ => (None, Vec::new()),
        }
    }

    /// The holder with this token.
    pub fn holder(&self, key: &KeyBuf, token: &[u8]) -> Option<Holder> {
        self.holders(key).1.into_iter().find(|holder| *holder.grant().token == *token)
    }

    /// All grants, in the order of their keys.
    pub fn grants(&self) -> Vec<(KeyBuf, Mode, Holder)> {
        let mut all = Vec::new();
        for key in self.values.keys() {
            let (mode, holders) = self.holders(key);
            let of_mode =
                mode.into_iter().flat_map(|mode| holders.iter().map(move |one| (mode, one)));
            all.extend(of_mode.map(|(mode, holder)| (key.clone(), mode, holder.clone())));
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

    /// The first end of a lease.
    pub fn first_of_all(&self) -> Option<Deadline> {
        self.index.first().map(|(end, _)| *end)
    }

    /// The end of the last lease.
    pub fn last_end(&self) -> Option<Deadline> {
        let end = |key| self.holders(key).1.iter().map(|holder| holder.grant().lease.end).max();
        self.values.keys().filter_map(end).max()
    }

    /// True if the index has exactly each lock's first end.
    pub fn index_is_true(&self) -> bool {
        let ends = self.values.iter().filter_map(|(key, value)| Some((value.first_end()?, key)));
        let ends: BTreeSet<_> = ends.map(|(end, key)| (end, key.clone())).collect();
        ends == self.index
    }

    /// True if a plain string holds the lock.
    pub fn has_foreign(&self, key: &KeyBuf) -> bool {
        matches!(self.values.get(key), Some(Value::Text { .. })) && !self.text_is_over(key)
    }

    fn text_is_over(&self, key: &KeyBuf) -> bool {
        let over = |end: &Deadline| end.is_over(self.now);
        match self.values.get(key) {
            Some(Value::Text { end: Some(end), .. } | Value::Done(_, end)) => over(end),
            _ => false,
        }
    }

    fn put(&mut self, key: Key<'_>, value: Value) {
        let free = matches!(self.find(key), Found::Free | Found::Over { .. });
        assert!(free, "put where something is");
        self.values.insert(key.to_owned(), value);
        self.changed(key);
    }
}

impl Value {
    /// The end of the first lease.
    pub fn first_end(&self) -> Option<Deadline> {
        match self {
            Value::One(holder) => Some(holder.grant().lease.end),
            Value::Many(crowd) => crowd.first_end(),
            _ => None,
        }
    }
}

impl Report {
    /// The lock. `None`: an answer, which names the waiter alone.
    pub fn key(&self) -> Option<&KeyBuf> {
        match self {
            Report::Granted { key, .. }
            | Report::Renewed { key, .. }
            | Report::Ended { key, .. }
            | Report::Done { key, .. }
            | Report::AllExpired(key, _)
            | Report::TextRemoved(key) => Some(key),
            Report::Answered(..) => None,
        }
    }
}

/// An effect on its way to a replica: the arguments of an internal command.
#[derive(Clone, Debug)]
pub struct Replicated(pub KeyBuf, pub Vec<u8>, pub Box<[u8]>);

impl Replicated {
    /// Writes an event as it travels. `None`: replicas do not get it.
    pub fn write(event: &Report) -> Option<Replicated> {
        let mut written = Vec::new();
        let mut meta: &[u8] = b"";
        let key = match event {
            Report::Granted { key, mode, holder, .. } | Report::Renewed { key, mode, holder } => {
                meta = holder.grant().meta;
                apply::write_grant(*mode, &holder.grant(), &mut written);
                key
            }
            Report::Ended { key, token, .. } => {
                apply::write_end(token, &mut written);
                key
            }
            Report::Done { key, record, until, .. } => {
                let done = Done::decode(record).expect("the node has made it");
                meta = done.meta;
                apply::write_done(&done, *until, &mut written);
                key
            }
            Report::AllExpired(key, _) | Report::TextRemoved(key) => {
                apply::write_removal(&mut written);
                key
            }
            Report::Answered(..) => return None,
        };
        Some(Replicated(key.clone(), written, meta.into()))
    }

    /// Carries it out at a replica. False: the replica cannot.
    pub fn carry_out(&self, node: &mut Node, host: &mut MemoryHost, time: Time) -> bool {
        let Replicated(key, written, meta) = self;
        let args: [&[u8]; 2] = [written, meta];
        let Ok(effect) = apply::parse(&args) else { return false };
        node.apply(host, key.as_key(), &effect, time);
        true
    }
}

impl Answers for MemoryHost {
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome) {
        self.log.push(Report::Answered(waiter, answer));
    }
}

impl Host for MemoryHost {
    fn find(&mut self, key: Key<'_>) -> Found<'_> {
        let key = key.to_owned();
        if self.text_is_over(&key) {
            return Found::Free;
        }
        match self.values.get_mut(&key) {
            None => Found::Free,
            Some(Value::One(holder)) => Found::Held(Holders::One(holder.grant())),
            Some(Value::Many(crowd)) => Found::Held(Holders::Many(crowd)),
            Some(Value::Text { end, .. }) => {
                Found::Foreign { left: end.map(|end| end.left(self.now)) }
            }
            Some(Value::Done(record, end)) => {
                let done = Done::decode(record).expect("the node has made it");
                Found::Done { done, left: Some(end.left(self.now)) }
            }
            Some(Value::Other) => Found::WrongType,
            Some(Value::Over(top)) => Found::Over { top: *top },
        }
    }

    fn first_end(&mut self, key: Key<'_>) -> Option<Deadline> {
        self.values.get(&key.to_owned()).and_then(Value::first_end)
    }

    fn put_one(&mut self, key: Key<'_>, grant: Grant<'_>) {
        self.put(key, Value::One(grant.into()));
    }

    fn renew_one(&mut self, key: Key<'_>, grant: Grant<'_>) {
        let Some(Value::One(holder)) = self.values.get_mut(&key.to_owned()) else {
            panic!("renewed what is not there");
        };
        assert_eq!(holder.grant().token, grant.token);
        *holder = grant.into();
        self.changed(key);
    }

    fn put_many(&mut self, key: Key<'_>, crowd: Crowd) {
        self.put(key, Value::Many(crowd));
    }

    fn put_done(&mut self, key: Key<'_>, done: Done<'_>, until: Option<Until>) {
        assert!(matches!(self.find(key), Found::Free), "put where something is");
        let end = until.map_or(Deadline(u64::MAX), |until| Deadline::after(self.now, until.left));
        self.set(&key.to_owned(), Value::Done(done.encode(), end));
    }

    fn done_by_user(&mut self) -> u64 {
        let units = |(key, value): (&KeyBuf, &Value)| match value {
            Value::Done(record, _) => {
                Done::decode(record).map(|done| units(key.name.len(), done.meta.len()))
            }
            _ => None,
        };
        self.done_elsewhere + self.values.iter().filter_map(units).sum::<u64>()
    }

    fn changed(&mut self, key: Key<'_>) {
        let key = key.to_owned();
        self.index.retain(|(_, indexed)| *indexed != key);
        let value = self.values.get(&key).expect("changed where nothing is");
        let end = value.first_end().expect("an empty crowd is no lock");
        self.index.insert((end, key));
    }

    fn forget_expiry(&mut self, key: Key<'_>) {
        self.expiring.remove(&key.to_owned());
    }

    fn remove(&mut self, key: Key<'_>) {
        assert!(self.take(&key.to_owned()).is_some(), "removed what is not there");
    }

    fn remove_rest(&mut self, key: Key<'_>) {
        assert!(!self.values.contains_key(&key.to_owned()), "the key is not free");
    }

    fn remove_foreign(&mut self, key: Key<'_>) {
        let removed = self.take(&key.to_owned());
        let is_other = matches!(removed, Some(Value::Text { .. } | Value::Done(..)));
        assert!(is_other, "neither a plain string nor a record");
        self.log.push(Report::TextRemoved(key.to_owned()));
    }

    fn tell(&mut self, key: Key<'_>, effect: Effect<'_>) {
        let key = key.to_owned();
        self.log.push(match effect {
            Effect::Granted { mode, grant, waited } => {
                Report::Granted { key, mode, holder: grant.into(), waited }
            }
            Effect::Renewed { mode, grant } => Report::Renewed { key, mode, holder: grant.into() },
            Effect::Done { done, until, held } => {
                Report::Done { key, record: done.encode(), until, held }
            }
            Effect::AllExpired { holders } => Report::AllExpired(key, holders),
            Effect::Ended { token, why, held } => {
                Report::Ended { key, token: token.into(), why, held }
            }
        });
    }

    fn memory(&mut self) -> Memory {
        self.memory
    }

    fn may_block(&mut self) -> bool {
        self.blocks
    }

    fn owner(&mut self) -> Owner {
        self.owner
    }

    fn serves(&mut self, key: Key<'_>) -> Serves {
        if self.moved.contains(&key.to_owned()) {
            Serves::Moved
        } else if self.refuses {
            Serves::Later
        } else {
            Serves::Yes
        }
    }

    fn promise(&mut self, promise: &Promise) -> bool {
        let written = if self.disk_is_full { &mut self.failed } else { &mut self.promises };
        written.push(*promise);
        !self.disk_is_full
    }

    fn due(&mut self, now: Instant) -> Option<KeyBuf> {
        self.index.first().filter(|(end, _)| end.is_over(now)).map(|(_, key)| key.clone())
    }
}
