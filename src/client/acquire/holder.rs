//! Finds the present holder of a lock, or the holder that left it done, for the text of an error.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::time::timeout;

use crate::inspect::{DoneInfo, HolderInfo, Inspection};
use crate::key::Key;
use crate::reach::node::Node;
use crate::report::{NodeState, Report};
use crate::shared::Shared;
use crate::traffic::request::Wanted;

/// Asks the nodes that report the lock as held. Returns the holder that most of them name, or `None` if no
/// node answers in time.
pub(crate) async fn find(
    shared: &Shared,
    wanted: &Wanted,
    nodes: &[Report],
    within: Duration,
) -> Option<HolderInfo> {
    let key = &wanted.key;
    let mut known: Vec<(HolderInfo, &Arc<Node>)> = Vec::new();
    let search = async {
        let asked = shared.nodes.iter().zip(nodes);
        let asked = asked.filter(|(_, report)| report.state == NodeState::Held);
        let found = join_all(asked.map(|(node, _)| async move {
            let first = ask(node, key, within).await?.holders.into_iter().next()?;
            Some((first, node))
        }));
        known = found.await.into_iter().flatten().collect();
        let votes = |holder: &HolderInfo| {
            known.iter().filter(|(other, _)| other.fence == holder.fence).count()
        };
        // The first of those with the most votes.
        let (holder, node) = known.iter().rev().max_by_key(|(holder, _)| votes(holder))?;
        let address = match holder.client {
            Some(client) => address(node, key, client).await,
            None => None,
        };
        Some(HolderInfo { address, ..holder.clone() })
    };
    timeout(within, search).await.ok().flatten()
}

/// Asks the nodes that report the lock as done. Returns the holder of this fence from the first answer.
pub(crate) async fn find_done(
    shared: &Shared,
    key: &Key,
    (nodes, fence): (&[Report], u64),
    within: Duration,
) -> Option<DoneInfo> {
    let asked = shared.nodes.iter().zip(nodes);
    let asked = asked.filter(|(_, report)| matches!(report.state, NodeState::Done(_)));
    let mut answers: FuturesUnordered<_> =
        asked.map(|(node, _)| async move { ask(node, key, within).await?.done }).collect();
    let search = async {
        while let Some(done) = answers.next().await {
            if let Some(done) = done.filter(|done| done.fence == fence) {
                return Some(done);
            }
        }
        None
    };
    timeout(within, search).await.ok().flatten()
}

async fn ask(node: &Arc<Node>, key: &Key, within: Duration) -> Option<Inspection> {
    let reply = node.ask(redis::cmd("DLOCK.INSPECT").arg(key.as_bytes()), within, |_| Ok(())).await;
    Inspection::read(&node.counted(reply).ok()?).ok()?
}

/// The address of a client's connection, if this user may run CLIENT LIST.
async fn address(node: &Arc<Node>, key: &Key, client: u64) -> Option<String> {
    let mut command = redis::cmd("CLIENT");
    command.arg("LIST").arg("ID").arg(client);
    let list = match node.send_where(key, &command).await.ok()? {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
        _ => return None,
    };
    let address = list.split_ascii_whitespace().find_map(|word| word.strip_prefix("addr="))?;
    (!address.is_empty()).then(|| address.to_owned())
}
