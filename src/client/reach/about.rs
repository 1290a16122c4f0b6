//! A server's report about itself, and whether several addresses lead to one server.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::endpoint::Endpoint;
use super::failure::AN_AGENT;
use super::wire::Wire;
use crate::inspect::Fields;
use crate::report::NodeError;

/// A server's report about itself.
pub(super) struct About {
    pub(super) id: String,
    pub(super) is_replica: bool,
    pub(super) quarantine: Duration,
}

/// Opens a connection to the server that all of these endpoints lead to. After half of the time an endpoint without an
/// answer is left out: a request may wait for this connection.
///
/// # Errors
/// Fails when two different servers answer.
pub(super) async fn meet_one(
    endpoints: &[Endpoint],
    within: Duration,
) -> Result<(Wire, About), NodeError> {
    let half = Instant::now() + within / 2;
    let mut coming: FuturesUnordered<_> = endpoints.iter().map(|one| meet(one, within)).collect();
    let mut first: Option<(Wire, About)> = None;
    let mut failed = NodeError::Unreachable("it has no address".to_owned());
    loop {
        let next = match &first {
            None => coming.next().await,
            Some(_) => timeout_at(half, coming.next()).await.unwrap_or(None),
        };
        match (next, &first) {
            (None, _) => return first.ok_or(failed),
            (Some(Ok((_, about))), Some((_, known))) if about.id != known.id => {
                return Err(NodeError::Unfit(SEVERAL_SERVERS.to_owned()));
            }
            (Some(Ok(met)), _) => first = Some(met),
            (Some(Err(error)), _) => failed = error,
        }
    }
}

/// Opens a connection to a server, and asks it about itself.
async fn meet(endpoint: &Endpoint, within: Duration) -> Result<(Wire, About), NodeError> {
    let wire = Wire::open(endpoint, within).await?;
    let about = About::of(&wire, within).await?;
    if about.is_replica {
        let text = "it is a replica; give the address of its primary, or of its Sentinels \
                    (redis+sentinel://host:26379/NAME)";
        return Err(NodeError::Unfit(text.to_owned()));
    }
    Ok((wire, about))
}

impl About {
    pub(super) async fn of(wire: &Wire, within: Duration) -> Result<About, NodeError> {
        let reply = timeout(within, wire.send(&redis::cmd("DLOCK.NODE"))).await;
        let reply = reply.unwrap_or(Err(NodeError::TimedOut(within)))?;
        if About::is_agent(&reply) {
            return Err(NodeError::Unfit(AN_AGENT.to_owned()));
        }
        About::read(&reply).ok_or_else(|| {
            NodeError::Refused("its answer to DLOCK.NODE cannot be understood".to_owned())
        })
    }

    /// True if `dlock agent` answers. Two agents in a list would be one quorum twice.
    fn is_agent(reply: &Value) -> bool {
        let role = Fields::of(reply).and_then(|fields| fields.text("role"));
        role.as_deref() == Some("agent")
    }

    fn read(reply: &Value) -> Option<About> {
        let fields = Fields::of(reply)?;
        let is_name = |id: &String| (1..=LONGEST_ID).contains(&id.len());
        let id = fields.text("node-id").filter(is_name)?;
        let is_replica = fields.text("role")? == "replica";
        Some(About {
            id,
            is_replica,
            quarantine: fields.millis("quarantine-ms").unwrap_or_default(),
        })
    }
}

const SEVERAL_SERVERS: &str = "its name leads to several servers: each client would take another of them for the node; \
                               write the address of one, or list each as a node of its own";
/// Limit of a node-id's length in bytes, because the client stores many. Real ones are shorter.
const LONGEST_ID: usize = 128;
