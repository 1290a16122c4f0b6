//! Replication between the primary of a node and its replica: in order, late, and sometimes never.

use std::collections::{BTreeMap, VecDeque};

use dlock_core::command::apply::{self, Apply};
use dlock_core::quorum::Rules;
use dlock_core::simulated::Replicated;
use dlock_core::{Fence, Holder, KeyBuf, Millis, Mode};

use super::flaw::Flaw;
use super::stream::Sent;
use super::world::{Event, World};

/// A node with a replica.
#[derive(Debug)]
pub struct Pair {
    /// The primary.
    pub leader: usize,
    /// The primary before, until it learns that it was replaced.
    pub deposed: Option<usize>,
    /// True while a promotion is due.
    pub(super) is_failing_over: bool,
    /// The messages on their way to the replica, and when they arrive.
    pub(super) queue: VecDeque<(u64, Sent)>,
    /// True while the replica follows.
    pub(super) follows: bool,
    /// Until this time the replica receives nothing.
    pub(super) cut_until: u64,
    /// The time of the replica's last sign of life at the primary.
    pub(super) heard: u64,
    /// Before this time nothing of the stream arrives: the replica asks for it when it has its data set.
    pub(super) streams_from: u64,
    /// True if a message has been lost.
    pub(super) has_lost: bool,
    /// The primary's grants when it stopped. After a crash its data set may be an older one.
    pub(super) left: Vec<(KeyBuf, Mode, Holder)>,
    pub(super) known: Known,
}

/// The data that have reached a replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// True once it has a data set.
    pub(super) is_synced: bool,
    /// True if it was the primary until now: it has its own data set.
    has_led: bool,
    /// The lease bound that its primary has promised, once it was told.
    told: Option<Millis>,
    /// Leases that its primary does not know either have ended by then.
    until: u64,
    pub(super) fence: Fence,
    /// The leases that were replicated, and when.
    leases: BTreeMap<KeyBuf, Vec<(u64, Millis)>>,
}

impl Known {
    /// The data of a server that was the primary until now.
    pub(super) fn of_former_primary() -> Known {
        Known { has_led: true, ..Known::default() }
    }

    /// True if it can take over.
    pub(super) fn has_data(&self) -> bool {
        self.is_synced || self.has_led
    }

    /// True if it can know of a lease of this length.
    pub(super) fn covers(&self, key: &KeyBuf, ttl: Millis, now: u64) -> bool {
        let recent = |lease: &&(u64, Millis)| lease.0 + REMEMBERED > now;
        let leases = self.leases.get(key).into_iter().flatten();
        let unknown = now + ttl.0 * 1_000 <= self.until;
        unknown
            || self.told.is_none_or(|told| told >= ttl)
            || leases.filter(recent).any(|(_, replicated)| *replicated >= ttl)
    }

    pub(super) fn note(&mut self, sent: &Sent, now: u64) {
        match sent {
            Sent::DataSet(grants) => {
                (self.is_synced, self.told, self.until) = (true, None, 0);
                for (key, _, holder) in grants {
                    self.note_lease(key, holder.grant().lease.ttl, holder.grant().fence, now);
                }
            }
            Sent::Effect(Replicated(key, written, _)) => {
                if let Ok(Apply::Grant(granted)) = apply::parse(&[written]) {
                    self.note_lease(key, granted.ttl, granted.fence, now);
                }
            }
            Sent::Promise(promise, _) => {
                self.told = Some(promise.bound);
                self.until = now + promise.quarantine.0 * 1_000;
                self.fence = self.fence.max(promise.fence);
            }
        }
    }

    fn note_lease(&mut self, key: &KeyBuf, ttl: Millis, fence: Fence, now: u64) {
        self.leases.entry(key.clone()).or_default().push((now, ttl));
        self.fence = self.fence.max(fence);
    }
}

impl<R: Rules> World<R> {
    /// The node of a server.
    pub fn node_of(&self, server: usize) -> usize {
        server % self.nodes
    }

