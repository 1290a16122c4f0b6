//! Finds the present holder of a lock, or the holder that left it done, for the text of an error.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;

use crate::inspect::{DoneInfo, HolderInfo, Inspection};
use crate::key::Key;
use crate::reach::node::Node;
use crate::report::{NodeState, Report};
use crate::shared::Shared;

/// Asks the nodes that report the lock as held. Returns the holder that most of them name, or `None` if no
/// node answers in time.
pub(crate) async fn find(
    shared: &Shared,
    key: &Key,
    nodes: &[Report],
    within: Duration,
) -> Option<HolderInfo> {
    let is_held = |state: &NodeState| *state == NodeState::Held;
    let known = ask_all(shared, key, nodes, within, is_held).await.into_iter();
    let known: Vec<(HolderInfo, &Arc<Node>)> =
        known.filter_map(|(found, node)| Some((found.holders.into_iter().next()?, node))).collect();
    let votes =
        |holder: &HolderInfo| known.iter().filter(|(other, _)| other.fence == holder.fence).count();
    // The first of those with the most votes.
    let (holder, node) = known.iter().rev().max_by_key(|(holder, _)| votes(holder))?;
    let address = match holder.client {
        Some(client) => timeout(within, address(node, key, client)).await.ok().flatten(),
        None => None,
    };
    Some(HolderInfo { address, ..holder.clone() })
}

/// Asks the nodes that report the lock as done. Returns the holder with this fence.
pub(crate) async fn find_done(
    shared: &Shared,
    key: &Key,
    (nodes, fence): (&[Report], u64),
    within: Duration,
) -> Option<DoneInfo> {
    let is_done = |state: &NodeState| matches!(state, NodeState::Done(_));
    let found = ask_all(shared, key, nodes, within, is_done).await.into_iter();
    found.filter_map(|(found, _)| found.done).find(|done| done.fence == fence)
}

async fn ask_all<'a>(
    shared: &'a Shared,
    key: &Key,
    nodes: &[Report],
    within: Duration,
    are: impl Fn(&NodeState) -> bool,
) -> Vec<(Inspection, &'a Arc<Node>)> {
    let asked = shared.nodes.iter().zip(nodes).filter(|(_, report)| are(&report.state));
    let found =
        join_all(asked.map(|(node, _)| async move { (ask(node, key, within).await, node) }));
    found.await.into_iter().filter_map(|(found, node)| Some((found?, node))).collect()
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
