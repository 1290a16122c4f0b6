//! The promises that must hold, written down once, and checked after every event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dlock_core::lock::done::{Done, Until};
use dlock_core::simulated::Report;
use dlock_core::{Deadline, Fence, Grant, Holder, Instant, KeyBuf, Mode};
use dlock_judges::{Asked, Heard, Line};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The name of the promise.
    pub promise: &'static str,
    /// The circumstances of the violation.
    pub how: String,
}

/// Two claims on a key have different fences, unless both are shared.
pub const DISTINCT: &str = "fences are distinct";
/// A claim that begins after another has returned has a larger fence.
pub const ORDERED: &str = "fences are ordered";
/// At most one guard is valid at any moment of true time, except shared ones. Each guard judges by its own
/// clock.
pub const EXCLUSIVE: &str = "guards exclude each other";
/// No node grants beside a lease that it granted and that may still run, even after a crash.
pub const NO_GRANT_BESIDE: &str = "a node grants nothing beside a lease that may still run";
/// A node's fences for a key grow, even after a crash.
pub const NODE_COUNTS: &str = "a node's fences grow, crashes or not";
/// A guard that a majority of the nodes has disowned says that it is lost.
pub const BELIEVES_NODES: &str = "a guard that a majority has disowned is lost";
/// The only node lacks the lease and is in quarantine, as after a promotion. The guard ends before it grants.
pub const QUARANTINED: &str =
    "a guard does not outlast the quarantine of a node that lacks its lease";
/// An operator may end a guard's lock at a majority of the nodes, all at the same moment, or another client
/// may have had it since. Then the guard is lost when its lease is over, at the latest.
pub const ENDED_IS_LOST: &str = "a guard whose lock was ended everywhere is lost";
/// A guard stays valid while a majority of the nodes holds its lease without a gap. Only what its client can
/// know counts: a node may act at any moment between request and answer. In calm no client loses a guard.
pub const HOLDS_ON: &str = "a guard whose lease a majority holds without a gap stays valid";
/// A connection that has closed leaves nothing behind at the node.
pub const CLOSED_LEAVES_NOTHING: &str = "a waiter that has vanished leaves nothing behind";
/// An attempt that was given up leaves nothing behind, where its messages arrived.
pub const GIVEN_UP_LEAVES_NOTHING: &str = "an attempt that was given up leaves nothing behind";
/// Once nothing fails any more and a majority is up, every waiter is served. A waiter without a limit waits
/// through an outage.
pub const SERVED: &str = "who waits is served";
/// Once nothing fails any more, a client that does not wait is never told that a lock is held if a majority
/// of the nodes has granted it the lock.
pub const FREE: &str = "a lock that is free at a majority is free";
/// While nothing fails, the first client at the gate has the lock first, however far it is from the nodes.
pub const IN_ORDER: &str = "who was first at the gate is served first";
/// If nodes are deaf and nothing else fails, a waiter has the lock soon after its release, and not only when
/// some lease has ended.
pub const SOON: &str = "who waits is served soon";
/// While a majority of the nodes has a completion record, no client takes the lock.
pub const DONE_ONCE: &str = "a lock that was left done is not taken before its time";
/// A client is told DONE only while the record of one claim is at a majority of the nodes, and has not
/// expired.
pub const DONE_BY_MAJORITY: &str = "a lock is done by a majority, for its time";
/// A replica has every lease that has reached it, and keeps it when it takes over.
pub const REPLICATED: &str = "a replica that takes over has the leases that have reached it";
/// A server that takes over waits for the longest lease in use, and no longer, unless it could not learn how
/// long leases are. It does not pass such a guess on as a fact, and an operator can end the wait.
pub const NO_LONGER: &str = "nobody waits for leases that are longer than any in use";
/// Whatever other clients propose, a key's fences are ahead of the clock by seconds at most. After a restart
/// they are ahead as far as a client may propose.
pub const NEAR: &str = "fences stay near the clock, whatever others propose";
/// In the end there are no holders and no waiters.
pub const EMPTY: &str = "in the end nothing is held";

