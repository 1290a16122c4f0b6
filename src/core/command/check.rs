//! `DLOCK.CHECK key token`

use super::{Arg, Doc, Touch};

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.CHECK",
    summary: "Replies with the fence if the token holds the lock now, else null",
    complexity: "O(1); O(log(N)) where N is the number of holders",
    arity: 3,
    flags: "readonly fast",
    acl: "read fast",
    key: Some(Touch::Reads),
    args: &[Arg::KEY, Arg::TOKEN],
};

pub use super::release::parse;
