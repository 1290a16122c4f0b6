//! The identity of the node at the other end of a connection: the server behind an address can change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_core::quorum::{Met, Occupant, Roster};
use dlock_core::words::Instant;
use futures_util::future::join_all;
use tokio::select;
use tokio::sync::watch;
use tracing::debug;

use crate::clock;
use crate::reach::about::{About, meet_one};
use crate::reach::address::host::Host;
use crate::reach::address::{Address, Place, Seeds};
use crate::reach::cluster::survey::recognise;
use crate::reach::endpoint::Endpoint;
use crate::reach::sentinel::Sentinels;
use crate::reach::sentinel::primary_watch::PrimaryWatch;
use crate::reach::wire::Wire;
use crate::report::NodeError;
use crate::report::notice::{Listener, Notice};

/// The addresses, and the node-ids. Two addresses of the same node would count one vote twice.
pub(crate) struct Identities {
    entries: Vec<Entry>,
    roster: Mutex<Roster<String>>,
    /// Wakes clients when a node's server has changed, or a connection is back.
    taken: watch::Sender<()>,
    listener: Listener,
    /// Time-out of a request that has none of its own.
    pub(crate) timeout: Duration,
}

/// An address of the list.
struct Entry {
    name: String,
    leads: Leads,
    /// End of the node's quarantine, on [`clock::now`], as the node reported it; zero without one.
    quarantined: AtomicU64,
    /// Number of returns of the connection to it.
    returns: AtomicU64,
    /// True if the node did not answer the last request or connection.
    silent: AtomicBool,
}

/// Destination of an address.
enum Leads {
    /// A server, which is recognised at any of the addresses.
    Server(Endpoint),
    /// A primary behind Sentinels, and the server that was the primary last.
    Primary { sentinels: Sentinels, last: Mutex<Option<Host>> },
    /// A cluster, and its servers' ids, as far as they are known.
    Cluster { seeds: Seeds, members: Mutex<BTreeSet<String>> },
}

impl Identities {
    pub(crate) fn new(
        addresses: Vec<Address>,
        listener: Listener,
        timeout: Duration,
    ) -> Identities {
        let roster = Mutex::new(Roster::new(addresses.len()));
        let entry = |Address { name, place }| {
            let leads = match place {
                Place::Server(endpoint) => Leads::Server(endpoint),
                Place::Cluster(seeds) => Leads::Cluster { seeds, members: Mutex::default() },
                Place::Sentinel(watched) => {
                    Leads::Primary { sentinels: Sentinels::new(watched), last: Mutex::default() }
                }
            };
            let (quarantined, returns, silent) = Default::default();
            Entry { name, leads, quarantined, returns, silent }
        };
        let entries = addresses.into_iter().map(entry).collect();
        Identities { entries, roster, taken: watch::Sender::new(()), listener, timeout }
    }

    /// Number of changes of a node's server.
    pub(crate) fn changes(&self, node: usize) -> u64 {
        self.roster().changes(node)
    }

    /// Subscribes to changes of a node's server, and to returns of a connection.
    pub(crate) fn taken(&self) -> watch::Receiver<()> {
        self.taken.subscribe()
    }

    /// True if a lock is held or being acquired: the client itself always listens.
    pub(crate) fn has_listeners(&self) -> bool {
        self.taken.receiver_count() > 1
    }

    /// Number of times the connection to a node has come back.
    pub(crate) fn returns(&self, node: usize) -> u64 {
        self.entries.get(node).map_or(0, |entry| entry.returns.load(Ordering::Relaxed))
    }

    /// Notes that the connection to a node is back.
    pub(crate) fn is_back(&self, node: usize) {
        if let Some(entry) = self.entries.get(node) {
            entry.returns.fetch_add(1, Ordering::Relaxed);
            self.taken.send_replace(());
        }
    }

    /// Notes whether a node answers, by the outcome of a request or a connection.
    pub(crate) fn hear<T>(&self, node: usize, outcome: &Result<T, NodeError>) {
        use NodeError as E;
        let silent = matches!(outcome, Err(E::Unreachable(_) | E::TimedOut(_) | E::Lapsed(_)));
        self.set_silent(node, silent);
    }

    pub(crate) fn set_silent(&self, node: usize, silent: bool) {
        self.entries[node].silent.store(silent, Ordering::Relaxed);
    }

    pub(crate) fn was_silent(&self, node: usize) -> bool {
        self.entries[node].silent.load(Ordering::Relaxed)
    }

    /// Notes the time left of a node's quarantine; zero: it grants locks.
    pub(crate) fn in_quarantine(&self, node: usize, left: Duration) {
        let until = if left.is_zero() { 0 } else { clock::now().later(left).0 };
        self.entries[node].quarantined.store(until, Ordering::Relaxed);
    }

    /// Time left of a node's quarantine, as far as is known.
    pub(crate) fn quarantine(&self, node: usize) -> Duration {
        clock::left(Instant(self.entries[node].quarantined.load(Ordering::Relaxed)))
    }