/// The judge.
#[derive(Debug, Default)]
pub struct Judge {
    /// The first thing that went wrong.
    pub broken: Option<Broken>,
    keys: BTreeMap<KeyBuf, KeyRecord>,
    /// The leases that each node has granted, as far as they may still run.
    leases: BTreeMap<(usize, KeyBuf), Vec<Lease>>,
    /// The largest fence that each node gave each key.
    counted: BTreeMap<(usize, KeyBuf), u64>,
    /// The time of a node's last loss of completion records.
    forgot: Option<u64>,
    /// The time of a node's last loss of fences that no promise covers. An attempt that began before may have had
    /// such a fence from it.
    fences_lost: Option<u64>,
    /// The tasks that have come to the gate, and in order those that have not had the lock.
    came: BTreeSet<usize>,
    waiting: VecDeque<usize>,
    /// True if the life goes on when a promise is broken, for judges by other authors.
    pub goes_on: bool,
    /// Every claim, and every lock that was broken, in true time, for the same judges.
    pub history: Vec<Line>,
}

/// The claims and guards of a key.
#[derive(Debug, Default)]
struct KeyRecord {
    /// Each fence that was claimed; true if all of its claims are shared.
    claimed: BTreeMap<Fence, bool>,
    /// The largest fence at each time of a claim.
    highest: Vec<(u64, Fence)>,
    guards: Vec<Guard>,
    /// The fence of each holder that left the lock done, and the earliest end of that.
    done: Vec<(Fence, u64)>,
    /// The nodes that had the completion record of a fence, and the latest end of these records.
    records: BTreeMap<Fence, (BTreeSet<usize>, u64)>,
    /// The last time that a client that takes done locks has taken it where a record may have been.
    taken: Option<u64>,
    /// The time of the operator's last break of the lock. An attempt that began before may not have learned
    /// of it.
    broken: Option<u64>,
}

/// A guard that may be valid.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// The task that holds it.
    pub task: usize,
    /// The mode of the hold.
    pub mode: Mode,
    /// Its fence.
    pub fence: Fence,
    /// Its end, by its own clock.
    pub until: Instant,
    /// That moment in true time.
    pub over: u64,
    /// The time of its first request.
    pub begun: u64,
}

#[derive(Debug)]
struct Lease {
    token: Box<[u8]>,
    mode: Mode,
    end: Deadline,
    /// True if the lease had ended, and came back with an older data set. Another client may have held the
    /// lock since, and still the lease's holder can renew it.
    is_stale: bool,
}

impl Lease {
    fn of(mode: Mode, holder: &Holder) -> Lease {
        let Grant { token, lease, .. } = holder.grant();
        Lease { token: token.into(), mode, end: lease.end, is_stale: false }
    }
}

impl Judge {
    /// Notes that a promise was broken.
    pub fn accuse(&mut self, promise: &'static str, how: String) {
        self.broken.get_or_insert(Broken { promise, how });
    }

