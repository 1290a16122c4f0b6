//! `DLOCK.NODE`

use super::Doc;

/// How the command is documented. Not in the category `read`: it shows the paths of files, and
/// who may read data need not know those.
pub const DOC: Doc = Doc {
    name: "DLOCK.NODE",
    summary: "Shows whether this node grants, and if not, why and for how long; its fences and leases",
    complexity: "O(1)",
    arity: 1,
    flags: "readonly fast",
    acl: "fast",
    key: None,
    args: &[],
};
