//! The present servers of a node, for programs that talk to single servers.

use std::collections::BTreeSet;
use std::time::Duration;

use dlock_core::servers::slots::slot_of;
use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use super::access::Access;
use super::host::Host;
use super::{Address, Place, Seeds};
use crate::key::Key;
use crate::reach::about::meet_one;
use crate::reach::cluster::map::Slots;
use crate::reach::cluster::redirect::Redirect;
use crate::reach::cluster::survey::newest;
use crate::reach::endpoint::Endpoint;
use crate::reach::route::{MAX_HOPS, MOMENT};
use crate::reach::sentinel::Sentinels;
use crate::reach::wire::Wire;
use crate::report::NodeError;

/// A server that grants locks of a node.
#[derive(Clone, Debug)]
pub struct Server {
    /// Name to show.
    pub name: String,
    /// Address and login.
    pub endpoint: Endpoint,
}

impl Address {
    /// Returns the servers that grant locks: one, or all primaries of a cluster.
    ///
    /// # Errors
    /// Fails when no Sentinel, or no server of the cluster, can name them, and when there are none.
    pub async fn primaries(&self, within: Duration) -> Result<Vec<Server>, NodeError> {
        let Place::Cluster(seeds) = &self.place else {
            return Ok(vec![self.only(within).await?]);
        };
        let slots = slots(seeds, within).await?;
        let all = slots.primaries().map(|host| server(&seeds.servers, host, host.to_string()));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() {
            return Err(NodeError::Refused(
                "CLUSTERDOWN no server of the cluster has slots".into(),
            ));
        }
        Ok(all)
    }

    /// Sends a command to the server that has the key. In a cluster it follows redirects. Returns the name of the
    /// server, and the answer.
    pub async fn ask(
        &self,
        key: &Key,
        command: &Cmd,
        within: Duration,
    ) -> (String, Result<Value, NodeError>) {
        let mut name = self.name.clone();
        let answer = match &self.place {
            Place::Cluster(seeds) => follow(seeds, key, command, within, &mut name).await,
            _ => match self.only(within).await {
                Ok(server) => {
                    name = server.name;
                    send(&server.endpoint, command, false, within).await
                }
                Err(error) => Err(error),
            },
        };
        (name, answer)
    }

    /// Returns the server of a node that has one at a time.
    async fn only(&self, within: Duration) -> Result<Server, NodeError> {
        match &self.place {
            Place::Server(endpoint) => {
                let all = endpoint.each(within).await?;
                // A single address needs no comparison.
                if all.len() > 1
                    && let Err(error @ NodeError::Unfit(_)) = meet_one(&all, within).await
                {
                    return Err(error);
                }
                Ok(Server { name: self.name.clone(), endpoint: endpoint.clone() })
            }
            Place::Sentinel(watched) => {
                let host = Sentinels::new(watched.clone()).primary(within).await?;
                server(&watched.servers, &host, format!("{host} ({})", watched.primary))
            }
            Place::Cluster(_) => Err(NodeError::Unfit("it is a cluster".to_owned())),
        }
    }
}

async fn slots(seeds: &Seeds, within: Duration) -> Result<Slots, NodeError> {
    let asked = seeds.hosts.iter().map(|host| (host.clone(), None)).collect();
    newest(seeds, asked, &BTreeSet::new(), within).await
}

/// Sends a command to the server of a cluster that has the key, wherever it is now.
async fn follow(
    seeds: &Seeds,
    key: &Key,
    command: &Cmd,
    within: Duration,
    name: &mut String,
) -> Result<Value, NodeError> {
    let (slots, slot) = (slots(seeds, within).await?, slot_of(key.as_bytes()));
    let no_owner =
        || NodeError::Refused(format!("CLUSTERDOWN no server of the cluster has slot {slot}"));
    let (mut host, mut asking) = (slots.owner(slot).ok_or_else(no_owner)?.clone(), false);
    for _ in 0..MAX_HOPS {
        *name = host.to_string();
        let endpoint = seeds.servers.endpoint(&host).map_err(|error| NodeError::from(&error))?;
        let answer = send(&endpoint, command, asking, within).await;
        let Err(NodeError::Refused(why)) = &answer else { return answer };
        match Redirect::read(why, &host.name) {
            Some(Redirect::Moved(_, to)) => (host, asking) = (to, false),
            Some(Redirect::Ask(to)) => (host, asking) = (to, true),
            Some(Redirect::Again) => sleep(MOMENT).await,
            Some(Redirect::Lost) | None => return answer,
        }
    }
    Err(NodeError::Unreachable("too many redirects: the slot of this key moves".to_owned()))
}

/// Sends a command over a connection of its own.
async fn send(
    endpoint: &Endpoint,
    command: &Cmd,
    asking: bool,
    within: Duration,
) -> Result<Value, NodeError> {
    let wire = Wire::open(endpoint, within).await?;
    let answer =
        async { if asking { wire.send_asking(command).await } else { wire.send(command).await } };
    timeout(within, answer).await.unwrap_or(Err(NodeError::TimedOut(within)))
}

pub(super) fn server(access: &Access, host: &Host, name: String) -> Result<Server, NodeError> {
    let endpoint = access.endpoint(host).map_err(|error| NodeError::from(&error))?;
    Ok(Server { name, endpoint })
}
