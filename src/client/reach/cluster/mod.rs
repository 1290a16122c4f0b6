//! A Redis Cluster as one node: each key is at one of its primaries.
//!
//! The client reads the slot map from several servers at once, and takes the one with the highest epoch. Redirects
//! correct it. After a failed connection to a server, one request reads the map again for all. A server that shares
//! no member with the map belongs to another cluster. [`map`]: the slot map. [`redirect`]: the servers' redirects.

pub(crate) mod map;
pub(crate) mod redirect;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::cmd;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::address::Seeds;
use super::address::host::Host;
use super::identity::Identities;
use super::server_connections::ServerConnections;
use super::wire::Wire;
use crate::printable::brief;
use crate::report::NodeError;
use map::Slots;

/// A cluster, and the connections to its servers.
pub(crate) struct Cluster {
    identities: Arc<Identities>,
    place: usize,
    timeout: Duration,
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
    pub(crate) fn new(identities: Arc<Identities>, place: usize, timeout: Duration) -> Cluster {
        Cluster {
            identities,
            place,
            timeout,
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
            Arc::new(ServerConnections::new(
                identities,
                self.place,
                Some(host.clone()),
                self.timeout,
            ))
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
        let mut found = match newest(seeds, asked, &members, self.timeout.max(SLOW)).await {
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

/// Returns the map with the highest epoch among the answers of a majority, or, after a short wait, of fewer. If
/// members of the cluster are known, a server of another cluster counts only if it is a seed and no member answers.
/// An open connection proves membership: the server was recognised when it was opened.
pub(crate) async fn newest(
    seeds: &Seeds,
    asked: BTreeMap<Host, Option<Wire>>,
    members: &BTreeSet<String>,
    within: Duration,
) -> Result<Slots, NodeError> {
    let majority = asked.len() / 2 + 1;
    let ask = async |host: Host, wire: Option<Wire>| {
        let (is_seed, is_known) = (seeds.hosts.contains(&host), wire.is_some());
        let (epoch, slots) = ask(seeds, host.clone(), wire, within).await?;
        match is_known || is_member(members, &slots) {
            false if !is_seed => Err(NodeError::Unreachable(STRANGER.to_owned()).at(&host)),
            is_member => Ok(((is_member, epoch), slots)),
        }
    };
    let mut coming: FuturesUnordered<_> =
        asked.into_iter().map(|(host, wire)| ask(host, wire)).collect();
    let mut found: Option<((bool, u64), Slots)> = None;
    let mut answers = 0;
    let mut failed = Vec::new();
    loop {
        let next = coming.next();
        let next = match &found {
            None | Some(((false, _), _)) => next.await,
            Some(_) if answers >= majority => None,
            Some(_) => timeout(GRACE, next).await.unwrap_or(None),
        };
        match next {
            None => break,
            Some(Ok((rank, slots))) => {
                answers += usize::from(rank.0);
                if found.as_ref().is_none_or(|(best, _)| rank > *best) {
                    found = Some((rank, slots));
                }
            }
            Some(Err(error)) => failed.push(error),
        }
    }
    found.map(|(_, slots)| slots).ok_or_else(|| no_answer(failed))
}

/// True if this map is one of the cluster that has these members, as far as any are known.
fn is_member(members: &BTreeSet<String>, slots: &Slots) -> bool {
    members.is_empty() || !members.is_disjoint(&slots.members)
}

/// Returns the members of the server's cluster. Fails unless some of these are among them: another server may have
/// the address by now.
pub(crate) async fn recognise(
    wire: &Wire,
    host: &Host,
    seeds: &Seeds,
    members: &BTreeSet<String>,
    within: Duration,
) -> Result<BTreeSet<String>, NodeError> {
    let read = timeout(within, map_of(wire, host, seeds)).await;
    match read.unwrap_or(Err(NodeError::TimedOut(within))) {
        Ok(slots) if is_member(members, &slots) => Ok(slots.members),
        Ok(_) => Err(NodeError::Unreachable(STRANGER.to_owned())),
        Err(NodeError::Unfit(why)) => Err(NodeError::Unreachable(why)),
        Err(error) => Err(error),
    }
}

/// Reads a server's map.
async fn map_of(wire: &Wire, host: &Host, seeds: &Seeds) -> Result<Slots, NodeError> {
    let reply = wire.send(cmd("CLUSTER").arg("SLOTS")).await.map_err(explained)?;
    Slots::read(&reply, &host.name, &seeds.servers.map).map_err(|part| {
        let part = brief(format_args!("{part:?}"));
        NodeError::Unfit(format!("its map of the slots cannot be understood: {part}"))
    })
}

/// Joins the errors of all servers. Errors that may pass decide over those that will not.
fn no_answer(mut failed: Vec<NodeError>) -> NodeError {
    failed.sort_by_key(|error| !matches!(error, NodeError::Unreachable(_)));
    let words = |error: &NodeError| match error {
        NodeError::Unreachable(why) => why.clone(),
        other => other.to_string(),
    };
    let all: Vec<String> = failed.iter().map(words).collect();
    match failed.into_iter().next() {
        Some(NodeError::Unreachable(_)) => NodeError::Unreachable(all.join("; ")),
        Some(error) => error,
        None => NodeError::Unreachable("no server of the cluster is known".to_owned()),
    }
}

/// Reads one server's map, and its epoch, over this connection or a new one.
async fn ask(
    seeds: &Seeds,
    host: Host,
    wire: Option<Wire>,
    within: Duration,
) -> Result<(u64, Slots), NodeError> {
    let used = wire.clone();
    let asked = async {
        let endpoint = seeds.servers.endpoint(&host).map_err(|error| NodeError::from(&error))?;
        let wire = match wire {
            Some(wire) => wire,
            None => Wire::open(&endpoint, within).await?,
        };
        let slots = map_of(&wire, &host, seeds).await?;
        // Without permission for CLUSTER INFO the epoch counts as 0.
        let epoch = match wire.send(cmd("CLUSTER").arg("INFO")).await {
            Ok(info) => epoch(&info).unwrap_or(0),
            Err(_) => 0,
        };
        Ok((epoch, slots))
    };
    let answer = timeout(within, asked).await.unwrap_or_else(|_| {
        // The next reading asks over a new connection.
        used.iter().for_each(Wire::retire);
        Err(NodeError::TimedOut(within))
    });
    answer.map_err(|error| error.at(&host))
}

fn epoch(info: &redis::Value) -> Option<u64> {
    let text: String = redis::from_redis_value_ref(info).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"))?;
    line.trim().parse().ok()
}

/// Explains the error of a server that is not in a cluster.
fn explained(error: NodeError) -> NodeError {
    match error {
        NodeError::Refused(why) if why.contains("cluster support disabled") => NodeError::Unfit(
            "it is no member of a Redis Cluster: write redis://host:port".to_owned(),
        ),
        NodeError::Refused(why) if why.contains("unknown command") => NodeError::Unfit(
            "it knows no CLUSTER SLOTS (is it a Sentinel? then write \
             redis+sentinel://host:26379/NAME)"
                .to_owned(),
        ),
        error => error,
    }
}

const STRANGER: &str = "it belongs to another cluster";
/// Limit of known servers that are asked for the map.
const ASKED: usize = 8;
/// Time to wait for a majority after the first answer.
const GRACE: Duration = Duration::from_millis(150);
/// Shortest pause between readings.
const REST: Duration = Duration::from_millis(100);
/// Shortest time-out for connecting to a server and reading its map.
const SLOW: Duration = Duration::from_secs(1);
