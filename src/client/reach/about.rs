//! A server's report about itself, and whether several addresses lead to one server.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;

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

/// Opens a connection to the server that all of these endpoints lead to.
///
/// # Errors
/// Fails when two different servers answer.
pub(super) async fn meet_one(
    endpoints: &[Endpoint],
    within: Duration,
) -> Result<(Wire, About), NodeError> {
    let met = join_all(endpoints.iter().map(|one| meet(one, within))).await;
    let ids = met.iter().flatten().map(|(_, about)| &about.id);
    if ids.collect::<BTreeSet<_>>().len() > 1 {
        return Err(NodeError::Unfit(SEVERAL_SERVERS.to_owned()));
    }
    let first = met.into_iter().reduce(|first, next| if first.is_ok() { first } else { next });
    first.unwrap_or_else(|| Err(NodeError::Unreachable("it has no address".to_owned())))
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
