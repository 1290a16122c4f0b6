//! `DLOCK.TOKENS key`

use super::{Arg, Doc, Touch};

/// The command's documentation. Not in the category `read`: a client that has a token can release its lock.
pub const DOC: Doc = Doc {
    name: "DLOCK.TOKENS",
    summary: "Shows the holders and waiters of a lock with their tokens, with which a client can release it",
    complexity: "O(N) where N is the number of holders and waiters listed, at most 200",
    arity: 2,
    flags: "readonly admin",
    acl: "admin dangerous",
    key: Some(Touch::Reads),
    args: &[Arg::KEY],
};
