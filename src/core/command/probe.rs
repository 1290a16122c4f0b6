//! `DLOCK.PROBE key`: does nothing, but is a write in the server's eyes.
//!
//! The module calls it to learn whether the server would let a client write to the key now. No
//! command of the server's own serves: each can be renamed, and do harm if it is carried out.

use super::{Arg, Doc, Touch};

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.PROBE",
    summary: "Internal: does nothing, where the server lets a client write to the key",
    complexity: "O(1)",
    arity: 2,
    flags: "write admin fast",
    acl: "write admin dangerous",
    key: Some(Touch::Changes),
    args: &[Arg::KEY],
};
