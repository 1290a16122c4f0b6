//! Who holds a lock, for `dlock.compat`.

use std::future::Future;

use dlock_client::{Client, Error, Key, NodeState, Report};

/// Whether anybody holds the lock at any node, and the fences of the holders.
pub(crate) fn holders(
    client: &Client,
    key: Key,
) -> impl Future<Output = Result<(bool, Vec<u64>), Error>> + Send + use<> {
    let client = client.clone();
    async move {
        let (mut is_held, mut fences, mut nodes) = (false, Vec::new(), Vec::new());
        for (node, seen) in client.inspect(&key).await {
            let state = match seen {
                Ok(inspection) => {
                    let inspection = inspection.unwrap_or_default();
                    is_held |= inspection.is_held();
                    fences.extend(inspection.holders.iter().map(|holder| holder.fence));
                    NodeState::Answers
                }
                Err(error) => error.into(),
            };
            nodes.push(Report { node, state });
        }
        let answering = nodes.iter().filter(|report| report.state == NodeState::Answers).count();
        let needed = client.size() / 2 + 1;
        if answering < needed {
            return Err(Error::NoQuorum { key, needed, nodes });
        }
        Ok((is_held, fences))
    }
}
