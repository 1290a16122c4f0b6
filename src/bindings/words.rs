//! What an error tells, in the same words and codes everywhere.

use dlock_client::{Error, Key, Loss, LossReason, Report};

/// What an error is about.
pub struct About<'a> {
    /// A word for programs, as `dlock --json` gives it.
    pub code: &'static str,
    /// The lock.
    pub key: Option<&'a Key>,
    /// What each node said.
    pub nodes: &'a [Report],
}

/// What this error is about.
#[must_use]
pub fn about(error: &Error) -> About<'_> {
    let (code, key, nodes) = match error {
        Error::Lost(loss) => ("lost", Some(&loss.key), reports(loss)),
        Error::Held { key, nodes, .. } => ("held", Some(key), nodes.as_slice()),
        Error::NoQuorum { key, nodes, .. } => ("no_quorum", Some(key), nodes.as_slice()),
        Error::Refused { key, nodes } => ("refused", Some(key), nodes.as_slice()),
        Error::Connect { nodes, .. } => ("no_quorum", None, nodes.as_slice()),
        Error::Usage(_) | Error::Duplicate { .. } => ("usage", None, [].as_slice()),
        _ => ("internal", None, [].as_slice()),
    };
    About { code, key, nodes }
}

/// What each node said when a lock was lost.
#[must_use]
pub fn reports(loss: &Loss) -> &[Report] {
    match &loss.why {
        LossReason::NotRenewed { nodes } | LossReason::Ended { nodes } => nodes,
        _ => &[],
    }
}

/// Of a lock whose client has panicked.
#[must_use]
pub fn broken(key: &Key, fence: u64) -> String {
    format!("lock {key:?} (fence {fence}) counts as lost: its client has panicked")
}

/// Of a panic, with its words.
#[must_use]
pub fn defect(words: &str) -> String {
    format!("a defect of dlock, please report it: {words}")
}
