//! `DLOCK.PROMISE fence bound-ms clock`: what a primary has promised in its state file, for its replicas.
//!
//! Replication may lag. A replica that becomes a primary starts above the fence, and waits for as
//! long as the bound says, even if the last grants never arrived.

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal};
use crate::limits::MAX_FENCE;
use crate::promise::Promise;
use crate::words::{Fence, Millis};

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.PROMISE",
    summary: "Internal: tells replicas what their primary has promised in its state file",
    complexity: "O(1)",
    arity: 4,
    flags: "write admin",
    acl: "write admin dangerous",
    key: None,
    args: &[
        Arg::plain("fence", Kind::Number),
        Arg::plain("bound-ms", Kind::Number),
        Arg::plain("clock", Kind::Number),
    ],
};

/// Reads the arguments.
///
/// # Errors
/// Unless they are three numbers.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Promise, Refusal<'a>> {
    let mut args = Args::new(args);
    let fence = read::number("fence", args.need()?, 0, MAX_FENCE)?;
    let bound = read::number("bound-ms", args.need()?, 0, MAX_BOUND)?;
    let unix = read::number("clock", args.need()?, 0, MAX_FENCE)?;
    args.end()?;
    Ok(Promise { fence: Fence(fence), unix, bound: Millis(bound) })
}

/// More than any lease, rounded up.
const MAX_BOUND: u64 = 1 << 33;
