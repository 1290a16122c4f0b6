//! The module's state beside the keyspace.

use std::mem;

use dlock_core::{Deadline, Instant, Key, KeyBuf, Memory, Node, Time};
use lazy_static::lazy_static;

use crate::blocked_clients::BlockedClients;
use crate::durability::{Durability, Refusing};
use crate::ffi::MainThread;
use crate::ffi::alarm::Alarm;
use crate::ffi::block::Block;
use crate::ffi::context::{log, now, unix_micros};
use crate::ffi::done;
use crate::ffi::index::Index;
use crate::moved_keys::MovedKeys;
use crate::replication_demand::ReplicationDemand;
use crate::server_events::data_set_load::DataSetLoad;
use crate::server_events::moving_slots::MovingSlots;
use crate::server_memory::ServerMemory;
use crate::stats::Stats;

/// The whole state.
pub struct State {
    /// The rules' state: waiters, deferred work, fences.
    pub node: Node,
    /// The module's own state.
    pub store: Store,
}

/// Locks that arrive and are not this node's yet.
#[derive(Default)]
pub struct Arriving {
    /// The data set that is being loaded.
    pub load: DataSetLoad,
    /// The slots that are migrating.
    pub slots: MovingSlots,
}

/// The parts that carry out the node's decisions.
pub struct Store {
    pub index: Index,
    pub alarm: Alarm,
    pub stats: Stats,
    pub blocked: BlockedClients,
    /// Locks with unknown keys.
    pub moved_keys: MovedKeys,
    /// The promise and the state file.
    pub durability: Durability,
    /// Locks that arrive and are not this node's yet.
    pub arriving: Arriving,
    /// The server's settings for memory.
    pub memory: ServerMemory,
    /// The need to replicate.
    pub replication: ReplicationDemand,
    /// A buffer that is kept so that a grant need not allocate one.
    pub scratch: Vec<u8>,
}

/// An event while the state was in use further up the stack: when the module opens a key that has expired, the
/// server can remove it.
pub enum Note {
    /// A lock was taken from its key. The note has a share of it.
    Unlinked(KeyBuf, Block),
    /// A key may have become free.
    Changed(KeyBuf),
}

lazy_static! {
    static ref STATE: MainThread<State> = MainThread::new(State {
        node: node(),
        store: Store {
            index: Index::default(),
            alarm: Alarm::new(),
            stats: Stats::default(),
            blocked: BlockedClients::default(),
            moved_keys: MovedKeys::default(),
            durability: Durability::new(rand::random()),
            arriving: Arriving::default(),
            memory: ServerMemory::default(),
            replication: ReplicationDemand::default(),
            scratch: Vec::new(),
        },
    });
}

/// A node without locks.
fn node() -> Node {
    let mut node = Node::default();
    node.hash_by(rand::random());
    node
}

static NOTES: MainThread<Vec<Note>> = MainThread::new(Vec::new());

/// Runs `work` with the state; `None` if the state is in use already.
pub fn with<R>(work: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(work)
}

/// Notes an event while the state is in use.
pub fn note(note: Note) {
    NOTES.with(|notes| notes.push(note));
}

/// Takes the notes.
pub fn notes() -> Vec<Note> {
    NOTES.with(std::mem::take).unwrap_or_default()
}

impl Store {
    /// The memory that locks take, and their limit.
    pub fn memory(&self) -> Memory {
        let used = self.index.bytes() + self.arriving.slots.index.bytes() + done::bytes();
        Memory { used: used as u64, most: self.memory.for_locks() }
    }

    /// The index for a lock at the key.
    pub fn index_at(&mut self, key: Key<'_>) -> &mut Index {
        match self.arriving.slots.imports(key.name) {
            true => &mut self.arriving.slots.index,
            false => &mut self.index,
        }
    }

    /// True if something has to be settled before a command.
    pub fn is_unsettled(&self) -> bool {
        self.moved_keys.has_last() || !self.durability.have_begun()
    }

    /// True if the event loop has work to do.
    pub fn has_pending(&self) -> bool {
        let owes_promise = self.durability.owes_promise;
        self.moved_keys.any() || owes_promise || self.arriving.slots.any_pending()
    }
}

impl State {
    /// The current time.
    pub fn time(&mut self) -> Time {
        let time = Time { now: now(), unix: unix_micros() };
        self.node.durable.counter.look(time);
        time
    }

    /// The reason why this node grants nothing; `None`: it grants, if its server takes writes.
    pub fn refusing(&mut self, time: Time) -> Option<Refusing> {
        let why = if self.node.is_following() {
            Some(Refusing::Replica)
        } else if self.node.is_in_quarantine(time.now) {
            Some(Refusing::Quarantine)
        } else if self.store.durability.writer.failure().is_some()
            && !self.node.durable.is_vouched_for()
        {
            Some(Refusing::NotDurable)
        } else {
            None
        };
        let was = mem::replace(&mut self.store.durability.refusing, why);
        if was == Some(Refusing::Quarantine)
            && !matches!(why, Some(Refusing::Quarantine | Refusing::Replica))
        {
            log(c"notice", "the quarantine is over");
        }
        why
    }

    /// Sets the timer for the next work. With pending work it fires at once.
    pub fn set_alarm(&mut self, now: Instant) {
        if let Some(at) = self.next(now) {
            self.store.alarm.set(now, at);
        }
    }

    /// Time of the next work.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        if self.node.has_pending() || self.store.has_pending() {
            return Some(now);
        }
        let leads = !self.node.is_following();
        let leases = if leads { self.store.index.first() } else { None };
        let first: Option<Deadline> = leases.into_iter().chain(self.node.next_wake()).min();
        let first = first.map(|end| Instant(end.0.saturating_mul(1000)));
        let search = if leads { self.store.moved_keys.next_search() } else { None };
        first.into_iter().chain(search).min()
    }

    /// Sets the timer, if there is pending work.
    pub fn set_alarm_if_pending(&mut self) {
        if self.node.has_pending() || self.store.has_pending() {
            let now = now();
            self.store.alarm.set(now, now);
        }
    }
}
