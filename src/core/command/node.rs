//! `DLOCK.NODE`

use super::Doc;

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.NODE",
    summary: "Shows this node: whether it grants, its fence counter, its leases and waiters",
    complexity: "O(1)",
    arity: 1,
    flags: "readonly fast",
    acl: "read fast",
    key: None,
    args: &[],
};
