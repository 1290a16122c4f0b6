//! `DLOCK.INSPECT key`

use super::{Arg, Doc, Touch};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.INSPECT",
    summary: "Shows the holders and waiters of a lock, without their tokens; null if it is free",
    complexity: "O(N) where N is the number of holders and waiters listed, at most 200",
    arity: 2,
    flags: "readonly fast",
    acl: "read fast",
    key: Some(Touch::Reads),
    args: &[Arg::KEY],
};
