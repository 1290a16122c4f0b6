//! `DLOCK.HELP`

use super::Doc;

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.HELP",
    summary: "Shows all commands",
    complexity: "O(1)",
    arity: 1,
    flags: "readonly fast",
    acl: "read fast",
    key: None,
    args: &[],
};
