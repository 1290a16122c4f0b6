//! What the module keeps beside the keyspace.

use dlock_core::{Deadline, Instant, KeyBuf, Memory, Node, Time, limits};
use lazy_static::lazy_static;

use crate::audience::Audience;
use crate::ffi::MainThread;
use crate::ffi::alarm::Alarm;
use crate::ffi::block::Block;
use crate::ffi::context::{log, now, unix_micros};
use crate::ffi::index::Index;
use crate::incoming::Incoming;
use crate::migrations::Migrations;
use crate::promises::{Promises, count_keys};
use crate::server_memory::ServerMemory;
use crate::stats::Stats;
use crate::strays::Strays;
use crate::waiters::Waiters;

/// Everything.
pub struct State {
    /// Who waits, what is put off, the fence.
    pub node: Node,
    /// The rest.
    pub store: Store,
}

/// What carrying out takes.
pub struct Store {
    pub index: Index,
    pub alarm: Alarm,
    pub stats: Stats,
    pub waiters: Waiters,
    /// Locks that are somewhere else than the index thinks.
    pub strays: Strays,
    /// What is promised.
    pub promises: Promises,
    /// What is being loaded.
    pub incoming: Incoming,
    /// What migrates with its slots.
    pub migrations: Migrations,
    /// Since when nothing has been granted, and why.
    pub refusing: Option<(Refusing, Instant)>,
    /// How the server is configured to use its memory.
    pub server_memory: ServerMemory,
    /// How much of it locks may take, in hundredths.
    pub max_memory_percent: u64,
    /// Whether anybody may listen to what is replicated.
    pub audience: Audience,
    /// Room to write in, kept so that a grant need not ask for some.
    pub scratch: Vec<u8>,
}

/// Why a node grants nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusing {
    Replica,
    Quarantine,
    NotDurable,
}

impl Refusing {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Refusing::Replica => "replica",
            Refusing::Quarantine => "quarantine",
            Refusing::NotDurable => "not-durable",
        }
    }
}

/// What happened while the state was in use further up the stack: the server can take a key
/// away in the middle of a look at it, when its expiry has passed.
pub enum Note {
    /// A lock was taken from its key. The note has a share of it.
    Unlinked(KeyBuf, Block),
    /// A key may have become free.
    Changed(KeyBuf),
}

lazy_static! {
    static ref STATE: MainThread<State> = MainThread::new(State {
        node: Node::default(),
        store: Store {
            index: Index::default(),
            alarm: Alarm::new(),
            stats: Stats::default(),
            waiters: Waiters::default(),
            strays: Strays::default(),
            promises: Promises::new(rand::random()),
            incoming: Incoming::default(),
            migrations: Migrations::default(),
            refusing: None,
            server_memory: ServerMemory::default(),
            max_memory_percent: limits::DEFAULT_MAX_MEMORY_PERCENT,
            audience: Audience::default(),
            scratch: Vec::new(),
        },
    });
}

static NOTES: MainThread<Vec<Note>> = MainThread::new(Vec::new());

/// Works with the state; `None` if that is under way already.
pub fn with<R>(work: impl FnOnce(&mut State) -> R) -> Option<R> {
    STATE.with(work)
}

/// Leaves a note for when the state is no longer in use.
pub fn note(note: Note) {
    NOTES.with(|notes| notes.push(note));
}

/// The notes left meanwhile.
pub fn notes() -> Vec<Note> {
    NOTES.with(std::mem::take).unwrap_or_default()
}

impl Store {
    /// What locks take, and what they may.
    pub fn memory(&self) -> Memory {
        let percent = self.max_memory_percent;
        let most = self.server_memory.most.map_or(u64::MAX, |most| most / 100 * percent);
        let used = self.index.bytes() + self.migrations.bytes();
        Memory { used: used as u64, most }
    }

    /// Whether something has to be settled before a command.
    pub fn is_unsettled(&self) -> bool {
        self.strays.has_last() || !self.promises.have_begun()
    }

    /// Whether the next turn has something to do.
    pub fn has_pending(&self) -> bool {
        self.strays.any() || self.promises.have_to_tell() || self.migrations.any_pending()
    }
}

impl State {
    /// What time it is.
    pub fn time(&mut self) -> Time {
        let now = now();
        Time { now, unix: self.node.clock.read(now, unix_micros) }
    }

    /// Why nothing is granted, and since when; `None`: it is.
    pub fn refusing(&mut self, time: Time) -> Option<(Refusing, Instant)> {
        let why = if self.node.is_following() {
            Some(Refusing::Replica)
        } else if self.node.is_in_quarantine(time.now) {
            Some(Refusing::Quarantine)
        } else if self.store.promises.ledger.failure().is_some()
            && !self.node.is_vouched_for(time.unix)
        {
            Some(Refusing::NotDurable)
        } else {
            None
        };
        let was = self.store.refusing;
        self.store.refusing = why.map(|why| match was {
            Some((old, since)) if old == why => (why, since),
            _ => (why, time.now),
        });
        if was.is_some_and(|(was, _)| was == Refusing::Quarantine)
            && !matches!(why, Some(Refusing::Quarantine | Refusing::Replica))
        {
            let keys = self.node.in_quarantine().map_or(0, |all| all.left(time.now).long_keys());
            let but = (keys > 0).then(|| format!(", but for {}", count_keys(keys)));
            log(c"notice", &format!("the quarantine is over{}", but.unwrap_or_default()));
        }
        self.store.refusing
    }

    /// Sets the alarm for what is next. With work at hand it goes off at once.
    pub fn set_alarm(&mut self, now: Instant) {
        if let Some(at) = self.next(now) {
            self.store.alarm.set(now, at);
        }
    }

    /// When there is something to do.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let owes_search = self.store.strays.owes_search() && !self.node.is_following();
        if self.node.has_pending() || self.store.has_pending() || owes_search {
            return Some(now);
        }
        let leases = if self.node.is_following() { None } else { self.store.index.first() };
        let first: Option<Deadline> = leases.into_iter().chain(self.node.next_wake()).min();
        first.map(|end| Instant(end.0.saturating_mul(1000)))
    }

    /// Sets the alarm, if there is work at hand.
    pub fn set_alarm_if_pending(&mut self) {
        if self.node.has_pending() || self.store.has_pending() {
            let now = now();
            self.store.alarm.set(now, now);
        }
    }
}
