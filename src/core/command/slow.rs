//! `DLOCK.SLOW [n]`

use super::hot::count;
use super::{Arg, Doc, Kind, Refusal};
use crate::limits::{DEFAULT_SLOW_LISTED, SLOW_ENTRIES};

/// The command's documentation. Its categories are those of SLOWLOG: it shows keys and META of others.
pub const DOC: Doc = Doc {
    name: "DLOCK.SLOW",
    summary: "Lists the last slow waits and long holds, the newest first",
    complexity: "O(N) where N is the number of entries listed, at most 128",
    arity: -1,
    flags: "readonly admin",
    acl: "admin slow dangerous",
    key: None,
    args: &[Arg { name: "n", word: None, kind: Kind::Number, optional: true }],
};

/// Reads the number of entries wanted.
///
/// # Errors
/// Fails if that is not a number that is documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<usize, Refusal<'a>> {
    count(args, DEFAULT_SLOW_LISTED, SLOW_ENTRIES)
}
