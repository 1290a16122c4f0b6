//! `DLOCK.FENCED mark fence [command [argument …]]`
//!
//! Replicas and the AOF get it without a command: it sets the mark to the fence, or removes the mark if the
//! fence is 0.

use super::{Arg, Doc, Kind, Refusal, Touch, inner, read};
use crate::durability::mark;
use crate::limits::MAX_FENCE;
use crate::words::Fence;

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.FENCED",
    summary: "Raises a mark to a fence and runs a command; STALE if the mark has seen a larger fence",
    complexity: "That of the command, and O(1)",
    arity: -3,
    flags: "write getkeys-api",
    acl: "write",
    key: Some(Touch::Makes),
    args: &[
        Arg::plain("mark", Kind::Key),
        Arg::plain("fence", Kind::Number),
        Arg { optional: true, ..Arg::plain("command", Kind::Text) },
        Arg::rest("argument"),
    ],
};

/// Position of the inner command, if there is one; this command's name is at 0.
pub const INNER: usize = 3;

/// Reads the fence, and checks the inner command's name.
///
/// Fails if the fence is invalid, or the inner command cannot be carried out here.
pub fn parse<'a>(fence: &'a [u8], inner: Option<&'a [u8]>) -> Result<Fence, Refusal<'a>> {
    let fence = Fence(read::number("fence", fence, 1, MAX_FENCE)?);
    inner.map_or(Ok(()), inner::check)?;
    Ok(fence)
}

/// Reads the fence of a mark from a primary or a log; `None`: there is no mark.
///
/// # Errors
/// Fails if it is not a fence.
pub fn effect(fence: &[u8]) -> Result<Option<Fence>, Refusal<'_>> {
    read::number("fence", fence, 0, MAX_FENCE).map(mark::stored)
}
