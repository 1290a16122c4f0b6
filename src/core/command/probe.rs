//! `DLOCK.PROBE key`: changes nothing, but counts as a write for the server.
//!
//! The module calls this command to learn if the server would accept a client's write to the key now. The
//! server's own commands do not serve: each can be renamed, and changes data if it is carried out.

use super::{Arg, Doc, Touch};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.PROBE",
    summary: "Internal: does nothing, and succeeds only if a client may write to the key",
    complexity: "O(1)",
    arity: 2,
    flags: "write admin fast",
    acl: "write admin dangerous",
    key: Some(Touch::Changes),
    args: &[Arg::KEY],
};
