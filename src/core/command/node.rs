//! `DLOCK.NODE`

use super::Doc;

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.NODE",
    summary: "Shows whether this node grants, and if not, why and for how long; its fences and leases",
    complexity: "O(1)",
    arity: 1,
    flags: "readonly fast",
    acl: "read fast",
    key: None,
    args: &[],
};