    /// The server that speaks for a node.
    pub fn leader(&self, node: usize) -> usize {
        self.pairs.get(&node).map_or(node, |pair| pair.leader)
    }

    /// True if a server speaks for its node.
    pub fn leads(&self, server: usize) -> bool {
        self.leader(self.node_of(server)) == server
    }

    pub(super) fn follower(&self, node: usize) -> usize {
        let leader = self.leader(node);
        if leader < self.nodes { leader + self.nodes } else { leader - self.nodes }
    }

    /// True if a server was replaced and does not know it.
    pub(super) fn is_deposed(&self, server: usize) -> bool {
        let pair = self.pairs.get(&self.node_of(server));
        pair.is_some_and(|pair| pair.deposed == Some(server))
    }

    /// The server that a process finds for a node.
    pub fn finds(&self, process: usize, node: usize) -> usize {
        self.processes[process].finds.get(&node).copied().unwrap_or(node)
    }

    /// Gives nodes replicas, at the beginning.
    pub fn add_replicas(&mut self) {
        self.max_lag = self.dice.one_of(&[None, Some(500_000), Some(2_000_000)]);
        self.lag = self.dice.one_of(&[1_000, 50_000, 500_000, 3_000_000]);
        for node in 0..self.nodes {
            let mut replica = super::server::Server::new(&mut self.dice, self.flaw);
            let has_one = self.nodes == 1 || self.dice.chance(750);
            (replica.leads, replica.stays_away) = (false, !has_one);
            self.servers.push(replica);
            if has_one {
                self.servers[node].stream.has_replica = true;
                self.pairs.insert(node, Pair::new(node));
            }
        }
        let World { dice, servers, processes, .. } = self;
        let silent = self.flaw == Some(Flaw::RenewsInSilence);
        for server in servers.iter_mut() {
            server.stream.hides_renewals = silent;
            server.clock.set(dice, CLOCKS);
        }
        for process in processes.iter_mut() {
            process.clock.set(dice, CLOCKS);
            process.cut_until.resize(servers.len(), 0);
        }
        self.alarms.resize(self.servers.len(), 0);
    }

    // --- replication -----------------------------------------------------------------------------

    /// A server has started: its replica attaches, or it attaches to its primary.
    pub fn will_attach(&mut self, node: usize) {
        if let Some(pair) = self.pairs.get_mut(&node) {
            pair.has_lost |= !pair.follows;
            let after = self.dice.one_of(&[1_000, 100_000, 1_000_000]);
            let after = self.dice.between(100, after);
            self.later(after, Event::Attach { node });
        }
    }

    pub(super) fn attach(&mut self, node: usize) {
        let (leader, follower) = (self.leader(node), self.follower(node));
        let now = self.now;
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        let there = self.servers[leader].is_up && self.servers[follower].is_up;
        if !there || pair.deposed.is_some() || pair.follows {
            return;
        }
        if pair.cut_until > now {
            let at = pair.cut_until;
            return self.at(at, Event::Attach { node });
        }
        let (longest, ask) =
            (self.dice.one_of(&[200, 50_000, 2_000_000]), &[200, 10_000, 1_000_000]);
        let arrives = now + self.dice.between(100, longest);
        let asks = self.dice.one_of(ask);
        let server = &mut self.servers[leader];
        let data_set = Sent::DataSet(server.host.grants());
        (pair.follows, pair.has_lost, pair.heard) = (true, false, now);
        pair.streams_from = arrives + self.dice.between(100, asks);
        pair.queue = VecDeque::from([(arrives, data_set)]);
        server.carry_on();
        server.stream.sent.clear();
        server.file.is_news = true;
        if self.flaw != Some(Flaw::TellsLate) {
            server.tell(server.time(now));
        }
        self.say(format!("server {follower} follows server {leader}"));
        self.at(arrives, Event::Deliver { node });
        self.settle(leader);
    }

