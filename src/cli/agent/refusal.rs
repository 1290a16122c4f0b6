//! The library's errors, in the words of a node.

use dlock_client::{Error, Loss, LossReason, NodeState, Report};
use dlock_core::command::Refusal;
use dlock_core::{Fence, Millis, Reason};

use super::lease::shortened;
use super::reply::Reply;

/// The reply for a lock that was not acquired, or not extended. Where nodes refuse, it has their code.
pub fn reply(error: &Error) -> Reply {
    match error {
        Error::Held { .. } => Reply::Null,
        Error::Lost(_) => Reply::Int(0),
        Error::Done { left, fence, .. } => {
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            Reply::error(Reason::Done { left: Some(Millis(left)), fence: Fence(*fence) })
        }
        Error::NoQuorum { needed, nodes, .. } | Error::Connect { needed, nodes } => {
            match error.retry_after() {
                Some(wait) => Reply::error(format_args!(
                    "QUARANTINE {} ms left: nodes may have forgotten locks, and grant none: {}",
                    wait.as_millis(),
                    listed(nodes)
                )),
                None => refused(nodes).filter(|_| nodes.len() == 1).unwrap_or_else(|| {
                    Reply::error(format_args!(
                        "{NO_QUORUM} {needed} of {} nodes are needed: {}",
                        nodes.len(),
                        listed(nodes)
                    ))
                }),
            }
        }
        Error::Refused { nodes, .. } => {
            let all = || Reply::error(format_args!("ERR nodes refuse: {}", listed(nodes)));
            refused(nodes).unwrap_or_else(all)
        }
        other => Reply::error(format_args!("ERR {other}")),
    }
}

/// The reply for a lease that was not granted. Nodes that do not grant as much were asked for more than the caller has
/// asked for: the numbers are the caller's.
pub fn of_lease(error: &Error, ttl: Millis) -> Reply {
    let said = reply(error);
    let Reply::Error(text) = &said else { return said };
    let most = text.strip_prefix(TOO_LONG).and_then(|rest| rest.split(',').next()?.parse().ok());
    let Some(most) = most else { return said };
    let (most, given) = (shortened(Millis(most)).0, ttl.0.to_string());
    Reply::error(Refusal::Number { what: "ttl-ms", least: 1, most, given: given.as_bytes() })
}

/// The reply for a lock that was not left done. Where nodes refuse, it has their code.
pub fn not_done(loss: &Loss) -> Reply {
    match &loss.why {
        LossReason::NotDone { nodes } => {
            refused(nodes).unwrap_or_else(|| Reply::error(format_args!("{NO_QUORUM} {loss}")))
        }
        LossReason::Ended { .. } => Reply::Int(0),
        // Nodes whose answers are missing may have the mark.
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
pub fn listed(nodes: &[Report]) -> String {
    let all: Vec<String> =
        nodes.iter().map(|report| report.to_string().replace('\n', " ")).collect();
    all.join("; ")
}

/// The words of a node that grants no lease of this length.
const TOO_LONG: &str = "ERR ttl-ms must be a whole number from 1 to ";
/// The code when no majority answers.
pub const NO_QUORUM: &str = "NOQUORUM";