    /// A client won at `now`. `clock` gives the time at a task.
    pub fn won(&mut self, key: &KeyBuf, guard: Guard, now: u64, clock: impl Fn(usize) -> Instant) {
        let counts = self.fences_lost.is_none_or(|at| at < guard.begun);
        self.note_claim(key, guard, now, counts);
        let book = self.keys.entry(key.clone()).or_default();
        let shared = guard.mode == Mode::Shared;
        let Guard { task, fence, begun, .. } = guard;
        let mut wrong = Vec::new();
        match counts.then(|| book.claimed.insert(fence, shared)).flatten() {
            Some(before) if !(before && shared) => {
                wrong.push((DISTINCT, format!("{fence:?} of task {task}")));
            }
            _ => {}
        }
        let earlier = book.highest.iter().rev().find(|(at, _)| *at < begun);
        if let Some((_, before)) = earlier.filter(|(_, before)| fence <= *before) {
            wrong.push((ORDERED, format!("{fence:?} of task {task} after {before:?}")));
        }
        let excused = |guard: &Guard| book.broken.is_some_and(|at| guard.begun <= at);
        let done = book.done.iter().find(|(_, until)| now < *until);
        if let Some((before, until)) = done.filter(|_| !excused(&guard)) {
            wrong.push((
                DONE_ONCE,
                format!("task {task} takes what {before:?} left done until {until}"),
            ));
        }
        if counts {
            let highest = book.highest.last().map_or(fence, |(_, highest)| fence.max(*highest));
            book.highest.push((now, highest));
        }
        let valid = |guard: &Guard| !excused(guard) && clock(guard.task) < guard.until;
        book.guards.retain(valid);
        let clashes = |other: &&Guard| !shared || other.mode != Mode::Shared;
        if let Some(other) = book.guards.iter().find(clashes).filter(|_| !excused(&guard)) {
            let left = other.until.0 - clock(other.task).0;
            let how = format!("task {task} beside {other:?}, valid for {left} µs more");
            wrong.push((EXCLUSIVE, how));
        }
        book.guards.push(guard);
        wrong.into_iter().for_each(|(promise, how)| self.accuse(promise, how));
    }

    /// A holder has left the lock done, from `since` on.
    pub fn left_done(&mut self, key: &KeyBuf, fence: Fence, (since, until): (u64, u64), now: u64) {
        let book = self.keys.entry(key.clone()).or_default();
        let is_gone = book.broken.max(book.taken).max(self.forgot) >= Some(since);
        if now < until && !is_gone {
            book.done.push((fence, until));
        }
        let later = book.claimed.last_key_value().filter(|(later, _)| **later > fence);
        let how = later.map(|(later, _)| format!("{fence:?} is told so after {later:?}"));
        if let Some(how) = how.filter(|_| book.broken.max(book.taken).is_none()) {
            self.accuse(DONE_ONCE, how);
        }
    }

    /// A client is told that the lock is done.
    pub fn told_done(&mut self, key: &KeyBuf, fence: Fence, now: u64, majority: usize) {
        let records = self.keys.get(key).and_then(|book| book.records.get(&fence));
        let stands =
            |(nodes, until): &&(BTreeSet<usize>, u64)| nodes.len() >= majority && now < *until;
        if records.filter(stands).is_none() {
            let how = format!("of {fence:?} there were {records:?} at {now}");
            self.accuse(DONE_BY_MAJORITY, how);
        }
    }

    /// A node has lost completion records: jobs may be done again.
    pub fn forget_done(&mut self, now: u64) {
        self.forgot = Some(now);
        self.keys.values_mut().for_each(|book| book.done.clear());
    }

    /// A client's request has arrived at the gate.
    pub fn comes(&mut self, task: usize) {
        if self.came.insert(task) {
            self.waiting.push_back(task);
        }
    }

    /// A task has the lock. Every task that came before it has had the lock.
    pub fn is_served(&mut self, task: usize) {
        let first = self.waiting.pop_front();
        if first != Some(task) {
            self.accuse(IN_ORDER, format!("task {task}, and {first:?} came first"));
        }
    }

    /// A guard has another end; `over` is the same in true time. `None`: the guard is lost, or was released.
    pub fn holds(&mut self, key: &KeyBuf, task: usize, until: Option<Instant>, over: u64) {
        let Some(book) = self.keys.get_mut(key) else { return };
        // A task that leaves the lock done holds it after its guard is gone.
        if !book.guards.iter().any(|guard| guard.task == task) {
            return;
        }
        let of_task = self.history.iter_mut().rev().find(|line| line.who == name(task));
        if let Some(Asked::Acquire { until: end, .. }) = of_task.map(|line| &mut line.asked) {
            let before = end.filter(|_| until.is_none()).unwrap_or(over);
            *end = Some(over.min(before));
        }
        match until {
            Some(until) => {
                let of = book.guards.iter_mut().filter(|guard| guard.task == task);
                of.for_each(|guard| guard.until = until);
            }
            None => book.guards.retain(|guard| guard.task != task),
        }
    }

