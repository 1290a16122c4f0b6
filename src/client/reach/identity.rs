//! Which node is at the other end of a connection: where its address leads can change.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_core::quorum::{Met, Roster, Taken};
use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;
use tracing::debug;

use crate::inspect::Fields;
use crate::reach::address::Address;
use crate::reach::wire::Wire;
use crate::report::NodeError;
use crate::report::notice::{Listener, Notice};

/// The addresses, and the nodes' own names. Two addresses that lead to the same node would make one
/// vote count twice.
pub(crate) struct Identities {
    addresses: Vec<Address>,
    roster: Mutex<Roster<String>>,
    pub(crate) listener: Listener,
}

impl Identities {
    pub(crate) fn new(addresses: Vec<Address>, listener: Listener) -> Identities {
        let roster = Mutex::new(Roster::new(addresses.len()));
        Identities { addresses, roster, listener }
    }

    /// How often another server has taken a node's place.
    pub(crate) fn changes(&self, node: usize) -> u64 {
        self.roster().changes(node)
    }

    /// A new connection to what is certainly this node, at whichever address it is now.
    pub(crate) async fn connect(&self, node: usize, within: Duration) -> Result<Wire, NodeError> {
        let before = self.roster().address(node);
        let (mut wire, mut id) = self.reach(before, within).await?;
        if self.roster().meet(node, &id) == Met::Known {
            return Ok(wire);
        }
        debug!(node = self.name(node), "another server is at its address; it is looked for");
        let seen = self.look_around(before, &id, within).await;
        let address = {
            let mut roster = self.roster();
            roster.rebind(&seen);
            roster.address(node)
        };
        if address != before {
            (wire, id) = self.reach(address, within).await?;
        }
        let taken = self.roster().take(node, id.clone());
        match taken {
            Taken::Same => {}
            Taken::Stranger(before) => {
                let node = self.name(node).to_owned();
                self.listener.tell(&Notice::Stranger { node, before, now: id });
            }
            Taken::Twin(other) => {
                return Err(NodeError::Duplicate { other: self.name(other).to_owned(), id });
            }
        }
        Ok(wire)
    }

    /// Which node is at each address, as far as they answer. One of them is known.
    async fn look_around(&self, known: usize, id: &str, within: Duration) -> Vec<Option<String>> {
        let reach = |address| async move {
            match address == known {
                true => Some(id.to_owned()),
                false => Some(self.reach(address, within).await.ok()?.1),
            }
        };
        join_all((0..self.addresses.len()).map(reach)).await
    }

    /// A new connection to what is at an address, and its name.
    async fn reach(&self, address: usize, within: Duration) -> Result<(Wire, String), NodeError> {
        let Some(Address { client, .. }) = self.addresses.get(address) else {
            return Err(NodeError::Unreachable("it has no address".to_owned()));
        };
        let wire = Wire::open(client, within).await?;
        let reply = timeout(within, wire.send(&redis::cmd("DLOCK.NODE"))).await;
        let reply = reply.unwrap_or(Err(NodeError::TimedOut(within)))?;
        let Some((id, role)) = read(&reply) else {
            let text = "its answer to DLOCK.NODE cannot be understood".to_owned();
            return Err(NodeError::Refused(text));
        };
        if role == "replica" {
            let text = "it is a replica; give the address of its primary".to_owned();
            return Err(NodeError::Unfit(text));
        }
        Ok((wire, id))
    }

    fn name(&self, node: usize) -> &str {
        self.addresses.get(node).map_or("", |address| &address.name)
    }

    fn roster(&self) -> MutexGuard<'_, Roster<String>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node's name and role.
fn read(reply: &Value) -> Option<(String, String)> {
    let fields = Fields::of(reply)?;
    let id = fields.text("node-id").filter(|id| !id.is_empty())?;
    Some((id, fields.text("role")?))
}
