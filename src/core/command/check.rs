//! `DLOCK.CHECK key token`

use super::read::{self, Args};
use super::{Arg, Doc, Refusal, Touch};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.CHECK",
    summary: "Replies with the fence if the token holds the lock now, else null",
    complexity: "O(1); O(log(N)) where N is the number of holders",
    arity: 3,
    flags: "readonly fast",
    acl: "read fast",
    key: Some(Touch::Reads),
    args: &[Arg::KEY, Arg::TOKEN],
};

/// Reads the arguments after the key: the token.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<&'a [u8], Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    args.end()?;
    Ok(token)
}