    /// The operator broke the lock at a node.
    pub fn excuse(&mut self, key: &KeyBuf, now: u64) {
        let book = self.keys.entry(key.clone()).or_default();
        book.broken = Some(now);
        book.done.clear();
        self.history.push(Line {
            process: "operator".to_owned(),
            key: text(key),
            who: "operator".to_owned(),
            invoke: now,
            returned: Some(now),
            heard: Heard::Done,
            asked: Asked::Break,
        });
    }

    fn note_claim(&mut self, key: &KeyBuf, guard: Guard, now: u64, counts: bool) {
        let mode = match guard.mode {
            Mode::Shared => dlock_judges::Mode::Shared,
            _ => dlock_judges::Mode::Exclusive,
        };
        let (fence, until) = (counts.then_some(guard.fence.0), Some(guard.over));
        self.history.push(Line {
            process: name(guard.task),
            key: text(key),
            who: name(guard.task),
            invoke: guard.begun,
            returned: Some(now),
            heard: Heard::Done,
            asked: Asked::Acquire { mode, fence, until },
        });
    }

    /// Reads a node's reports. `takes` is true if a token takes locks that are done.
    pub fn hear(
        &mut self,
        node: usize,
        log: &[Report],
        (now, true_now): (Instant, u64),
        takes: impl Fn(&[u8]) -> bool,
    ) {
        for event in log {
            match event {
                Report::Done { key, record, until, .. } => {
                    self.leases_at(node, key).clear();
                    self.recorded(node, key, (record, *until), true_now);
                }
                Report::AllExpired(key, _) => self.leases_at(node, key).clear(),
                Report::Ended { key, token, .. } => {
                    self.leases_at(node, key).retain(|lease| lease.token != *token);
                }
                Report::Granted { key, mode, holder, .. } => {
                    if takes(holder.grant().token) {
                        self.taken(node, key, true_now);
                    }
                    self.granted(node, key, Lease::of(*mode, holder), true, now);
                    self.counts(node, key.clone(), holder.grant().fence);
                }
                Report::Renewed { key, mode, holder } => {
                    self.granted(node, key, Lease::of(*mode, holder), false, now);
                    let counted = self.counted.entry((node, key.clone())).or_default();
                    *counted = (*counted).max(holder.grant().fence.0);
                }
                Report::TextRemoved(_) | Report::Answered(..) => {}
            }
        }
    }

    /// A lease came back after a start, and runs at full length again.
    pub fn came_back(
        &mut self,
        node: usize,
        key: &KeyBuf,
        token: &[u8],
        mode: Mode,
        end: Deadline,
    ) {
        let leases = self.leases_at(node, key);
        let before = leases.iter().find(|lease| *lease.token == *token);
        let is_stale = before.is_none_or(|before| before.is_stale);
        leases.retain(|lease| *lease.token != *token);
        leases.push(Lease { token: token.into(), mode, end, is_stale });
    }

    /// Another server is the node's primary. `end`: the end of the old primary's lease, by the new one's
    /// clock. `None`: the new one cannot know of the lease, so no promise holds for its key.
    pub fn hand_over(
        &mut self,
        node: usize,
        now: u64,
        end: impl Fn(&KeyBuf, Deadline) -> Option<Deadline>,
    ) {
        let mut unknown = Vec::new();
        for ((_, key), leases) in self.leases.iter_mut().filter(|((of, _), _)| *of == node) {
            leases.retain_mut(|lease| match end(key, lease.end) {
                Some(end) => {
                    lease.end = end;
                    true
                }
                None => {
                    unknown.push(key.clone());
                    false
                }
            });
        }
        unknown.iter().for_each(|key| self.excuse(key, now));
    }

