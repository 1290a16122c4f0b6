//! The replicas of a node, and the Sentinels that decide on a fail-over.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;

use super::host::Host;
use super::servers::{Server, server};
use super::{Address, Place, Watched};
use crate::inspect::Fields;
use crate::reach::sentinel::ask_about;
use crate::report::NodeError;

/// The replicas of a node, and the Sentinels that decide on a fail-over.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StandBy {
    /// The replicas.
    pub replicas: Vec<Server>,
    /// The Sentinels of the address, each with its reply to `SENTINEL MASTER`.
    pub sentinels: Vec<(String, Said)>,
}

/// A Sentinel's report about a primary, or the reason why there is none.
pub type Said = Result<BTreeMap<String, String>, NodeError>;

impl Address {
    /// Returns the replicas and Sentinels of a primary behind Sentinels; `None` for other nodes.
    ///
    /// # Errors
    /// Fails when a replica's address cannot be used. Each Sentinel has an error of its own.
    pub async fn stand_by(&self, within: Duration) -> Result<Option<StandBy>, NodeError> {
        match &self.place {
            Place::Server(_) | Place::Cluster(_) => Ok(None),
            Place::Sentinel(watched) => behind_sentinels(watched, within).await.map(Some),
        }
    }
}

async fn behind_sentinels(watched: &Watched, within: Duration) -> Result<StandBy, NodeError> {
    let asked = watched.sentinels.iter().map(async |at| {
        let said = timeout(within, ask_about(at, watched)).await;
        (at.to_string(), said.unwrap_or(Err(NodeError::TimedOut(within))))
    });
    let mut stand_by = StandBy::default();
    for (name, said) in join_all(asked).await {
        if let (Ok((_, replicas)), true) = (&said, stand_by.replicas.is_empty()) {
            for host in replicas.as_sequence().unwrap_or_default().iter().filter_map(replica) {
                let (access, host) = (&watched.servers, watched.servers.map.reached(host));
                stand_by.replicas.push(server(access, &host, host.to_string())?);
            }
        }
        stand_by.sentinels.push((name, said.map(|(primary, _)| fields(&primary))));
    }
    Ok(stand_by)
}

fn replica(said: &Value) -> Option<Host> {
    let fields = Fields::of(said)?;
    Host::told(&fields.text("ip")?, fields.text("port")?.parse().ok()?)
}

fn fields(reply: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
    let pairs = reply.as_map_iter().into_iter().flatten();
    pairs.map(|(name, value)| (text(name), text(value))).collect()
}
