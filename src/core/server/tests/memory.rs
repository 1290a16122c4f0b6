//! A host in memory: a keyspace of locks, plain strings and other data, and a log.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::durability::promise::Promise;
use crate::host::{self, Answers, Effect, Ending, Host, Serves, WaitOutcome};
use crate::lock::{Crowd, Found, Grant, Holder, Holders, Renewal};
use crate::words::{Deadline, Fence, Instant, Key, KeyBuf, Millis, Mode, Owner, WaiterId};

#[derive(Debug)]
pub enum Value {
    One(Holder),
    Many(Crowd),
    Text {
        value: Box<[u8]>,
        end: Option<Deadline>,
    },
    Other,
    /// A lock that was moved here, and is over.
    Over(Fence),
}

/// A node's effects and answers, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Granted { key: KeyBuf, mode: Mode, holder: Holder, waited: Option<u64> },
    Renewed { key: KeyBuf, mode: Mode, holder: Holder },
    Extended { key: KeyBuf, token: Box<[u8]>, ttl: Millis, fence: Option<Fence>, gt: bool },
    Ended { key: KeyBuf, token: Box<[u8]>, why: Ending, held: u64 },
    AllExpired(KeyBuf, usize),
    TextRemoved(KeyBuf),
    TextExpires(KeyBuf, Millis),
    Answered(WaiterId, WaitOutcome),
}

/// The host. Panics when a node breaks the rules of [`Host`].
#[derive(Debug)]
pub struct Memory {
    pub values: BTreeMap<KeyBuf, Value>,
    pub log: Vec<Event>,
    pub now: Instant,
    /// True if requests may block.
    pub blocks: bool,
    /// Keys that another server serves by now.
    pub moved: BTreeSet<KeyBuf>,
    /// Locks that somebody else lets expire.
    pub expiring: BTreeSet<KeyBuf>,
    /// The memory of locks, and its limit.
    pub memory: host::Memory,
    /// The user who asks.
    pub owner: Owner,
    /// The server refuses writes just now.
    pub refuses: bool,
    /// The state file cannot be written.
    pub disk_is_full: bool,
    /// The promises written because a grant waited for them, and those that may have been.
    pub promises: Vec<Promise>,
    pub failed: Vec<Promise>,
    /// The first end at each lock, as far as the host was told.
    index: BTreeSet<(Deadline, KeyBuf)>,
}

impl Memory {
    pub fn new() -> Memory {
        Memory {
            values: BTreeMap::new(),
            log: Vec::new(),
            now: Instant(0),
            blocks: true,
            moved: BTreeSet::new(),
            expiring: BTreeSet::new(),
            memory: host::Memory { used: 0, most: 1 },
            owner: Owner(1),
            refuses: false,
            disk_is_full: false,
            promises: Vec::new(),
            failed: Vec::new(),
            index: BTreeSet::new(),
        }
    }

    /// Puts a plain string or other data where anything may be.
    pub fn set(&mut self, key: &KeyBuf, value: Value) {
        self.take(key);
        self.values.insert(key.clone(), value);
    }

    /// Removes whatever is at the key.
    pub fn take(&mut self, key: &KeyBuf) -> Option<Value> {
        self.index.retain(|(_, indexed)| indexed != key);
        self.values.remove(key)
    }

    pub fn holders(&self, key: &KeyBuf) -> (Option<Mode>, Vec<Holder>) {
        match self.values.get(key) {
            Some(Value::One(holder)) => (Some(Mode::Exclusive), [holder.clone()].into()),
            Some(Value::Many(crowd)) => {
                (Some(crowd.mode()), crowd.grants().map(Holder::from).collect())
            }
            _ => (None, Vec::new()),
        }
    }

    /// The end of each lock's last lease, and its name: the latest end first.
    pub fn held(&self) -> Vec<(Deadline, &[u8])> {
        let end = |key| self.holders(key).1.iter().map(|holder| holder.grant().lease.end).max();
        let held = self.values.keys().filter_map(|key| Some((end(key)?, &*key.name)));
        let mut held: Vec<_> = held.collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        held
    }

    /// True if each lock is in the index with its first end, and nothing else is.
    pub fn index_is_true(&self) -> bool {
        let ends = self.values.iter().filter_map(|(key, value)| Some((first_end(value)?, key)));
        let ends: BTreeSet<_> = ends.map(|(end, key)| (end, key.clone())).collect();
        ends == self.index
    }

