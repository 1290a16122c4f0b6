//! One node: its connections, and requests that end in time.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_core::words::Instant;
use redis::{Cmd, Value};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

use crate::clock;
use crate::reach::identity::Identities;
use crate::reach::wire::Wire;
use crate::report::{NodeError, NodeState};

/// A node.
pub struct Node {
    name: String,
    place: usize,
    /// For commands without a time-out of their own.
    pub(crate) timeout: Duration,
    identities: Arc<Identities>,
    /// It did not answer the last request.
    suspect: AtomicBool,
    /// When its quarantine ends, on [`clock::now`], as the node said; zero if it is in none.
    quarantined: AtomicU64,
    link: Mutex<Link>,
    /// Idle connections for requests that wait.
    idle: Mutex<Vec<Wire>>,
}

/// The connection that all requests share, but for those that wait.
enum Link {
    Down,
    /// A task of its own connects already, so a caller who gives up does not end it for the others.
    Connecting(watch::Receiver<Option<Result<Wire, NodeError>>>),
    Up(Wire),
}

impl Node {
    pub(crate) fn new(
        name: String,
        place: usize,
        timeout: Duration,
        identities: Arc<Identities>,
    ) -> Node {
        let (link, idle) = (Mutex::new(Link::Down), Mutex::default());
        let (suspect, quarantined) = (AtomicBool::default(), AtomicU64::default());
        Node { name, place, timeout, identities, suspect, quarantined, link, idle }
    }

    /// Its address, without secrets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends any command, and waits for the answer for as long as a node may take.
    ///
    /// # Errors
    /// When there is no answer, or when it is an error of the server.
    pub async fn send(self: &Arc<Self>, command: &Cmd) -> Result<Value, NodeError> {
        // Nobody knows whether it may be sent twice.
        self.call(command, self.timeout, 1, |_| Ok(())).await
    }

    /// Sends a command that may arrive twice: if the connection breaks, it is sent over another.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
        enter: impl FnMut(&Wire) -> Result<(), NodeError>,
    ) -> Result<Value, NodeError> {
        self.call(command, within, 2, enter).await
    }

    /// `enter` is told the connection before it is used.
    async fn call(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
        tries: usize,
        mut enter: impl FnMut(&Wire) -> Result<(), NodeError>,
    ) -> Result<Value, NodeError> {
        let mut used: Option<Wire> = None;
        let answer = timeout(within, async {
            let mut left = tries;
            loop {
                let wire = self.wire().await?;
                enter(&wire)?;
                left -= 1;
                match used.insert(wire).send(command).await {
                    Err(NodeError::Unreachable(_)) if left > 0 => {}
                    answer => return answer,
                }
            }
        });
        let answer = answer.await.unwrap_or_else(|_| {
            if let Some(wire) = used {
                debug!(node = %self.name, ?within, "no answer in time");
                wire.retire();
            }
            Err(NodeError::TimedOut(within))
        });
        self.hear(&answer);
        answer
    }

    /// Sends a command over a connection that was used before, be it retired or not.
    pub(crate) async fn send_over(
        &self,
        wire: &Wire,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, NodeError> {
        let answer = timeout(within, wire.send(command)).await.unwrap_or_else(|_| {
            wire.retire();
            Err(NodeError::TimedOut(within))
        });
        self.hear(&answer);
        answer
    }

    /// Remembers whether the node answers.
    fn hear<T>(&self, answer: &Result<T, NodeError>) {
        let silent = matches!(answer, Err(NodeError::Unreachable(_) | NodeError::TimedOut(_)));
        self.suspect.store(silent, Ordering::Relaxed);
    }

    /// It does not answer, as far as is known.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// Remembers what it said of a lock.
    pub(crate) fn note(&self, state: &NodeState) {
        let until = match state {
            NodeState::Quarantine(left) => clock::later(clock::now(), *left),
            NodeState::Granted(_) => Instant(0),
            _ => return,
        };
        self.quarantined.store(until.0, Ordering::Relaxed);
    }

    /// Whether it did not answer the last time, or is in quarantine.
    pub(crate) fn is_suspect(&self) -> bool {
        let quarantined = Instant(self.quarantined.load(Ordering::Relaxed));
        self.suspect.load(Ordering::Relaxed) || !clock::left(quarantined).is_zero()
    }

    /// Sends a command that waits at the node, over a connection of its own, which is returned with the
    /// answer. Dropping this future closes the connection. The node ends the wait before `limit`.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        command: &Cmd,
        limit: Option<Duration>,
    ) -> Result<(Value, Wire), NodeError> {
        loop {
            let pooled = self.pop_idle();
            let fresh = pooled.is_none();
            let wire = match pooled {
                Some(wire) => wire,
                None => self.connect().await?,
            };
            let answer = match limit {
                None => wire.send(command).await,
                Some(limit) => match timeout(limit, wire.send(command)).await {
                    Ok(answer) => answer,
                    Err(_) => return Err(NodeError::TimedOut(limit)),
                },
            };
            match answer {
                Ok(value) => return Ok((value, wire)),
                Err(NodeError::Unreachable(_)) if !fresh => {}
                Err(error) => {
                    self.pool(wire);
                    return Err(error);
                }
            }
        }
    }

    /// The connection that requests share. It is made if there is none.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Wire, NodeError> {
        let mut coming = match &mut *self.link() {
            Link::Up(wire) if !wire.is_retired() => return Ok(wire.clone()),
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

    async fn bring_up(self: Arc<Self>, done: watch::Sender<Option<Result<Wire, NodeError>>>) {
        let outcome = self.connect().await;
        match &outcome {
            Ok(_) => debug!(node = %self.name, "connected"),
            Err(error) => debug!(node = %self.name, %error, "not connected"),
        }
        *self.link() = match &outcome {
            Ok(wire) => Link::Up(wire.clone()),
            Err(_) => Link::Down,
        };
        done.send_replace(Some(outcome));
    }

    /// A new connection to what is certainly this node.
    async fn connect(&self) -> Result<Wire, NodeError> {
        self.identities.connect(self.place, self.timeout.max(CONNECT)).await
    }

    /// How often another server has taken its place. The grants of the former server are gone then.
    pub(crate) fn changes(&self) -> u64 {
        self.identities.changes(self.place)
    }

    /// Closes what is not in use.
    pub(crate) fn hang_up(&self) {
        *self.link() = Link::Down;
        self.idle().clear();
    }

    fn pop_idle(&self) -> Option<Wire> {
        let mut idle = self.idle();
        idle.retain(|wire| !wire.is_retired());
        idle.pop()
    }

    /// Keeps a connection that does not wait any more.
    pub(crate) fn pool(&self, wire: Wire) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE && !wire.is_retired() {
            idle.push(wire);
        }
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How long connecting may take, at least: with TLS and DNS it takes longer than an answer.
const CONNECT: Duration = Duration::from_secs(1);
/// How many idle connections are kept at most.
const MAX_IDLE: usize = 64;
