//! The library's errors, in the words of a node.

use std::time::Duration;

use dlock_client::{Error, Loss, LossReason, NodeState, Report};
use dlock_core::{Fence, Millis, Reason};

use super::lease::shortened;
use super::reply::Reply;

/// The reply for a lock that was not acquired, or not extended. Where nodes refuse, it has their code.
pub fn reply(error: &Error) -> Reply {
    match error {
        Error::Held { .. } => Reply::Null,
        // A waiter's lease was not extended to the length that was asked for.
        Error::Lost(loss) => Reply::error(format_args!("{NO_QUORUM} {loss}")),
        Error::Done { left, fence, .. } => {
            Reply::error(Reason::Done { left: Some(millis(*left)), fence: Fence(*fence) })
        }
        Error::NoQuorum { needed, nodes, .. } | Error::Connect { needed, nodes } => {
            match error.retry_after() {
                Some(wait) => Reply::error(format_args!(
                    "QUARANTINE {} ms until grants resume: nodes may have forgotten locks: {}",
                    wait.as_millis(),
                    listed(nodes)
                )),
                None => no_quorum(*needed, nodes),
            }
        }
        Error::TooLong { ttl, limit, .. } => Reply::error(too_long(millis(*ttl), millis(*limit))),
        Error::Refused { nodes, .. } => {
            let all = || Reply::error(format_args!("ERR nodes refuse: {}", listed(nodes)));
            refused(nodes).unwrap_or_else(all)
        }
        other => Reply::error(format_args!("ERR {other}")),
    }
}

/// The reply when no majority answers. A single node's refusal has its code.
pub fn no_quorum(needed: usize, nodes: &[Report]) -> Reply {
    let (all, listed) = (nodes.len(), listed(nodes));
    let text = || Reply::Error(format!("{NO_QUORUM} {needed} of {all} nodes are needed: {listed}"));
    refused(nodes).filter(|_| all == 1).unwrap_or_else(text)
}

/// The reply for a lease that was not granted. The agent asks nodes for more than the caller's length, so the numbers
/// are converted to the caller's.
pub fn of_lease(error: &Error, ttl: Millis) -> Reply {
    match error {
        Error::TooLong { limit, .. } => Reply::error(too_long(ttl, shortened(millis(*limit)))),
        other => reply(other),
    }
}

fn too_long(Millis(given): Millis, Millis(most): Millis) -> Reason {
    Reason::TooLong { given, most }
}

fn millis(length: Duration) -> Millis {
    Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// The reply for a lock that was not left done. Where nodes refuse, it has their code.
pub fn not_done(loss: &Loss) -> Reply {
    match &loss.why {
        LossReason::NotDone { nodes } => {
            refused(nodes).unwrap_or_else(|| Reply::error(format_args!("{NO_QUORUM} {loss}")))
        }
        LossReason::Ended { .. } => Reply::Int(0),
        // Nodes that have not answered may have the completion record.
        _ => Reply::error(format_args!("{NO_QUORUM} {loss}")),
    }
}

/// The words of the first node that refuses, with its code.
fn refused(nodes: &[Report]) -> Option<Reply> {
    nodes.iter().find_map(|report| match &report.state {
        NodeState::Refused(text) => Some(Reply::error(text)),
        _ => None,
    })
}

/// The nodes and their states, on one line.
fn listed(nodes: &[Report]) -> String {
    let all: Vec<String> =
        nodes.iter().map(|report| report.to_string().replace('\n', " ")).collect();
    all.join("; ")
}

/// The code when no majority answers.
pub const NO_QUORUM: &str = "NOQUORUM";