    pub fn has_foreign(&self, key: &KeyBuf) -> bool {
        matches!(self.values.get(key), Some(Value::Text { .. })) && !self.text_is_over(key)
    }

    fn text_is_over(&self, key: &KeyBuf) -> bool {
        let over = |end: &Deadline| end.is_over(self.now);
        matches!(self.values.get(key), Some(Value::Text { end: Some(end), .. }) if over(end))
    }

    fn put(&mut self, key: Key<'_>, value: Value) {
        let free = matches!(self.find(key), Found::Free | Found::Over { .. });
        assert!(free, "put where something is");
        self.values.insert(key.to_owned(), value);
        self.changed(key);
    }
}

fn first_end(value: &Value) -> Option<Deadline> {
    match value {
        Value::One(holder) => Some(holder.grant().lease.end),
        Value::Many(crowd) => crowd.first_end(),
        _ => None,
    }
}

impl Answers for Memory {
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome) {
        self.log.push(Event::Answered(waiter, answer));
    }
}

impl Host for Memory {
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
            Some(Value::Other) => Found::WrongType,
            Some(Value::Over(top)) => Found::Over { top: *top },
        }
    }

    fn first_end(&mut self, key: Key<'_>) -> Option<Deadline> {
        self.values.get(&key.to_owned()).and_then(first_end)
    }

    fn put_one(&mut self, key: Key<'_>, grant: Grant<'_>) {
        self.put(key, Value::One(grant.into()));
    }

    fn renew_one(&mut self, key: Key<'_>, renewal: Renewal<'_>) {
        let Some(Value::One(holder)) = self.values.get_mut(&key.to_owned()) else {
            panic!("renewed what is not there");
        };
        let renewed = Holder::from(holder.grant().renewed(&renewal));
        *holder = renewed;
        self.changed(key);
    }

    fn put_many(&mut self, key: Key<'_>, crowd: Crowd) {
        self.put(key, Value::Many(crowd));
    }

    fn changed(&mut self, key: Key<'_>) {
        let key = key.to_owned();
        self.index.retain(|(_, indexed)| *indexed != key);
        let value = self.values.get(&key).expect("changed where nothing is");
        let end = first_end(value).expect("an empty crowd is no lock");
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

    fn foreign_is(&mut self, key: Key<'_>, value: &[u8]) -> bool {
        let Some(Value::Text { value: text, .. }) = self.values.get(&key.to_owned()) else {
            panic!("not a plain string");
        };
        **text == *value
    }

    fn remove_foreign(&mut self, key: Key<'_>) {
        let removed = self.take(&key.to_owned());
        assert!(matches!(removed, Some(Value::Text { .. })), "not a plain string");
        self.log.push(Event::TextRemoved(key.to_owned()));
    }

    fn expire_foreign(&mut self, key: Key<'_>, ttl: Millis) {
        let Some(Value::Text { end, .. }) = self.values.get_mut(&key.to_owned()) else {
            panic!("not a plain string");
        };
        *end = Some(Deadline::after(self.now, ttl));
        self.log.push(Event::TextExpires(key.to_owned(), ttl));
    }

    fn expire_foreign_at(&mut self, key: Key<'_>, unix_ms: u64) {
        // Here both clocks began at the same moment.
        self.expire_foreign(key, Deadline(unix_ms).left(self.now));
    }

    fn tell(&mut self, key: Key<'_>, effect: Effect<'_>) {
        let key = key.to_owned();
        self.log.push(match effect {
            Effect::Granted { mode, grant, waited } => {
                Event::Granted { key, mode, holder: grant.into(), waited }
            }
            Effect::Renewed { mode, grant } => Event::Renewed { key, mode, holder: grant.into() },
            Effect::Extended { token, ttl, fence, gt } => {
                Event::Extended { key, token: token.into(), ttl, fence, gt }
            }
            Effect::AllExpired { holders } => Event::AllExpired(key, holders),
            Effect::Ended { token, why, held } => {
                Event::Ended { key, token: token.into(), why, held }
            }
        });
    }

    fn memory(&mut self) -> host::Memory {
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
        written.push(promise.clone());
        !self.disk_is_full
    }

    fn due(&mut self, now: Instant) -> Option<KeyBuf> {
        self.index.first().filter(|(end, _)| end.is_over(now)).map(|(_, key)| key.clone())
    }
}
