//! The present servers of a node, for programs that talk to single servers.

use std::collections::BTreeSet;
use std::time::Duration;

use dlock_core::servers::slots::slot_of;

use super::access::Access;
use super::host::Host;
use super::{Address, Place, Seeds};
use crate::key::Key;
use crate::reach::cluster::map::Slots;
use crate::reach::cluster::survey::newest;
use crate::reach::endpoint::Endpoint;
use crate::reach::sentinel::Sentinels;
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

    /// Returns the server that has a lock of this name.
    ///
    /// # Errors
    /// Fails as [`primaries`](Address::primaries), and when no server has the slot of this key.
    pub async fn primary_of(&self, key: &Key, within: Duration) -> Result<Server, NodeError> {
        let Place::Cluster(seeds) = &self.place else { return self.only(within).await };
        let (slots, slot) = (slots(seeds, within).await?, slot_of(key.as_bytes()));
        let no_owner =
            || NodeError::Refused(format!("CLUSTERDOWN no server of the cluster has slot {slot}"));
        let host = slots.owner(slot).ok_or_else(no_owner)?;
        server(&seeds.servers, host, host.to_string())
    }

    /// Returns the server of a node that has one at a time.
    async fn only(&self, within: Duration) -> Result<Server, NodeError> {
        match &self.place {
            Place::Server(endpoint) => {
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

pub(super) fn server(access: &Access, host: &Host, name: String) -> Result<Server, NodeError> {
    let endpoint = access.endpoint(host).map_err(|error| NodeError::from(&error))?;
    Ok(Server { name, endpoint })
}
