//! Types and helpers of all checks.

use std::time::Duration;

use super::facts::{Facts, NodeAnswers};
use super::finding::Finding;
use dlock_client::LockOptions;

use crate::say::duration;

/// A check of one node.
pub type Check = fn(&NodeAnswers) -> Option<Finding>;

/// A check of all nodes together.
pub type SetCheck = fn(&[Facts]) -> Vec<Finding>;

/// A time, for people.
pub fn shown(ms: i64) -> String {
    duration::shown(Duration::from_millis(ms.unsigned_abs()))
}

/// Lease that is assumed where its length is not known.
pub const USUAL_TTL_MS: i64 = LockOptions::DEFAULT_TTL.as_millis() as i64;
