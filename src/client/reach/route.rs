//! Chooses the server of a node for a request, and follows redirects.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::servers::slots::slot_of;
use redis::{Arg, Cmd, Value};
use tokio::time::sleep;
use tracing::debug;

use super::address::host::Host;
use super::cluster::Cluster;
use super::cluster::redirect::Redirect;
use super::failure::A_CLUSTER;
use super::identity::Identities;
use super::server_connections::ServerConnections;
use super::wire::Wire;
use crate::report::NodeError;
use crate::report::code::code;

/// All connections to a node.
pub(crate) enum NodeConnections {
    /// One server at a time; `follows` is true if another can take its place.
    One { server: Arc<ServerConnections>, follows: bool },
    /// A cluster: each key has its server.
    Many(Arc<Cluster>),
}

/// The route of one request, changed by redirects.
#[derive(Default)]
pub(crate) struct Route {
    slot: Option<u16>,
    /// A server of a cluster that is importing the slot: the request goes there once.
    asking: Option<Host>,
    /// Number of redirects.
    hops: usize,
    /// True if the slot map was read again for it.
    was_lost: bool,
    /// Reason to send the request to the slot's owner again.
    again: Option<String>,
}

impl Route {
    /// The route of a request about a key.
    pub(crate) fn to(key: &[u8]) -> Route {
        Route { slot: Some(slot_of(key)), ..Route::default() }
    }

    /// The route of a command: of the module's commands, which name their key first, or of any
    /// other.
    pub(crate) fn of(command: &Cmd) -> Route {
        let mut words = command.args_iter().map(|word| match word {
            Arg::Simple(word) => word,
            _ => &[],
        });
        let is_ours = words.next().is_some_and(|name| {
            name.get(..OURS.len()).is_some_and(|name| name.eq_ignore_ascii_case(OURS))
        });
        words.next().filter(|_| is_ours).map_or_else(Route::default, Route::to)
    }

    /// Sends the request over a connection of its route.
    pub(crate) async fn send(&self, wire: &Wire, command: &Cmd) -> Result<Value, NodeError> {
        match &self.asking {
            None => wire.send(command).await,
            // Boxed, because it is rare, and would make each request larger.
            Some(_) => Box::pin(wire.send_asking(command)).await,
        }
    }
}

impl NodeConnections {
    pub(crate) fn new(identities: &Arc<Identities>, place: usize) -> NodeConnections {
        let identities = Arc::clone(identities);
        if identities.seeds(place).is_some() {
            return NodeConnections::Many(Arc::new(Cluster::new(identities, place)));
        }
        let follows = identities.follows(place);
        NodeConnections::One {
            server: Arc::new(ServerConnections::new(identities, place, None)),
            follows,
        }
    }

    /// Returns the connections for the request's next step.
    pub(crate) async fn server(&self, route: &Route) -> Result<Arc<ServerConnections>, NodeError> {
        match (self, &route.asking) {
            (NodeConnections::One { server, .. }, _) => Ok(Arc::clone(server)),
            (NodeConnections::Many(cluster), Some(host)) => Ok(cluster.server(host)),
            (NodeConnections::Many(cluster), None) => {
                Ok(cluster.server(&cluster.owner(route.slot).await?))
            }
        }
    }

    /// Returns the shared connection for the request's next step.
    pub(crate) async fn wire(&self, route: &mut Route) -> Result<Wire, NodeError> {
        loop {
            let server = self.server(route).await?;
            match server.wire().await {
                Ok(wire) => return Ok(wire),
                Err(error) => self.goes_round(&server, route, error).await?,
            }
        }
    }

