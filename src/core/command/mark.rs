//! `DLOCK.MARK mark`

use super::{Arg, Doc, Kind, Touch};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.MARK",
    summary: "Replies with the largest fence that a mark has seen, or null",
    complexity: "O(1)",
    arity: 2,
    flags: "readonly fast",
    acl: "read fast",
    key: Some(Touch::Reads),
    args: &[Arg::plain("mark", Kind::Key)],
};
