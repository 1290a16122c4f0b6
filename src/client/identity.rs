//! Which node is at the other end of a connection.

use std::sync::{Mutex, PoisonError};

use redis::Value;

use crate::error::NodeError;
use crate::inspect::Fields;
use crate::wire::Wire;

/// The nodes' own names. Two addresses that lead to the same node would make one vote count twice.
pub(crate) struct Roster {
    addresses: Vec<String>,
    ids: Mutex<Vec<Option<String>>>,
}

impl Roster {
    pub(crate) fn new(addresses: Vec<String>) -> Roster {
        let ids = Mutex::new(vec![None; addresses.len()]);
        Roster { addresses, ids }
    }

    /// Asks who is at the other end of a new connection, and whether it can be this node.
    pub(crate) async fn check(&self, node: usize, wire: &Wire) -> Result<(), NodeError> {
        let reply = wire.send(&redis::cmd("DLOCK.NODE")).await?;
        let Some((id, role)) = read(&reply) else {
            let text = "its answer to DLOCK.NODE cannot be understood".to_owned();
            return Err(NodeError::Refused(text));
        };
        if role == "replica" {
            let text = "it is a replica; give the address of its primary".to_owned();
            return Err(NodeError::Unfit(text));
        }
        self.enter(node, id)
    }

    fn enter(&self, node: usize, id: String) -> Result<(), NodeError> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ids.iter().enumerate();
        let twin = known
            .filter(|(other, _)| *other != node)
            .find(|(_, known)| known.as_deref() == Some(id.as_str()));
        if let Some((twin, _)) = twin {
            let other = self.addresses.get(twin).cloned().unwrap_or_default();
            return Err(NodeError::Duplicate { other, id });
        }
        if let Some(entry) = ids.get_mut(node) {
            *entry = Some(id);
        }
        Ok(())
    }
}

/// The node's name and role.
fn read(reply: &Value) -> Option<(String, String)> {
    let fields = Fields::of(reply)?;
    let id = fields.text("node-id");
    (!id.is_empty()).then(|| (id, fields.text("role")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_under_two_addresses_is_noticed_until_one_of_them_leads_elsewhere() {
        let roster = Roster::new(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(roster.enter(0, "x".to_owned()), Ok(()));
        assert_eq!(roster.enter(0, "x".to_owned()), Ok(()));
        let twin = NodeError::Duplicate { other: "a".to_owned(), id: "x".to_owned() };
        assert_eq!(roster.enter(1, "x".to_owned()), Err(twin));
        assert_eq!(roster.enter(0, "y".to_owned()), Ok(()));
        assert_eq!(roster.enter(1, "x".to_owned()), Ok(()));
    }
}