    /// The address as it is shown.
    pub(crate) fn name(&self, node: usize) -> &str {
        self.entries.get(node).map_or("", |entry| &entry.name)
    }

    /// True if the node stays the same when its server changes.
    pub(crate) fn follows(&self, node: usize) -> bool {
        !matches!(self.leads(node), Some(Leads::Server(_)) | None)
    }

    /// True if connecting to this node needs TLS, at a server or at a Sentinel.
    pub(crate) fn uses_tls(&self, node: usize) -> bool {
        match self.leads(node) {
            Some(Leads::Server(endpoint)) => endpoint.uses_tls(),
            Some(Leads::Primary { sentinels, .. }) => {
                sentinels.watched().servers.uses_tls() || sentinels.watched().access.uses_tls()
            }
            Some(Leads::Cluster { seeds, .. }) => seeds.servers.uses_tls(),
            None => false,
        }
    }

    /// Opens a connection to this node, at its present address, after checking its identity; or to this server of
    /// a cluster. `is_up`: there is a connection to that server already.
    pub(crate) async fn connect(
        &self,
        node: usize,
        host: Option<&Host>,
        is_up: bool,
        within: Duration,
    ) -> Result<Wire, NodeError> {
        match (self.leads(node), host) {
            (Some(Leads::Primary { sentinels, last }), _) => {
                self.follow(node, sentinels, last, within).await
            }
            (Some(Leads::Cluster { seeds, .. }), Some(host)) => {
                self.join(node, seeds, host, is_up, within).await
            }
            _ => self.find(node, within).await,
        }
    }

    // --- a server --------------------------------------------------------------------------------

    async fn find(&self, node: usize, within: Duration) -> Result<Wire, NodeError> {
        let before = self.roster().address(node);
        let reached = self.reach(before, within).await;
        let (mut wire, mut about) = reached.map_err(|error| self.lapsed(node, error))?;
        {
            let mut roster = self.roster();
            if roster.meet(node, &about.id) == Met::Known {
                self.met(node, &about);
                return Ok(wire.of_tenure(roster.changes(node)));
            }
        }
        debug!(node = self.name(node), "another server is at its address; it is looked for");
        let seen = self.look_around(before, &about.id, within).await;
        let address = {
            let mut roster = self.roster();
            roster.rebind(&seen);
            roster.address(node)
        };
        if address != before {
            (wire, about) = self.reach(address, within).await?;
        }
        let (taken, tenure) = {
            let mut roster = self.roster();
            (roster.take(node, about.id.clone()), roster.changes(node))
        };
        self.met(node, &about);
        match taken {
            Occupant::Same => {}
            Occupant::Stranger(before) => self.tell_stranger(node, before, about.id),
            Occupant::Twin(other) => return Err(self.duplicate(other, about.id)),
        }
        Ok(wire.of_tenure(tenure))
    }

    /// The error of an address that once led to the node, and may do so again.
    fn lapsed(&self, node: usize, error: NodeError) -> NodeError {
        match error {
            NodeError::Unfit(why) if self.roster().id(node).is_some() => NodeError::Lapsed(why),
            error => error,
        }
    }

    /// Asks every address for the node-id behind it. The node-id at `known` is given, and nodes that are
    /// not single servers stay at their addresses.
    async fn look_around(&self, known: usize, id: &str, within: Duration) -> Vec<Option<String>> {
        let reach = |address| async move {
            match self.leads(address) {
                _ if address == known => Some(id.to_owned()),
                Some(Leads::Server(_)) => Some(self.reach(address, within).await.ok()?.1.id),
                _ => self.roster().id(address).cloned(),
            }
        };
        join_all((0..self.entries.len()).map(reach)).await
    }

    /// Opens a connection to an address, and asks the server there about itself. If the host has several addresses,
    /// all that answer must be one server.
    async fn reach(&self, address: usize, within: Duration) -> Result<(Wire, About), NodeError> {
        let Some(Leads::Server(endpoint)) = self.leads(address) else {
            return Err(NodeError::Unreachable("it has no address".to_owned()));
        };
        meet_one(&endpoint.each(within).await?, within).await
    }

    // --- a primary behind Sentinels ----------------------------------------------------------------

