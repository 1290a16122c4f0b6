//! `DLOCK.BREAK key [token]`

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.BREAK",
    summary: "Ends every lease on a key, or one token's, and hands the lock to the next waiters; replies with the number ended",
    complexity: "O(N) where N is the number of leases ended",
    arity: -2,
    flags: "write admin",
    acl: "write admin dangerous",
    key: Some(Touch::Removes),
    args: &[Arg::KEY, Arg { optional: true, ..Arg::plain("token", Kind::Text) }],
};

/// Reads the arguments after the key: the token, if one is given.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Option<&'a [u8]>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = args.take().map(read::token).transpose()?;
    args.end()?;
    Ok(token)
}
