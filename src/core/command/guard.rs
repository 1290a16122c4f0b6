//! `DLOCK.GUARD key token command [argument …]`

use super::{Arg, Doc, Kind, Refusal, Touch, inner, read};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: inner::GUARD,
    summary: "Carries out a command if the token holds the lock now; else NOTHELD, and nothing \
              happens",
    complexity: "That of the command, and O(1); O(log(N)) where N is the number of holders",
    arity: -4,
    flags: "write getkeys-api",
    acl: "write",
    key: Some(Touch::Reads),
    args: &[Arg::KEY, Arg::TOKEN, Arg::plain("command", Kind::Text), Arg::rest("argument")],
};

/// Position of the inner command; this command's name is at 0.
pub const INNER: usize = 3;

/// Reads the token, and checks the inner command's name.
///
/// # Errors
/// Fails if the token is none, or the inner command cannot be guarded.
pub fn parse<'a>(token: &'a [u8], inner: &'a [u8]) -> Result<&'a [u8], Refusal<'a>> {
    inner::check(inner)?;
    read::token(token)
}
