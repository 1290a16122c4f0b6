//! `DLOCK.NODE`

use super::Doc;

/// The command's documentation. Not in the category `read`: it shows paths of files, which clients that read
/// data do not need.
pub const DOC: Doc = Doc {
    name: "DLOCK.NODE",
    summary: "Shows whether this node grants locks; if not, the reason and the time left; its fences and leases",
    complexity: "O(1)",
    arity: 1,
    flags: "readonly fast",
    acl: "fast",
    key: None,
    args: &[],
};