    /// True if a client may hold at a node without being `known` there.
    pub fn may_hold(
        &self,
        node: usize,
        now: Instant,
        known: impl Fn(&KeyBuf, &[u8]) -> bool,
    ) -> bool {
        let of_node = self.leases.iter().filter(|((of, _), _)| *of == node);
        of_node
            .flat_map(|((_, key), leases)| leases.iter().map(move |lease| (key, lease)))
            .any(|(key, lease)| !lease.end.is_over(now) && !known(key, &lease.token))
    }

    /// The primary of a node has granted fences that no other server or client has received.
    pub fn forget_fences(&mut self, node: usize, now: u64) {
        self.fences_lost = Some(now);
        self.counted.retain(|(of, _), _| *of != node);
        for book in self.keys.values_mut() {
            book.claimed.clear();
            book.highest.clear();
        }
        for line in &mut self.history {
            if let Asked::Acquire { fence, .. } = &mut line.asked {
                *fence = None;
            }
        }
    }

    fn granted(&mut self, node: usize, key: &KeyBuf, mut lease: Lease, is_new: bool, now: Instant) {
        let leases = self.leases_at(node, key);
        let before = leases.iter().find(|old| old.token == lease.token);
        lease.is_stale = !is_new && before.is_some_and(|before| before.is_stale);
        leases.retain(|old| old.token != lease.token && !old.end.is_over(now));
        let both = |old: &Lease| old.mode == Mode::Shared && lease.mode == Mode::Shared;
        // A renewal ends no lease that came back from an older data set.
        let counts = |old: &&Lease| !both(old) && !lease.is_stale && (is_new || !old.is_stale);
        let beside = leases.iter().find(counts);
        let how = beside.map(|old| format!("node {node}: {lease:?} beside {old:?}"));
        leases.push(lease);
        if let Some(how) = how {
            self.accuse(NO_GRANT_BESIDE, how);
        }
    }

    /// A claim that fails may have taken over a completion record all the same: the lock need not be done any
    /// more.
    fn taken(&mut self, node: usize, key: &KeyBuf, now: u64) {
        let book = self.keys.entry(key.clone()).or_default();
        let is_here = |(nodes, end): &(BTreeSet<usize>, u64)| nodes.contains(&node) && now < *end;
        if book.records.values().any(is_here) {
            book.taken = Some(now);
            book.done.clear();
        }
    }

    fn recorded(&mut self, node: usize, key: &KeyBuf, record: (&[u8], Option<Until>), now: u64) {
        let (Some(done), Some(until)) = (Done::decode(record.0), record.1) else { return };
        let book = self.keys.entry(key.clone()).or_default();
        let (nodes, end) = book.records.entry(done.fence).or_default();
        nodes.insert(node);
        // A clock may be this much slow, and the answer is on its way.
        *end = (*end).max(now + until.left.0 * 1_006 + ON_ITS_WAY);
    }

    fn counts(&mut self, node: usize, key: KeyBuf, fence: Fence) {
        let counted = self.counted.entry((node, key)).or_default();
        let before = std::mem::replace(counted, fence.0);
        if before >= fence.0 {
            self.accuse(NODE_COUNTS, format!("node {node}: {fence:?} after {before}"));
        }
    }

    fn leases_at(&mut self, node: usize, key: &KeyBuf) -> &mut Vec<Lease> {
        self.leases.entry((node, key.clone())).or_default()
    }
}

fn name(task: usize) -> String {
    format!("task {task}")
}

fn text(key: &KeyBuf) -> String {
    String::from_utf8_lossy(&key.name).into_owned()
}

/// A message may be on its way, or a process paused, for this long.
const ON_ITS_WAY: u64 = 10_000_000;
