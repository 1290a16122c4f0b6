//! What the module keeps beside the keyspace.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::audience::Audience;
use dlock_core::{
    Answer, Answers, Deadline, Fence, Instant, KeyBuf, Memory, Node, Record, Time, WaiterId, limits,
};
use lazy_static::lazy_static;

use crate::evicted::{Evicted, Taken};
use crate::ffi::MainThread;
use crate::ffi::alarm::Alarm;
use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, log, now, unix_micros};
use crate::ffi::index::Index;
use crate::ffi::scan::Scan;
use crate::ffi::waiter::{Blocked, Callbacks, Handle};
use crate::incoming::Incoming;
use crate::ledger::Ledger;
use crate::stats::Stats;

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
    /// Keys at which a lock has arrived by RESTORE, RENAME, MOVE or SWAPDB.
    pub arrivals: VecDeque<KeyBuf>,
    /// Whether a lock has been taken from its key, or read, and may arrive at another.
    pub moving: bool,
    /// Locks that the server took away or read without telling where to, each with a share in its block.
    pub taken: BTreeSet<Block>,
    /// The search for those that are still somewhere.
    pub search: Option<Scan>,
    /// Whether a dead lock was seen at a key by a replica, which removes nothing. Its primary will,
    /// unless that dies before; then this node searches for it when it has been promoted.
    pub owes_search: bool,
    /// Whether the server tells what happens to keys.
    pub hears_of_keys: bool,
    /// What is promised, and the state file.
    pub ledger: Ledger,
    /// `dlock.state-file`.
    pub state_file: String,
    /// Whether the data set is being loaded.
    pub is_loading: bool,
    /// The one that is loaded beside the one that counts.
    pub incoming: Incoming,
    /// What the state file said, until the data set is loaded.
    pub beginning: Option<Beginning>,
    /// Whether replicas should be told what is promised.
    pub tell_promise: bool,
    /// When they were told last, and how far fences had been handed out then.
    pub told: (Instant, Fence),
    /// Whether the server has kept a log that misses nothing, in all of this life.
    pub log_is_kept: bool,
    /// Whether a log has been loaded at this start.
    pub loads_log: bool,
    /// Since when nothing has been granted, and why.
    pub refusing: Option<(Refusing, Instant)>,
    /// How much memory the server may use; `None`: as much as it likes.
    pub max_memory: Option<u64>,
    /// How much of it locks may take, in hundredths.
    pub max_memory_percent: u64,
    /// Locks that are held and are no keys any more.
    pub evicted: Evicted,
    /// Whether this server evicts whatever it likes, marks too.
    pub evicts_marks: bool,
    /// What was taken from its key last.
    pub last_taken: Option<Taken>,
    /// Whether anybody may listen to what is replicated.
    pub audience: Audience,
    /// Room to write in, kept so that a grant need not ask for some.
    pub scratch: Vec<u8>,
}

/// A life that has begun, but not yet with its data set.
pub struct Beginning {
    /// What the last one left behind.
    pub before: Option<Record>,
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

/// The blocked clients.
#[derive(Default)]
pub struct Waiters {
    blocked: BTreeMap<WaiterId, (Blocked, KeyBuf)>,
    handles: BTreeMap<Handle, WaiterId>,
    /// Answers that came before the client was blocked.
    early: BTreeMap<WaiterId, Answer>,
    /// What the server calls for them.
    callbacks: Callbacks,
}

impl Answers for Waiters {
    fn answer(&mut self, waiter: WaiterId, answer: Answer) {
        match self.blocked.remove(&waiter) {
            Some((blocked, key)) => blocked.answer(waiter, answer, key),
            None => {
                self.early.insert(waiter, answer);
            }
        }
    }
}

impl Waiters {
    /// The module is loaded: what the server calls for them.
    pub fn install(&mut self, callbacks: Callbacks) {
        self.callbacks = callbacks;
    }

    /// Blocks the client that sent the command. False: the server does not allow it.
    pub fn block(&mut self, ctx: Ctx<'_>, waiter: WaiterId, key: KeyBuf) -> bool {
        let Some(blocked) = Blocked::block(ctx, self.callbacks) else { return false };
        self.handles.insert(blocked.handle(), waiter);
        self.blocked.insert(waiter, (blocked, key));
        true
    }

    /// The answer that came before the client was blocked.
    pub fn early(&mut self, waiter: WaiterId) -> Option<Answer> {
        self.early.remove(&waiter)
    }

    /// A client got its answer.
    pub fn answered(&mut self, handle: Handle) {
        self.handles.remove(&handle);
    }

    /// A client is gone.
    pub fn gone(&mut self, handle: Handle) -> Option<WaiterId> {
        let waiter = self.handles.remove(&handle)?;
        if let Some((blocked, _)) = self.blocked.remove(&waiter) {
            blocked.abandon();
        }
        Some(waiter)
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
            arrivals: VecDeque::new(),
            moving: false,
            taken: BTreeSet::new(),
            search: None,
            owes_search: false,
            hears_of_keys: true,
            ledger: Ledger::nowhere(rand::random()),
            state_file: String::new(),
            is_loading: false,
            incoming: Incoming::default(),
            beginning: None,
            tell_promise: false,
            told: (Instant(0), Fence(0)),
            log_is_kept: false,
            loads_log: false,
            refusing: None,
            max_memory: None,
            max_memory_percent: limits::DEFAULT_MAX_MEMORY_PERCENT,
            evicted: Evicted::default(),
            evicts_marks: false,
            last_taken: None,
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
        let most = self.max_memory.map_or(u64::MAX, |most| most / 100 * percent);
        Memory { used: self.index.bytes() as u64, most }
    }

    /// Whether something has to be settled before a command.
    pub fn is_unsettled(&self) -> bool {
        self.last_taken.is_some() || self.beginning.is_some()
    }

    /// Whether locks may lie about that are nobody's, or that nobody minds yet.
    pub fn has_strays(&self) -> bool {
        let taken = !self.taken.is_empty() || self.last_taken.is_some();
        taken || !self.arrivals.is_empty() || self.search.is_some() || self.tell_promise
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
        } else if self.store.ledger.failure().is_some() && !self.node.is_vouched_for(time.unix) {
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
            log(c"notice", "the quarantine is over");
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
        let owes_search = self.store.owes_search && !self.node.is_following();
        if self.node.has_pending() || self.store.has_strays() || owes_search {
            return Some(now);
        }
        let leases = if self.node.is_following() { None } else { self.store.index.first() };
        let first: Option<Deadline> = leases.into_iter().chain(self.node.next_wake()).min();
        first.map(|end| Instant(end.0.saturating_mul(1000)))
    }
}
