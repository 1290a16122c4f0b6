//! One node: its connections, and requests that end in time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::timeout;
use tracing::debug;

use crate::key::Key;
use crate::reach::identity::Identities;
use crate::reach::route::{NodeConnections, Route};
use crate::reach::wire::Wire;
use crate::report::{NodeError, NodeState};

/// A node: a server, a primary behind Sentinels, or a Redis Cluster.
pub struct Node {
    place: usize,
    identities: Arc<Identities>,
    connections: NodeConnections,
}

/// A node's answer. [`counted`](Node::counted) decides whether it still counts.
pub(crate) struct Answered {
    value: Value,
    /// Number of changes of the node's server when the answering server had that place.
    tenure: u64,
}

impl Answered {
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// True if it denies the lock to a waiter.
    pub(crate) fn is_no(&self) -> bool {
        self.value == Value::Nil
    }
}

impl Node {
    pub(crate) fn new(place: usize, identities: Arc<Identities>) -> Node {
        let connections = NodeConnections::new(&identities, place);
        Node { place, identities, connections }
    }

    /// The node's address, without secrets.
    #[must_use]
    pub fn name(&self) -> &str {
        self.identities.name(self.place)
    }

    /// Sends any command, and waits for the answer for one node time-out. In a cluster a command of the
    /// module goes to the server that has its key, and any other to some server.
    ///
    /// # Errors
    /// Fails when there is no answer, or when it is an error of the server.
    #[cfg(feature = "operator")]
    pub async fn send(self: &Arc<Self>, command: &Cmd) -> Result<Value, NodeError> {
        // This command may not be safe to send twice.
        self.counted(
            self.call(Route::of(command), command, self.identities.timeout, 1, |_| Ok(())).await,
        )
    }

    /// Sends a command without a key to the server that has this key.
    ///
    /// # Errors
    /// Fails as [`send`](Node::send).
    pub async fn send_where(
        self: &Arc<Self>,
        key: &Key,
        command: &Cmd,
    ) -> Result<Value, NodeError> {
        let route = Route::to(key.as_bytes());
        self.counted(self.call(route, command, self.identities.timeout, 1, |_| Ok(())).await)
    }

