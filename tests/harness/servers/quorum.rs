//! Several nodes for one quorum, each behind a network of its own: see [`Proxy`]. They are in the clients'
//! order, so the first one is the gate, through the networks and without.
//!
//! Kinds are mixed unless a test says otherwise, as during a migration from one server to the other.

use std::fmt::Display;
use std::ops::{Deref, DerefMut};
use std::thread;

use crate::builder::Builder;
use crate::kind::Kind;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::stuck;
use crate::wait::eventually;

/// The servers of a quorum unless a test names others.
const USUAL: [Kind; 2] = [Kind::Redis82, Kind::Valkey91];

/// Independent servers with the module.
pub struct Quorum {
    nodes: Vec<Node>,
}

/// One of them, and the network in front of it.
pub struct Node {
    server: Server,
    proxy: Proxy,
}

impl Quorum {
    /// Starts this many nodes.
    #[track_caller]
    pub fn start(size: usize) -> Quorum {
        Quorum::with(size, |builder| builder)
    }

    /// Starts this many nodes, with a change to each.
    #[track_caller]
    pub fn with(size: usize, describe: impl Fn(Builder) -> Builder) -> Quorum {
        let kinds = USUAL.iter().cycle().take(size);
        Quorum::of(kinds.map(|kind| describe(Server::build(*kind))).collect())
    }

    /// Starts these nodes at the same time.
    #[track_caller]
    pub fn of(builders: Vec<Builder>) -> Quorum {
        let started = thread::scope(|scope| {
            let start = |builder: Builder| {
                let named = thread::Builder::new().name(stuck::test());
                named.spawn_scoped(scope, || builder.try_start()).expect("a thread can be started")
            };
            let starting: Vec<_> = builders.into_iter().map(start).collect();
            starting.into_iter().map(|one| one.join().expect("it starts or says why")).collect()
        });
        let servers: Result<Vec<Server>, String> = started;
        let mut servers = servers.unwrap_or_else(|log| panic!("a server did not start:\n{log}"));
        let mut proxies: Vec<Proxy> =
            servers.iter().map(|server| Proxy::start(server.port())).collect();
        servers.sort_by_key(|server| url(server.port()));
        proxies.sort_by_key(|proxy| url(proxy.port()));
        let nodes = servers.into_iter().zip(proxies).map(|(server, proxy)| {
            proxy.lead_to(server.port());
            Node { server, proxy }
        });
        Quorum { nodes: nodes.collect() }
    }

    /// The nodes' URLs, through their networks.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Node::url).collect()
    }

    /// The nodes' URLs, with no network in between.
    pub fn direct_urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| url(node.server.port())).collect()
    }

    /// The size of a majority.
    pub fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// The number of nodes where a token holds a lock.
    #[track_caller]
    pub fn held_by(&self, key: impl Display, token: &str) -> usize {
        let holds = |node: &&Node| node.holders(&key).iter().any(|holder| holder == token);
        self.nodes.iter().filter(holds).count()
    }

    /// The number of nodes where a lock is held.
    #[track_caller]
    pub fn held(&self, key: &str) -> usize {
        self.nodes.iter().filter(|node| !node.holders(key).is_empty()).count()
    }

    /// Waits until no node has a lease or a waiter, and asserts that no lease has ended by itself.
    #[track_caller]
    pub fn until_released(&self) {
        self.until_empty();
        let expired = self.nodes.iter().map(|node| node.info_number("dlock", "dlock_expiries"));
        assert_eq!(expired.sum::<i64>(), 0, "leases that were not released");
    }

    /// Waits until no node has a lease or a waiter.
    #[track_caller]
    pub fn until_empty(&self) {
        eventually("no node has a lease or a waiter", || {
            self.nodes.iter().all(|node| {
                let traces = node.traces();
                traces.leases == 0 && traces.waiters == 0
            })
        });
    }
}

impl Deref for Quorum {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.nodes
    }
}

impl DerefMut for Quorum {
    fn deref_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }
}

impl Node {
    /// The node's URL, through its network.
    pub fn url(&self) -> String {
        url(self.proxy.port())
    }

    /// The network in front of it.
    pub fn network(&self) -> &Proxy {
        &self.proxy
    }
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// A test uses the server itself, past the network.
impl Deref for Node {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}
