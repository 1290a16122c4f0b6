//! One node on a host in memory, called with the words of the commands. All at one key.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::command::release::Release;
use crate::command::{acquire, extend};
use crate::durability::promise::Promise;
use crate::durability::quarantine::Start;
use crate::durability::record::{Ended, Record};
use crate::node::host::{Ending, WaitOutcome};
use crate::node::{Acquired, Node};
use crate::reason::Reason;
use crate::simulated::{MemoryHost, Replicated, Report, Value};
use crate::words::{ClientId, Deadline, Fence, Instant, Key, Millis, Time, WaiterId};

pub const KEY: Key<'static> = Key { db: 0, name: b"key" };

/// The connection that extends, where that makes no difference.
pub const OTHER: ClientId = ClientId(999);

pub struct Bench {
    pub node: Node,
    pub host: MemoryHost,
    /// The time in microseconds, on both clocks.
    pub now: u64,
    /// The lead of its wall clock over that, in microseconds.
    pub ahead: u64,
}

impl Bench {
    pub fn new() -> Bench {
        let (node, host) = (Node::default(), MemoryHost::default());
        let mut bench = Bench { node, host, now: 0, ahead: 0 };
        bench.node.settings.newborn_quarantine = 0;
        bench.pass(1_000_000);
        bench
    }

    /// Starts the node without a state file, and with nothing else.
    pub fn begin_anew(&mut self) {
        if let Some(lost) = self.node.settings.lost(self.time().unix) {
            self.node.durable.resume(&lost, self.time().now);
        }
        let (back, held) = (Ended::default(), Millis(0));
        let start = Start { before: None, back, held };
        self.node.begin(&start, true, self.time());
    }

    pub fn time(&self) -> Time {
        Time { now: Instant(self.now), unix: self.now + self.ahead }
    }

    /// Microseconds pass, without a sweep.
    pub fn pass(&mut self, micros: u64) {
        self.now += micros;
        self.host.now = Instant(self.now);
    }

    /// Microseconds pass, and the server does all due work.
    pub fn pass_and_sweep(&mut self, micros: u64) {
        self.pass(micros);
        self.sweep();
    }

    pub fn sweep(&mut self) {
        let time = self.time();
        let mut sweep = || self.node.sweep(&mut self.host, time, 100, true);
        assert!((0..1000).any(|_| !sweep()), "it never ends");
    }

    /// One sweep with its usual budget. Returns the number of leases that have ended.
    pub fn sweep_once(&mut self) -> usize {
        let (time, budget) = (self.time(), self.node.budget());
        self.node.sweep(&mut self.host, time, budget, true);
        self.endings().len()
    }

    /// Acquires this many locks for ten milliseconds, each at a key of its own.
    pub fn hold_many(&mut self, round: u32, locks: u32) {
        for number in 0..locks {
            let name = format!("{round} {number}");
            let key = Key { db: 0, name: name.as_bytes() };
            assert!(matches!(self.acquire_at(key, 1, "a 10"), Ok(Acquired::Granted(_))));
        }
    }

    pub fn acquire(&mut self, client: u64, words: &str) -> Result<Acquired, Reason> {
        self.acquire_at(KEY, client, words)
    }

    pub fn acquire_at(
        &mut self,
        key: Key<'_>,
        client: u64,
        words: &str,
    ) -> Result<Acquired, Reason> {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let ask = acquire::parse(&args).expect("a good request");
        let time = self.time();
        self.node.acquire(&mut self.host, key, &ask, ClientId(client), time)
    }

    /// Acquires a lock that must be granted.
    pub fn hold(&mut self, client: u64, words: &str) -> Fence {
        match self.acquire(client, words) {
            Ok(Acquired::Granted(fence)) => fence,
            other => panic!("{words}: {other:?}"),
        }
    }

    /// Takes the lock at some key, and releases it. Returns the fence.
    pub fn take_at(&mut self, key: Key<'_>, words: &str) -> Fence {
        let fence = match self.acquire_at(key, 1, words) {
            Ok(Acquired::Granted(fence)) => fence,
            other => panic!("{words}: {other:?}"),
        };
        let (token, _) = words.split_once(' ').unwrap();
        assert!(self.release_at(key, token).unwrap());
        fence
    }

    /// Acquires a lock that must be waited for.
    pub fn wait(&mut self, client: u64, words: &str) -> WaiterId {
        match self.acquire(client, words) {
            Ok(Acquired::Waiting(id)) => id,
            other => panic!("{words}: {other:?}"),
        }
    }

    /// A waiter is unblocked.
    pub fn gone(&mut self, id: WaiterId) {
        self.node.gone(id, Instant(self.now));
    }

    /// The connection of a waiter or holder breaks.
    pub fn closed(&mut self, client: u64, id: WaiterId) {
        self.node.closed(ClientId(client));
        self.gone(id);
    }

    /// The lock is removed from outside.
    pub fn removed(&mut self, key: Key<'_>, top: Fence) {
        let now = self.time().now;
        self.node.removed(&mut self.host, key, top, now);
    }

    /// The server evicts the lock.
    pub fn evict(&mut self, key: Key<'_>) {
        let (_, holders) = self.host.holders(&key.to_owned());
        self.host.take(&key.to_owned());
        let grants = holders.iter().map(|holder| holder.grant());
        grants.clone().for_each(|grant| {
            self.node.lost(key, grant.token, grant.client);
        });
        let end = grants.clone().map(|grant| grant.lease.end).max().expect("a lock");
        let top = grants.map(|grant| grant.fence).max().expect("a lock");
        self.node.evict(key, end, top);
    }

    pub fn flushed(&mut self, db: Option<u32>) {
        let now = self.time().now;
        self.node.flushed(&mut self.host, db, now);
    }