    async fn follow(
        &self,
        node: usize,
        sentinels: &Sentinels,
        last: &Mutex<Option<Host>>,
        within: Duration,
    ) -> Result<Wire, NodeError> {
        // The time-out of the request is often the same: the error must name the silent Sentinels before.
        let host = sentinels.primary(within * 3 / 4).await?;
        let primary = sentinels.primary_watch(host.clone());
        let (wire, about) = select! {
            biased;
            met = open(&host, sentinels, within) => met.map_err(|error| self.lapsed(node, error))?,
            // The Sentinels have promoted another server meanwhile, and this one may never answer.
            () = primary.left() => return Err(NodeError::Unreachable(primary.why())),
        };
        let (is_there, taken, tenure) = {
            // Both locks at once: else two connections that find two primaries can look like a replaced node.
            let (mut last, mut roster) = (lock(last), self.roster());
            // A new node-id at the same address is not a promoted replica.
            let is_there = last.replace(host.clone()).as_ref() == Some(&host);
            let taken = roster.follow(node, about.id.clone());
            if is_there && matches!(taken, Occupant::Stranger(_)) {
                roster.changed(node);
            }
            (is_there, taken, roster.changes(node))
        };
        self.met(node, &about);
        match taken {
            Occupant::Same => {}
            Occupant::Stranger(before) if is_there => self.tell_stranger(node, before, about.id),
            Occupant::Stranger(_) => self.tell_promoted(node, &host, about.quarantine),
            Occupant::Twin(other) => return Err(self.duplicate(other, about.id)),
        }
        Ok(wire.of_tenure(tenure))
    }

    // --- a cluster -----------------------------------------------------------------------------------

    async fn join(
        &self,
        node: usize,
        seeds: &Seeds,
        host: &Host,
        is_up: bool,
        within: Duration,
    ) -> Result<Wire, NodeError> {
        let endpoint = seeds.servers.endpoint(host).map_err(|error| NodeError::from(&error))?;
        let named = |error: NodeError| error.at(host);
        let wire =
            Wire::open_to(&endpoint, within, Some(host.clone()), None).await.map_err(named)?;
        let about = About::of(&wire, within).await.map_err(named)?;
        if about.is_replica {
            return Err(NodeError::Unreachable(format!("{host} is a replica now")));
        }
        if !is_up || !self.roster().has(node, &about.id) {
            let members = self.members(node);
            let now = recognise(&wire, host, seeds, &members, within).await;
            self.has_members(node, now.map_err(named)?);
        }
        self.met(node, &about);
        let taken = self.roster().join(node, about.id.clone());
        match taken {
            Occupant::Twin(other) => Err(self.duplicate(other, about.id)),
            _ => Ok(wire),
        }
    }

    // --- common to all kinds ---------------------------------------------------------------------------

    /// The seed servers of a cluster, if the node is one.
    pub(crate) fn seeds(&self, node: usize) -> Option<&Seeds> {
        match self.leads(node) {
            Some(Leads::Cluster { seeds, .. }) => Some(seeds),
            _ => None,
        }
    }

    /// The ids of a cluster's servers, as far as they are known.
    pub(crate) fn members(&self, node: usize) -> BTreeSet<String> {
        match self.leads(node) {
            Some(Leads::Cluster { members, .. }) => lock(members).clone(),
            _ => BTreeSet::new(),
        }
    }

    /// Stores the ids of a cluster's servers, unless there are none.
    pub(crate) fn has_members(&self, node: usize, ids: BTreeSet<String>) {
        if let Some(Leads::Cluster { members, .. }) = self.leads(node)
            && !ids.is_empty()
        {
            *lock(members) = ids;
        }
    }

    /// Notes the quarantine of a node's server.
    fn met(&self, node: usize, about: &About) {
        if !about.quarantine.is_zero() {
            self.in_quarantine(node, about.quarantine);
        }
    }

    fn tell_stranger(&self, node: usize, before: String, now: String) {
        self.taken.send_replace(());
        let node = self.name(node).to_owned();
        self.listener.tell(&Notice::Stranger { node, before, now });
    }

    fn tell_promoted(&self, node: usize, host: &Host, quarantine: Duration) {
        let (node, server) = (self.name(node).to_owned(), host.to_string());
        self.listener.tell(&Notice::Promoted { node, server, quarantine });
    }

    fn duplicate(&self, other: usize, id: String) -> NodeError {
        NodeError::Duplicate { other: self.name(other).to_owned(), id }
    }

    fn leads(&self, node: usize) -> Option<&Leads> {
        self.entries.get(node).map(|entry| &entry.leads)
    }

    fn roster(&self) -> MutexGuard<'_, Roster<String>> {
        lock(&self.roster)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a connection to the server that Sentinels call the primary.
async fn open(
    host: &Host,
    sentinels: &Sentinels,
    within: Duration,
) -> Result<(Wire, About), NodeError> {
    let endpoint = sentinels.watched().servers.endpoint(host);
    let endpoint = endpoint.map_err(|error| NodeError::from(&error))?;
    let primary: Option<PrimaryWatch> = Some(sentinels.primary_watch(host.clone()));
    let named = |error: NodeError| error.at(host);
    let wire =
        Wire::open_to(&endpoint, within, Some(host.clone()), primary).await.map_err(named)?;
    let about = About::of(&wire, within).await.map_err(named)?;
    if about.is_replica {
        let text = format!("{host} is a replica, though Sentinels call it the primary");
        return Err(NodeError::Unreachable(text));
    }
    Ok((wire, about))
}
