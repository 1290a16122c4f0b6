//! A Redis Cluster as one node: each key is at one of its primaries.
//!
//! The client reads the slot map from several servers at once, and takes the one with the highest epoch. Redirects
//! correct it. After a failed connection to a server, one request reads the map again for all. A server that shares
//! no member with the map belongs to another cluster. [`map`]: the slot map. [`survey`]: asks servers for it.
//! [`redirect`]: the servers' redirects.

pub(crate) mod map;
pub(crate) mod redirect;
pub(crate) mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::address::host::Host;
use super::identity::Identities;
use super::server_connections::ServerConnections;
use super::wire::Wire;
use crate::report::NodeError;
use map::Slots;
use survey::newest;

/// A cluster, and the connections to its servers.
pub(crate) struct Cluster {
    identities: Arc<Identities>,
    place: usize,
    slots: RwLock<Slots>,
    servers: Mutex<BTreeMap<Host, Arc<ServerConnections>>>,
    /// Locked while the map is read; the outcome of the last reading.
    reading: tokio::sync::Mutex<Option<Reading>>,
}

/// One reading of the map.
struct Reading {
    since: Instant,
    /// The error; `None` also before the outcome is known.
    failed: Option<NodeError>,
}

impl Cluster {
    pub(crate) fn new(identities: Arc<Identities>, place: usize) -> Cluster {
        Cluster {
            identities,
            place,
            slots: RwLock::new(Slots::new()),
            servers: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the server that has a slot, or any server for a request without one.
    pub(crate) async fn owner(&self, slot: Option<u16>) -> Result<Host, NodeError> {
        let (known, version) = self.known(slot);
        if let Some(host) = known {
            return Ok(host);
        }
        self.read(version).await?;
        self.known(slot).0.ok_or_else(|| {
            let slot = slot.map_or("any slot".to_owned(), |slot| format!("slot {slot}"));
            NodeError::Refused(format!("CLUSTERDOWN no server of the cluster has {slot}"))
        })
    }

    fn known(&self, slot: Option<u16>) -> (Option<Host>, u64) {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let owner = slot.map_or_else(|| slots.anybody(), |slot| slots.owner(slot));
        (owner.cloned(), slots.version)
    }

    /// Reads the map again. Returns true if another server than this one has the slot.
    ///
    /// # Errors
    /// Fails if no server returns the map.
    pub(crate) async fn has_left(&self, slot: Option<u16>, host: &Host) -> Result<bool, NodeError> {
        let (_, version) = self.known(slot);
        let read = self.read(version).await.inspect_err(|error| {
            debug!(node = self.identities.name(self.place), %error, "no map of the slots");
        });
        // A redirect may have named another owner meanwhile.
        let has_left = self.known(slot).0.is_some_and(|owner| owner != *host);
        read.map(|()| has_left).or_else(|error| if has_left { Ok(true) } else { Err(error) })
    }

    /// Reads the map again in the background, unless that is under way.
    pub(crate) fn doubt(self: &Arc<Self>) {
        let cluster = Arc::clone(self);
        if cluster.reading.try_lock().is_ok() {
            let (_, version) = cluster.known(None);
            tokio::spawn(async move { cluster.read(version).await });
        }
    }

    /// Notes a slot's new server, as a redirect names it.
    pub(crate) fn moved(&self, slot: u16, to: Host) {
        let to = self.reached(to);
        debug!(node = self.identities.name(self.place), slot, %to, "a slot has moved");
        self.slots.write().unwrap_or_else(PoisonError::into_inner).moved(slot, to);
    }

    /// Returns the address to use for a server that announces this one.
    pub(crate) fn reached(&self, told: Host) -> Host {
        let seeds = self.identities.seeds(self.place);
        seeds.map_or(told.clone(), |seeds| seeds.servers.map.reached(told))
    }

    /// Returns the server that has a slot, as far as is known.
    pub(crate) fn goal(&self, slot: Option<u16>) -> Option<Host> {
        self.known(slot).0
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.identities.uses_tls(self.place)
    }

    /// Returns the connections to a server.
    pub(crate) fn server(&self, host: &Host) -> Arc<ServerConnections> {
        let mut servers = self.servers();
        let server = servers.entry(host.clone()).or_insert_with(|| {
            let identities = Arc::clone(&self.identities);
            Arc::new(ServerConnections::new(identities, self.place, Some(host.clone())))
        });
        Arc::clone(server)
    }

    pub(crate) fn hang_up(&self) {
        self.servers().values().for_each(|server| server.hang_up());
    }

    /// Reads the map again, unless it has a later version than this one, and not too often. A caller
    /// that arrives during a reading gets the outcome of that reading, or of the next.
    fn read(&self, version: u64) -> BoxFuture<'_, Result<(), NodeError>> {
        // Boxed, because it is rare, and would make the type of each request larger.
        self.read_now(version).boxed()
    }

    async fn read_now(&self, version: u64) -> Result<(), NodeError> {
        let wanted = Instant::now();
        let mut last = self.reading.lock().await;
        if self.known(None).1 != version {
            return Ok(());
        }
        if let Some(Reading { since, failed }) = &*last {
            match failed {
                // Otherwise each caller would wait for the readings of all callers before it.
                Some(error) if *since >= wanted => return Err(error.clone()),
                _ => sleep_until(*since + REST).await,
            }
        }
        let Some(seeds) = self.identities.seeds(self.place) else { return Ok(()) };
        let known = {
            let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
            slots.primaries().take(ASKED).cloned().collect::<Vec<_>>()
        };
        let asked = known.into_iter().chain(seeds.hosts.iter().cloned());
        // Open connections only: a failing cluster must not get new ones from all clients to all
        // servers.
        let up = |host: &Host| self.servers().get(host).and_then(|server| server.up());
        let asked: BTreeMap<Host, Option<Wire>> =
            asked.map(|host| (host.clone(), up(&host))).collect();
        let reading = last.insert(Reading { since: Instant::now(), failed: None });
        let members = self.identities.members(self.place);
        let mut found =
            match newest(seeds, asked, &members, self.identities.timeout.max(SLOW)).await {
                Ok(found) => found,
                Err(error) => {
                    reading.failed = Some(error.clone());
                    return Err(error);
                }
            };
        found.version = version + 1;
        self.identities.has_members(self.place, found.members.clone());
        let gone = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            *slots = found;
            let stays: BTreeSet<&Host> = slots.primaries().collect();
            let mut servers = self.servers();
            let gone: Vec<Host> =
                servers.keys().filter(|host| !stays.contains(host)).cloned().collect();
            gone.iter().filter_map(|host| servers.remove(host)).collect::<Vec<_>>()
        };
        gone.iter().for_each(|server| server.hang_up());
        Ok(())
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<Host, Arc<ServerConnections>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limit of known servers that are asked for the map.
const ASKED: usize = 8;
/// Shortest pause between readings.
const REST: Duration = Duration::from_millis(100);
/// Shortest time-out for connecting to a server and reading its map.
const SLOW: Duration = Duration::from_secs(1);