    pub fn follow(&mut self) {
        let now = self.time().now;
        self.node.follow(&mut self.host, now);
    }

    pub fn release(&mut self, token: &str) -> bool {
        self.release_at(KEY, token).unwrap()
    }

    pub fn release_at(&mut self, key: Key<'_>, token: &str) -> Result<bool, Reason> {
        let time = self.time();
        self.node.release(&mut self.host, key, &plain(token), time)
    }

    /// The token releases its lock with DONE.
    pub fn finish(&mut self, token: &str) -> Result<bool, Reason> {
        let time = self.time();
        let ask = Release { is_final: true, ..plain(token) };
        self.node.release(&mut self.host, KEY, &ask, time)
    }

    pub fn extend(&mut self, words: &str) -> Result<bool, Reason> {
        self.extend_at(KEY, words)
    }

    pub fn extend_at(&mut self, key: Key<'_>, words: &str) -> Result<bool, Reason> {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let ask = extend::parse(&args).expect("a good request");
        let time = self.time();
        self.node.extend(&mut self.host, key, &ask, OTHER, time)
    }

    pub fn check(&mut self, token: &str) -> Option<Fence> {
        let time = self.time();
        self.node.check(&mut self.host, KEY, token.as_bytes(), time).unwrap()
    }

    pub fn break_lock(&mut self, token: Option<&str>) -> usize {
        let time = self.time();
        self.node.break_lock(&mut self.host, KEY, token.map(str::as_bytes), time).unwrap()
    }

    /// A replica that has received all effects of this node by this time.
    pub fn follower(&self, now: u64) -> Bench {
        let mut follower = Bench::new();
        follower.follow();
        follower.pass(now - follower.now);
        let time = follower.time();
        for effect in self.host.log.iter().filter_map(Replicated::write) {
            assert!(effect.carry_out(&mut follower.node, &mut follower.host, time), "{effect:?}");
        }
        follower
    }

    /// The server has crashed, and starts again with nothing but its state file.
    pub fn crash(&mut self, said: Promise) {
        let settings = self.node.settings;
        self.node = Node { settings, ..Node::default() };
        let now = self.time().now;
        self.host = MemoryHost::default();
        self.host.now = now;
        self.node.durable.resume(&said, now);
        let before = record(said);
        let (back, held) = (Ended::default(), Millis(0));
        let start = Start { before: Some(&before), back, held };
        self.node.begin(&start, true, self.time());
    }

    /// So many more places are left for one user.
    pub fn leave_room(&mut self, places: u64) {
        self.node.waiting.places.leave_room(self.host.owner, places);
    }

    /// Its primary has sent its promise.
    pub fn inherit(&mut self, promise: Promise) {
        self.node.durable.inherit(promise, Instant(self.now));
    }

    /// The promise to write, though no grant waits for it.
    pub fn next_promise(&mut self) -> Promise {
        let time = self.time();
        self.node.next_promise(self.host.last_end(), time)
    }

    /// The state file is written, though no grant waits for it. Returns its promise.
    pub fn write(&mut self) -> Promise {
        let promise = self.next_promise();
        self.node.promised(promise);
        promise
    }

    /// A plain string replaces any content.
    pub fn set_text(&mut self, value: &str, ttl: Option<u64>) {
        let end = ttl.map(|ttl| Deadline::after(Instant(self.now), Millis(ttl)));
        self.host.set(&KEY.to_owned(), Value::Text { value: value.as_bytes().into(), end });
    }

    /// The holders, in order, separated by spaces.
    pub fn holders(&self) -> String {
        let (_, holders) = self.host.holders(&KEY.to_owned());
        join(holders.iter().map(|holder| holder.grant().token))
    }

    /// The number of holders that have been away, or have asked with TURN only, since the grant.
    pub fn away(&self) -> usize {
        let (_, holders) = self.host.holders(&KEY.to_owned());
        holders.iter().filter(|holder| holder.grant().client == ClientId::AWAY).count()
    }

    /// The milliseconds left of the first holder's lease.
    pub fn left(&self) -> u64 {
        let (_, holders) = self.host.holders(&KEY.to_owned());
        holders[0].grant().lease.end.left(self.time().now).0
    }

    /// The waiters, in order, separated by spaces.
    pub fn waiters(&self) -> String {
        let queue = self.node.waiting.queue(KEY);
        join(queue.into_iter().flat_map(|queue| queue.iter()).map(|waiter| &*waiter.token))
    }

    /// The answers since the last look.
    pub fn answers(&mut self) -> Vec<(WaiterId, WaitOutcome)> {
        let log = core::mem::take(&mut self.host.log);
        let answer = |event| match event {
            Report::Answered(id, answer) => Some((id, answer)),
            _ => None,
        };
        log.into_iter().filter_map(answer).collect()
    }

    /// The tokens of the grants that have ended since the last call, with the causes.
    pub fn endings(&mut self) -> Vec<(String, Ending)> {
        let log = core::mem::take(&mut self.host.log);
        let ending = |event| match event {
            Report::Ended { token, why, .. } => Some((join([&*token].into_iter()), why)),
            _ => None,
        };
        log.into_iter().filter_map(ending).collect()
    }
}

/// The record of a node that has crashed.
pub fn record(said: Promise) -> Record {
    let (fence, unix, bound) = (said.fence, said.unix, said.longest());
    Record { node_id: 1, boot: 1, fence, unix, bound, ended: None }
}

fn plain(token: &str) -> Release<'_> {
    Release { token: token.as_bytes(), is_final: false, done: None }
}

fn join<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> String {
    let tokens: Vec<String> =
        tokens.map(|token| String::from_utf8_lossy(token).to_string()).collect();
    tokens.join(" ")
}
