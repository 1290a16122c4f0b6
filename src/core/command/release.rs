//! `DLOCK.RELEASE key token`

use super::read::{self, Args};
use super::{Arg, Doc, Refusal, Touch};

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.RELEASE",
    summary: "Gives a lock back and hands it to the next waiters; replies 1, or 0 if the token did not hold it",
    complexity: "O(1); O(log(N)) where N is the number of holders or of waiters",
    arity: 3,
    flags: "write fast",
    acl: "write fast",
    key: Some(Touch::Removes),
    args: &[Arg::KEY, Arg::TOKEN],
};

/// Reads the arguments after the key: the token.
///
/// # Errors
/// When an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<&'a [u8], Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    args.end()?;
    Ok(token)
}
