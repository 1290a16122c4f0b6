//! All connections to one server: a shared one, and one for each request that waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::debug;

use super::address::host::Host;
use super::identity::Identities;
use super::wire::Wire;
use crate::clock;
use crate::report::NodeError;

/// The connections to one server, or to the present primary behind Sentinels.
pub(crate) struct ServerConnections {
    identities: Arc<Identities>,
    /// Index of the node.
    place: usize,
    /// The server of the node; `None` where there is only one at a time.
    host: Option<Host>,
    link: Mutex<Link>,
    /// Idle connections for requests that wait, each with the time since which it is idle.
    idle: Arc<Mutex<Vec<(Wire, Instant)>>>,
    /// True while a task closes idle connections.
    closes_idle: Arc<AtomicBool>,
    /// True while an idle connection is being made.
    warms_up: Arc<AtomicBool>,
    /// True while the broken shared connection is being made again for locks that are held.
    reconnects: Arc<AtomicBool>,
}

/// A task that runs once at a time. Dropping this allows the next, also where a runtime ends.
struct UnderWay(Arc<AtomicBool>);

/// The connection that all requests share, except those that wait.
enum Link {
    Down,
    /// A task of its own connects: a caller that gives up does not stop it for other callers.
    Connecting(watch::Receiver<Option<Result<Wire, NodeError>>>),
    Up(Wire),
}

impl ServerConnections {
    pub(crate) fn new(
        identities: Arc<Identities>,
        place: usize,
        host: Option<Host>,
    ) -> ServerConnections {
        ServerConnections {
            identities,
            place,
            host,
            link: Mutex::new(Link::Down),
            idle: Arc::default(),
            closes_idle: Arc::default(),
            warms_up: Arc::default(),
            reconnects: Arc::default(),
        }
    }

    /// The server of the node; `None` where there is only one at a time.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Returns the shared connection, and makes it if there is none.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Wire, NodeError> {
        let mut coming = match &mut *self.link() {
            Link::Up(wire) if self.leads_there(wire) => return Ok(wire.clone()),
            Link::Connecting(coming) if coming.has_changed().is_ok() => coming.clone(),
            link => {
                let (done, coming) = watch::channel(None);
                *link = Link::Connecting(coming.clone());
                tokio::spawn(Arc::clone(self).bring_up(done));
                coming
            }
        };
        let outcome = coming.wait_for(Option::is_some).await;
        let ended = || Err(NodeError::Unreachable("the runtime that connected ended".to_owned()));
        outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(ended)
    }

    /// Returns the shared connection, if there is one.
    pub(crate) fn up(&self) -> Option<Wire> {
        match &*self.link() {
            Link::Up(wire) if self.leads_there(wire) => Some(wire.clone()),
            _ => None,
        }
    }

    async fn bring_up(self: Arc<Self>, done: watch::Sender<Option<Result<Wire, NodeError>>>) {
        let outcome = self.connect().await;
        let node = self.identities.name(self.place);
        match &outcome {
            Ok(_) => debug!(node, "connected"),
            Err(error) => debug!(node, %error, "not connected"),
        }
        *self.link() = match &outcome {
            Ok(wire) => Link::Up(wire.clone()),
            Err(_) => Link::Down,
        };
        match &outcome {
            Ok(wire) => self.watch(wire),
            Err(_) => self.mend(),
        }
        done.send_replace(Some(outcome));
    }

    fn watch(self: &Arc<Self>, wire: &Wire) {
        let (server, closed) = (Arc::downgrade(self), wire.closed());
        tokio::spawn(async move {
            closed.await;
            server.upgrade().iter().for_each(ServerConnections::mend);
        });
    }

    /// Reconnects for locks that are held, as soon as the node answers, and reports that: guards then renew
    /// at once. Stops after a time limit; each failed request starts it again.
    pub(crate) fn mend(self: &Arc<Self>) {
        if !self.identities.has_listeners() {
            return;
        }
        let Some(reconnecting) = UnderWay::begin(&self.reconnects) else { return };
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let _reconnecting = reconnecting;
            let (end, mut pause) = (clock::now().later(MENDS), FIRST_PAUSE);
            while clock::now() < end && server.identities.has_listeners() {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                if server.wire().await.is_ok() {
                    server.identities.is_back(server.place);
                    // Limits the reports of a connection that keeps breaking.
                    sleep(LONGEST_PAUSE).await;
                    if server.up().is_some() {
                        return;
                    }
                }
            }
        });
    }

    /// Opens a connection to this node, after checking its identity.
    pub(crate) fn connect(&self) -> BoxFuture<'_, Result<Wire, NodeError>> {
        let within = self.identities.timeout.max(CONNECT);
        let is_up = self.up().is_some();
        let connect = async move {
            let host = self.host.as_ref();
            let outcome = self.identities.connect(self.place, host, is_up, within).await;
            self.identities.hear(self.place, &outcome);
            outcome
        };
        // Boxed, because it is rare, and would make the type of each request larger.
        connect.boxed()
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.identities.uses_tls(self.place)
    }

    /// Closes all connections that are not in use.
    pub(crate) fn hang_up(&self) {
        *self.link() = Link::Down;
        self.drop_idle();
    }

    /// Closes the idle connections.
    pub(crate) fn drop_idle(&self) {
        self.idle().clear();
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle().is_empty()
    }

    /// Opens an idle connection, if there is none.
    pub(crate) async fn warm_up(&self) {
        if self.has_idle() {
            return;
        }
        let Some(_warming_up) = UnderWay::begin(&self.warms_up) else { return };
        if let Ok(wire) = self.connect().await {
            self.pool(wire);
        }
    }

    pub(crate) fn pop_idle(&self) -> Option<Wire> {
        let mut idle = self.idle();
        idle.retain(|(wire, _)| self.leads_there(wire));
        idle.pop().map(|(wire, _)| wire)
    }

    /// Returns a connection to the idle ones.
    pub(crate) fn pool(&self, wire: Wire) {
        let mut idle = self.idle();
        if idle.len() >= MAX_IDLE || !self.leads_there(&wire) {
            return;
        }
        idle.push((wire, Instant::now()));
        if let Some(closing) = UnderWay::begin(&self.closes_idle) {
            tokio::spawn(close_idle(Arc::downgrade(&self.idle), closing));
        }
    }

    /// True if a new request may be sent over it: its server answers, and is still the node's server.
    fn leads_there(&self, wire: &Wire) -> bool {
        !wire.is_retired() && wire.tenure() == self.identities.changes(self.place)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Wire, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes idle connections after a while, until none is left: each is an open file of this process.
async fn close_idle(idle: Weak<Mutex<Vec<(Wire, Instant)>>>, closing: UnderWay) {
    loop {
        sleep(LONGEST_IDLE).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, since)| since.elapsed() < LONGEST_IDLE);
        if idle.is_empty() {
            // The next connection starts another task: it needs the lock that is held here.
            return drop(closing);
        }
    }
}

impl UnderWay {
    fn begin(flag: &Arc<AtomicBool>) -> Option<UnderWay> {
        (!flag.swap(true, Ordering::AcqRel)).then(|| UnderWay(Arc::clone(flag)))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Limit of the time for reconnecting, and its pauses.
const MENDS: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Shortest time-out for connecting: with TLS and DNS that takes longer than an answer.
const CONNECT: Duration = Duration::from_secs(1);
/// Limit of idle connections.
const MAX_IDLE: usize = 64;
/// An idle connection is closed after one to two times this long.
const LONGEST_IDLE: Duration = Duration::from_secs(15);
