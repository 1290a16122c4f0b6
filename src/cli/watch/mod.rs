//! Polls the nodes, for `dlock top` and `dlock exporter`.
//!
//! [`look`]: one look at a node. [`pace`]: rates that follow from several.
//!
//! A look costs a node INFO of two sections, DLOCK.HOT, and DLOCK.INSPECT of some hot keys. It never scans
//! the keyspace.

pub mod look;
pub mod pace;

use std::time::{Duration, Instant};

use dlock_client::Key;
use futures_util::future::join_all;

use crate::locks::inspect::{self, Inspections};
use crate::nodes::ask::{Nodes, Trouble};
use crate::nodes::link::Link;
use look::{HotKey, NodeLook};
use pace::{Pace, Track};

/// Polls the servers of the nodes.
pub struct Watch {
    nodes: Nodes,
    /// The servers of the nodes, as they were found last, and the time of that.
    servers: Vec<PolledServer>,
    found: Option<Instant>,
    /// Number of hot keys to ask for.
    hot: usize,
}

/// One server, or the error of looking for it.
struct PolledServer {
    name: String,
    link: Result<Link, Trouble>,
    track: Track,
}

/// The reports of all servers at one moment.
pub struct Look {
    pub nodes: Vec<Seen>,
}

/// The report of one server.
pub struct Seen {
    pub name: String,
    pub look: Result<NodeLook, Trouble>,
    /// Rates that follow from this look and those before.
    pub pace: Pace,
}

impl Watch {
    pub fn new(nodes: Nodes, hot: usize) -> Watch {
        Watch { nodes, servers: Vec::new(), found: None, hot }
    }

    /// Looks at all servers at once.
    pub async fn look(&mut self) -> Look {
        self.find().await;
        let hot = self.hot;
        let seen = join_all(self.servers.iter_mut().map(|server| server.look(hot))).await;
        // Another server may have taken the place of one that fails.
        if seen.iter().any(|seen| seen.look.is_err()) {
            self.found = None;
        }
        Look { nodes: seen }
    }

    /// Asks every node for a lock's holders and waiters.
    pub async fn inspect(&self, key: &[u8]) -> Inspections {
        inspect::ask(&self.nodes, &Key::from(key), false).await
    }

    /// Finds the servers of the nodes again after a while: they may change behind Sentinels and in a cluster.
    async fn find(&mut self) {
        if self.found.is_some_and(|found| found.elapsed() < FOUND_FOR) {
            return;
        }
        let mut before = std::mem::take(&mut self.servers);
        let timeout = self.nodes.timeout();
        for (name, server) in self.nodes.servers().await {
            let same = before.iter().position(|server| server.name == name && server.link.is_ok());
            let known = same.filter(|_| server.is_ok()).map(|at| before.swap_remove(at));
            let link = server.map(|server| Link::new(server.endpoint, timeout));
            let new = || PolledServer { name, link, track: Track::default() };
            self.servers.push(known.unwrap_or_else(new));
        }
        self.found = Some(Instant::now());
    }
}

/// Time until the servers are looked up again, if all answer.
const FOUND_FOR: Duration = Duration::from_secs(10);

impl PolledServer {
    async fn look(&mut self, hot: usize) -> Seen {
        let look = match &mut self.link {
            Ok(link) => look::at(link, hot).await,
            Err(trouble) => Err(trouble.clone()),
        };
        let pace = self.track.follow(look.as_ref().ok(), Instant::now());
        Seen { name: self.name.clone(), look, pace }
    }
}

impl Look {
    /// The most contended keys of all nodes, the worst first. A key that is contended on several is shown once,
    /// from the node with the longest waits: its waiters queue there.
    pub fn hot(&self) -> Vec<&HotKey> {
        let looks = self.nodes.iter().filter_map(|seen| seen.look.as_ref().ok());
        let mut keys: Vec<&HotKey> =
            looks.filter_map(|look| look.hot.as_ref().ok()).flatten().collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.waited));
        let mut shown: Vec<&HotKey> = Vec::new();
        for key in keys {
            if !shown.iter().any(|other| other.is_same_as(key)) {
                shown.push(key);
            }
        }
        shown
    }
}