    /// Sends the reports of a primary to its replica.
    pub fn replicate(&mut self, server: usize) {
        let node = self.node_of(server);
        let stream = std::mem::take(&mut self.servers[server].stream.sent);
        if stream.is_empty() {
            return;
        }
        for sent in &stream {
            if let Sent::Promise(promise, _) = sent {
                self.check_told(server, promise);
            }
        }
        let delay = self.dice.between(100, self.lag);
        let (now, leads) = (self.now, self.leads(server));
        let Some(pair) = self.pairs.get_mut(&node).filter(|pair| leads && pair.follows) else {
            return;
        };
        let last = pair.queue.back().map_or(0, |(at, _)| *at);
        let at = (now.max(pair.cut_until) + delay).max(last).max(pair.streams_from);
        pair.queue.extend(stream.into_iter().map(|sent| (at, sent)));
        self.at(at, Event::Deliver { node });
    }

    pub(super) fn deliver(&mut self, node: usize) {
        let (follower, now) = (self.follower(node), self.now);
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        let server = &mut self.servers[follower];
        let until = pair.cut_until.max(server.paused_until);
        if pair.queue.is_empty() {
            return;
        }
        if until > now {
            return self.at(until, Event::Deliver { node });
        }
        while pair.queue.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, sent)) = pair.queue.pop_front() else { break };
            pair.known.note(&sent, now);
            server.hear(sent, now);
        }
        self.settle(follower);
    }

    /// Decides whether a server must not write, because it has lost touch with its replica.
    pub fn look_at_link(&mut self, server: usize) {
        let node = self.node_of(server);
        if !self.pairs.contains_key(&node) {
            return;
        }
        let (now, max_lag) = (self.now, self.max_lag);
        let is_deposed = self.is_deposed(server);
        let follower = &self.servers[self.follower(node)];
        let answers = follower.is_up && follower.paused_until <= now;
        let leads = self.leads(server);
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        if leads && answers && pair.follows && pair.cut_until <= now {
            pair.heard = now;
        }
        let silent = !pair.follows || now > pair.heard + max_lag.unwrap_or(u64::MAX / 2);
        self.servers[server].host.refuses = max_lag.is_some() && (is_deposed || silent);
    }

    /// A server of a pair has stopped. Part of its messages is on the way.
    pub(super) fn breaks_off(&mut self, server: usize) {
        let (node, leads) = (self.node_of(server), self.leads(server));
        let Some(pair) = self.pairs.get_mut(&node) else { return };
        if pair.deposed == Some(server) {
            return;
        }
        pair.follows = false;
        let keeps = match leads && pair.cut_until <= self.now {
            true => self.dice.below(pair.queue.len() + 1),
            false => 0,
        };
        pair.has_lost |= keeps < pair.queue.len();
        pair.queue.truncate(keeps);
        if leads {
            pair.left = self.servers[server].host.grants();
        } else {
            pair.known = Known { fence: pair.known.fence, ..Known::default() };
        }
    }

    /// Nothing reaches the replica for a while.
    pub(super) fn cut_link(&mut self, node: usize, length: u64) {
        let leader = self.leader(node);
        self.look_at_link(leader);
        if let Some(pair) = self.pairs.get_mut(&node) {
            pair.cut_until = pair.cut_until.max(self.now + length);
        }
    }
}

impl Pair {
    fn new(leader: usize) -> Pair {
        Pair {
            leader,
            deposed: None,
            is_failing_over: false,
            queue: VecDeque::new(),
            follows: false,
            cut_until: 0,
            heard: 0,
            streams_from: 0,
            has_lost: false,
            left: Vec::new(),
            known: Known::default(),
        }
    }
}

/// The error of clocks, at most. Fences are promised further ahead than that.
const CLOCKS: u64 = 10_000_000;
/// A node remembers leases for this long, at least.
const REMEMBERED: u64 = 240_000_000;