    /// Sends a command that may arrive twice: if the connection breaks, the command goes over another. Calls
    /// `enter` before each sending, with true if the previous one has no answer and may still arrive.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
        enter: impl FnMut(bool) -> Result<(), NodeError>,
    ) -> Result<Answered, NodeError> {
        self.call(Route::of(command), command, within, 2, enter).await
    }

    async fn call(
        self: &Arc<Self>,
        mut route: Route,
        command: &Cmd,
        within: Duration,
        tries: usize,
        mut enter: impl FnMut(bool) -> Result<(), NodeError>,
    ) -> Result<Answered, NodeError> {
        let mut used: Option<Wire> = None;
        let mut entered = Ok(());
        let answer = timeout(within, async {
            let (mut left, mut broken) = (tries, None);
            loop {
                let wire = self.connections.wire(&mut route).await;
                // A server that refuses the second connection does not answer what was sent over the first.
                let wire = wire.map_err(|error| broken.clone().unwrap_or(error))?;
                entered = enter(broken.take().is_some());
                entered.clone()?;
                used = Some(wire.clone());
                let answer = route.send(&wire, command).await;
                // This server has answered: a later time-out belongs to another server.
                used = None;
                if self.connections.goes_on(&mut route, &wire, &answer).await {
                    continue;
                }
                left -= 1;
                match answer {
                    Err(error @ NodeError::Unreachable(_)) if left > 0 => broken = Some(error),
                    answer => return answered(&wire, answer),
                }
            }
        });
        let answer = answer.await.unwrap_or_else(|_| {
            if let Some(wire) = &used {
                debug!(node = self.name(), ?within, "no answer in time");
                wire.retire();
                self.connections.mend(wire);
            }
            Err(self.connections.late(&route, used.is_some(), within))
        });
        let answer = self.connections.heard(answer);
        // A request that `enter` has stopped is no sign of the node's state.
        if entered.is_ok() {
            self.identities.hear(self.place, &answer);
        }
        answer
    }

    /// Notes that the node does not answer, until it does.
    pub(crate) fn suspect(&self) {
        self.identities.set_silent(self.place, true);
    }

    /// Notes a node's quarantine and its end.
    pub(crate) fn note(&self, state: &NodeState) {
        match state {
            NodeState::Quarantine(left) => self.identities.in_quarantine(self.place, *left),
            NodeState::Granted(_) => self.identities.in_quarantine(self.place, Duration::ZERO),
            _ => {}
        }
    }

    /// True if the node did not answer the last request or connection, or is in quarantine.
    pub(crate) fn is_suspect(&self) -> bool {
        self.identities.was_silent(self.place) || !self.quarantine().is_zero()
    }

    /// Time left of the node's quarantine, as far as is known.
    pub(crate) fn quarantine(&self) -> Duration {
        self.identities.quarantine(self.place)
    }

    /// Sends a command that waits at the node, over a connection of its own. Dropping this future closes the
    /// connection. The node ends the wait before `limit`. This calls `enter` as [`ask`](Node::ask) does.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        command: &Cmd,
        limit: Duration,
        mut enter: impl FnMut(bool) -> Result<(), NodeError>,
    ) -> Result<Answered, NodeError> {
        let mut route = Route::of(command);
        let (mut broken, mut again) = (false, false);
        loop {
            let server = self.connections.server(&route).await?;
            let pooled = server.pop_idle();
            let fresh = pooled.is_none();
            let wire = match pooled {
                Some(wire) => wire,
                None => match server.connect().await {
                    Ok(wire) => wire,
                    Err(error) => {
                        match self.connections.goes_round(&server, &mut route, error).await {
                            Ok(()) => continue,
                            Err(error) => return self.connections.heard(Err(error)),
                        }
                    }
                },
            };
            enter(again)?;
            again = false;
            let Ok(answer) = timeout(limit, route.send(&wire, command)).await else {
                // A firewall that has dropped one idle connection has dropped the others, too.
                server.drop_idle();
                return Err(NodeError::TimedOut(limit));
            };
            if self.connections.goes_on(&mut route, &wire, &answer).await {
                self.pool(wire);
                continue;
            }
            match answer {
                // Perhaps only the connection failed, or the request has to wait at another primary now.
                Err(NodeError::Unreachable(_)) if !(fresh && broken) => {
                    (broken, again) = (broken || fresh, true);
                }
                answer => {
                    let answer = answered(&wire, answer);
                    self.pool(wire);
                    return self.connections.heard(answer);
                }
            }
        }
    }

    /// True if there is an idle connection for a request that waits, as far as is known.
    pub(crate) fn has_idle(&self) -> bool {
        self.connections.has_idle()
    }

    /// Opens an idle connection for a request that waits and has the same server as this command, if there is
    /// none.
    pub(crate) async fn warm_up(&self, command: &Cmd) {
        if let Ok(server) = self.connections.server(&Route::of(command)).await {
            server.warm_up().await;
        }
    }

    /// Returns the shared connection, and makes it if there is none.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Wire, NodeError> {
        self.connections.wire(&mut Route::default()).await
    }

    /// Returns the answer if its server is still the node's server. Otherwise the server may belong to
    /// another node by now, and would have two votes.
    pub(crate) fn counted(&self, answer: Result<Answered, NodeError>) -> Result<Value, NodeError> {
        let Answered { value, tenure } = answer?;
        if tenure == self.changes() {
            return Ok(value);
        }
        Err(NodeError::Unreachable("another server is the node now".to_owned()))
    }

    /// Number of changes of the node's server. The grants of the former server are void after a change.
    pub(crate) fn changes(&self) -> u64 {
        self.identities.changes(self.place)
    }

    /// Number of times the connection to the node has come back.
    pub(crate) fn returns(&self) -> u64 {
        self.identities.returns(self.place)
    }

    /// Waits until the connection to the node has come back.
    pub(crate) async fn is_back(&self) {
        let (before, mut taken) = (self.returns(), self.identities.taken());
        while self.returns() == before && taken.changed().await.is_ok() {}
    }

    /// Closes the idle connections.
    pub(crate) fn hang_up(&self) {
        self.connections.hang_up();
    }

    /// Returns a connection to the idle ones.
    pub(crate) fn pool(&self, wire: Wire) {
        self.connections.pool(wire);
    }
}

fn answered(wire: &Wire, answer: Result<Value, NodeError>) -> Result<Answered, NodeError> {
    answer.map(|value| Answered { value, tenure: wire.tenure() })
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name()).finish_non_exhaustive()
    }
}