    /// Handles a failed connection to a server.
    ///
    /// # Errors
    /// Fails unless another server has the slot now. A login that this server refuses is final only if all servers
    /// of the cluster refuse it: the map may still name a former primary.
    pub(crate) async fn goes_round(
        &self,
        server: &ServerConnections,
        route: &mut Route,
        error: NodeError,
    ) -> Result<(), NodeError> {
        let (NodeConnections::Many(cluster), Some(host)) = (self, server.host()) else {
            return Err(error);
        };
        if !route.was_lost {
            (route.was_lost, route.asking) = (true, None);
            match cluster.has_left(route.slot, host).await {
                Ok(true) => return Ok(()),
                Err(NodeError::Refused(_)) => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
        Err(match error {
            NodeError::Refused(why) if ["NOAUTH", "WRONGPASS"].contains(&code(&why)) => {
                NodeError::Unreachable(why).at(host)
            }
            error => error,
        })
    }

    /// True if the request must be sent again, because its server did not carry it out.
    pub(crate) async fn goes_on(
        &self,
        route: &mut Route,
        wire: &Wire,
        answer: &Result<Value, NodeError>,
    ) -> bool {
        let Err(NodeError::Refused(error)) = answer else { return false };
        let own = wire.host().map_or("", |host| &host.name);
        let Some(redirect) = Redirect::read(error, own) else { return false };
        route.hops += 1;
        if route.hops > MAX_HOPS {
            return false;
        }
        match self {
            NodeConnections::One { follows: false, .. } => {
                // The server was not a replica when the connection was made. The next connection finds out
                // its role.
                if is_replica(error) {
                    wire.retire();
                }
                return false;
            }
            NodeConnections::One { .. } => {
                // The server has become a replica: Sentinels name another primary, or soon will.
                wire.retire();
                return redirect == Redirect::Lost;
            }
            NodeConnections::Many(cluster) => {
                let again = matches!(redirect, Redirect::Again | Redirect::Lost);
                (route.asking, route.again) = (None, again.then(|| error.clone()));
                debug!(%error, hops = route.hops, "goes on");
                match redirect {
                    Redirect::Moved(slot, host) => cluster.moved(slot, host),
                    Redirect::Ask(host) => route.asking = Some(cluster.reached(host)),
                    Redirect::Again => sleep(MOMENT).await,
                    Redirect::Lost => {
                        wire.retire();
                        if let Some(host) = wire.host() {
                            cluster.has_left(route.slot, host).await.ok();
                        }
                    }
                }
            }
        }
        true
    }

    /// Rewrites an error for the caller, which does not see single servers: a redirect may succeed
    /// later.
    pub(crate) fn heard<T>(&self, answer: Result<T, NodeError>) -> Result<T, NodeError> {
        match self {
            NodeConnections::One { follows: false, .. } => {
                return answer.map_err(|error| match error {
                    NodeError::Refused(why) if is_replica(&why) => NodeError::Lapsed(why),
                    error => error,
                });
            }
            NodeConnections::One { .. } => {}
            NodeConnections::Many(cluster) => {
                let lost = match &answer {
                    Err(NodeError::Unreachable(_) | NodeError::TimedOut(_)) => true,
                    // An endless redirect counts as well.
                    Err(NodeError::Refused(error)) => {
                        code(error) == "CLUSTERDOWN" || Redirect::is(error)
                    }
                    _ => false,
                };
                if lost {
                    cluster.doubt();
                }
            }
        }
        answer.map_err(|error| match error {
            NodeError::Refused(why) if Redirect::is(&why) => on_and_on(&why),
            error => error,
        })
    }

    /// The error when time has run out; `is_sent` is true if the request was sent on its last step.
    pub(crate) fn late(&self, route: &Route, is_sent: bool, within: Duration) -> NodeError {
        if let Some(why) = &route.again {
            return on_and_on(why);
        }
        let (goal, tls) = match self {
            _ if is_sent => return NodeError::TimedOut(within),
            NodeConnections::One { server, .. } => (None, server.uses_tls()),
            NodeConnections::Many(cluster) => {
                let goal = route.asking.clone().or_else(|| cluster.goal(route.slot));
                (goal, cluster.uses_tls())
            }
        };
        let late = NodeError::no_connection(tls, within);
        goal.map_or(late.clone(), |host| late.at(&host))
    }

    /// Retires a connection, and opens a new one if a lock is held.
    pub(crate) fn mend(&self, wire: &Wire) {
        match self {
            NodeConnections::One { server, .. } => server.mend(),
            NodeConnections::Many(cluster) => {
                wire.host().into_iter().for_each(|host| cluster.server(host).mend())
            }
        }
    }

    /// Returns a connection to the idle ones.
    pub(crate) fn pool(&self, wire: Wire) {
        match self {
            NodeConnections::One { server, .. } => server.pool(wire),
            NodeConnections::Many(cluster) => {
                if let Some(host) = wire.host().cloned() {
                    cluster.server(&host).pool(wire);
                }
            }
        }
    }

    /// Always false for a cluster, where it depends on the key.
    pub(crate) fn has_idle(&self) -> bool {
        matches!(self, NodeConnections::One { server, .. } if server.has_idle())
    }

    pub(crate) fn hang_up(&self) {
        match self {
            NodeConnections::One { server, .. } => server.hang_up(),
            NodeConnections::Many(cluster) => cluster.hang_up(),
        }
    }
}

/// True if a server refuses because it is a replica. It was a primary when the connection was made.
fn is_replica(error: &str) -> bool {
    code(error) == "READONLY"
}

fn on_and_on(why: &str) -> NodeError {
    let why = why.trim_end_matches(A_CLUSTER);
    NodeError::Unreachable(format!("too many redirects; the last reply was: {why}"))
}

/// Prefix of the module's commands.
const OURS: &[u8] = b"DLOCK.";
/// Limit of redirects: a request with more goes in circles.
pub(crate) const MAX_HOPS: usize = 8;
/// Pause before asking a server again during a migration of its slot.
pub(crate) const MOMENT: Duration = Duration::from_millis(20);
